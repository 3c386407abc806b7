"""Filling the gaps of one log from another recorder's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from quicksilver.recorder.client import RecorderClient
from quicksilver.recorder.coverage import Coverage, Source
from quicksilver.recorder.errors import PeerError
from quicksilver.recorder.grouplog import GroupLog
from quicksilver.stdx.ranges import RangeSet

IN_FLIGHT_S = 1.0
"""Wait so long before fetching: what this recorder lacks may be on its way here."""
SENDERS_A_ROUND_MAX = 1_000
RANGES_A_SENDER_MAX = 100


async def fetch_missing(
    log: GroupLog,
    address: str,
    flush: Callable[[GroupLog], Awaitable[None]],
    tried: Coverage,
) -> int:
    """Take what another recorder has and this one lacks; return how many messages.

    Raises PeerError. Very many gaps take several calls. What their coverage has
    and their log has not (a repeat that they dropped, a row that retention took)
    is noted in ``tried`` and not asked for again. Damage in their log is told when
    the rest has been taken.
    """
    damage: list[str] = []
    with RecorderClient(address) as client:
        state = await asyncio.to_thread(client.state, log.group)
        theirs = Coverage.parse(state.coverage)
        if theirs is None:
            raise PeerError(address, "sent ranges that are none")
        if not _lacking(theirs, log.coverage, tried):
            return 0
        await asyncio.sleep(IN_FLIGHT_S)
        wanted = _lacking(theirs, log.coverage, tried)
        fetched, offset = 0, state.first
        while wanted and offset < state.past:
            batches, following = await asyncio.to_thread(
                client.rows, log.group, offset, wanted, damage
            )
            for batch in batches:
                fetched += log.take_recorded(batch)
                if log.writer.is_full:
                    await flush(log)
            if following <= offset:
                break
            offset = following
        for (cluster, sender), ranges in wanted.items():
            for start, stop in ranges:
                tried.add(cluster, sender, start, stop)
    if damage:
        raise PeerError(address, damage[0])
    return fetched


def _lacking(theirs: Coverage, ours: Coverage, tried: Coverage) -> dict[Source, RangeSet]:
    """Return what to ask for, as much as one question may."""
    found: dict[Source, RangeSet] = {}
    for source, ranges in theirs.missing_from(ours).items():
        left = ranges.difference(tried.ranges(*source))
        if left:
            found[source] = left.head(RANGES_A_SENDER_MAX)
            if len(found) == SENDERS_A_ROUND_MAX:
                break
    return found
