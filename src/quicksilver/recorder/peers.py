"""Recorders that know each other, and fill each other's gaps.

Recorders announce themselves in a group of their own, through a node of their
own: a node that is in one group more than others would be a region of its own,
and every message to the recorded groups would be sent once more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import msgspec

from quicksilver.node.aio import Group, Node
from quicksilver.node.errors import ClosedError
from quicksilver.node.options import NodeOptions
from quicksilver.recorder.client import RecorderClient
from quicksilver.recorder.coverage import Coverage, Source
from quicksilver.recorder.errors import PeerError
from quicksilver.recorder.group_log import GroupLog
from quicksilver.stdx.ranges import RangeSet

CONTROL_GROUP = "quicksilver.recorders"
ANNOUNCE_S = 2.0
FORGET_S = 10.0
PEERS_MAX = 256
GROUPS_MAX = 10_000
IN_FLIGHT_S = 1.0
"""Wait so long before fetching: what this recorder lacks may be on its way here."""
SENDERS_A_ROUND_MAX = 1_000
RANGES_A_SENDER_MAX = 100


class Announcement(msgspec.Struct, frozen=True):
    """Where a recorder answers, and what it records."""

    address: str
    groups: list[str]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Announcement)


def parse_announcement(payload: bytes) -> Announcement | None:
    """Read an announcement; None if it is none."""
    try:
        found = _decoder.decode(payload)
    except (msgspec.MsgspecError, ValueError):
        return None
    if len(found.groups) > GROUPS_MAX or len(found.address) > 300:
        return None
    return found


class Peers:
    """Finds other recorders and asks each for what is lacking here."""

    def __init__(
        self,
        *,
        gms: str,
        options: NodeOptions,
        address: str,
        groups: Sequence[str],
        fixed: Sequence[str],
        fetch: Callable[[str, str], Awaitable[None]],
        forget: Callable[[AbstractSet[str]], None],
    ) -> None:
        """``fetch`` takes a group and an address; ``forget`` the addresses that are known."""
        self._gms = gms
        self._options = options
        self._address = address
        self._groups = list(groups)
        self._fixed = tuple(fixed)
        self._fetch = fetch
        self._forget = forget
        self._known: dict[str, tuple[float, list[str]]] = {}
        """When a recorder was last heard of, and which of our groups it records."""
        self.problems: dict[str, str] = {}
        """The last problem with each recorder that is known, in one line."""
        self.garbage = 0
        """Announcements that were none."""

    @property
    def addresses(self) -> list[str]:
        """The recorders that are known now."""
        return sorted({*self._fixed, *self._known})

    async def run(self) -> None:
        """Announce, listen and fetch until cancelled."""
        # An announcement that may be lost is followed by the next one: nothing to raise for.
        options = replace(self._options, name="", port=0, on_unconfirmed=lambda _: None)
        async with Node(self._gms, options) as node:
            group = await node.join(CONTROL_GROUP)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._listen(group))
                if self._address:
                    tasks.create_task(self._announce(group))
                tasks.create_task(self._fetch_by_clock())

    async def _announce(self, group: Group[bytes]) -> None:
        while True:
            await group.send(_encoder.encode(Announcement(self._address, self._groups)))
            await asyncio.sleep(ANNOUNCE_S)

    async def _listen(self, group: Group[bytes]) -> None:
        while True:
            try:
                batch = await group.receive_batch()
            except ClosedError:
                return
            for payload in batch.payloads:
                found = parse_announcement(payload)
                if found is None:
                    self.garbage += 1
                elif found.address in self._known or len(self._known) < PEERS_MAX:
                    shared = [group for group in self._groups if group in set(found.groups)]
                    self._known[found.address] = (time.monotonic(), shared)

    async def _fetch_by_clock(self) -> None:
        while True:
            now = time.monotonic()
            self._known = {
                address: (seen, groups)
                for address, (seen, groups) in self._known.items()
                if now - seen < FORGET_S
            }
            plan = dict.fromkeys(self._fixed, self._groups)
            plan.update((address, groups) for address, (_, groups) in self._known.items())
            for address in self.problems.keys() - plan.keys():
                del self.problems[address]
            self._forget(plan.keys())
            for address, groups in sorted(plan.items()):
                await self._fetch_from(address, groups)
            await asyncio.sleep(ANNOUNCE_S)

    async def _fetch_from(self, address: str, groups: list[str]) -> None:
        try:
            for group in groups:
                await self._fetch(group, address)
            self.problems.pop(address, None)
        except PeerError as error:
            self.problems[address] = str(error)


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
            raise PeerError(address, "sent ranges that cannot be read")
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
