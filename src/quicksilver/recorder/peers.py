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
from quicksilver.recorder.errors import PeerError

CONTROL_GROUP = "quicksilver.recorders"
ANNOUNCE_S = 2.0
FORGET_S = 10.0
PEERS_MAX = 256
GROUPS_MAX = 10_000


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

    async def _announce(self, group: Group) -> None:
        while True:
            await group.send(_encoder.encode(Announcement(self._address, self._groups)))
            await asyncio.sleep(ANNOUNCE_S)

    async def _listen(self, group: Group) -> None:
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
