"""Who is asked for what this node lacks: a neighbour, a keeper, or the sender.

Each packet is kept by some nodes of one partition (dissertation 4.2.1 C), so most of
what is lost is asked of them. The sender is asked for what nobody there holds, and
for what was asked of others in vain.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quicksilver.multicast.agents import HELD_CHECKED_MAX
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.domains import Hierarchy
from quicksilver.multicast.interfaces import Kept, trimmed
from quicksilver.multicast.receive import ReceiveStream
from quicksilver.stdx.rand import Rng
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trace import records as trace
from quicksilver.trace.records import Tracer
from quicksilver.wire.control import Nak, Pull
from quicksilver.wire.gms import ClusterSettings

PULLS_AT_ONCE = 256
"""Packets asked of one node in one request."""

TRIES_BEFORE_NAK = 6
"""Requests to peers that went unanswered before the sender itself is asked."""

Tell = Callable[[int, Callable[[], Pull | Nak | None]], None]
"""Send a node what a function makes when it can leave, unless that is nothing."""


class AskingHost(Protocol):
    """What asking needs from the engine."""

    node: int
    cluster: int
    config: EngineConfig
    settings: ClusterSettings
    counters: Counters
    rng: Rng
    tracer: Tracer | None


class Asking:
    """The requests of one node in one region view."""

    def __init__(self, host: AskingHost, region: int, view: int, tell: Tell) -> None:
        self._host = host
        self._region = region
        self._view = view
        self._tell = tell
        self._replication = host.settings.replication
        self._hierarchy = Hierarchy((host.node,), 2)
        self._failed: frozenset[int] = frozenset()
        self._wanted: dict[int, tuple[RangeSet, float]] = {}
        """What a sender was asked for by NAK, and until when not to ask again."""

    def become_placed(self, hierarchy: Hierarchy, failed: frozenset[int]) -> None:
        """Take note of who keeps what, and of who has failed."""
        self._hierarchy = hierarchy
        self._failed = failed

    # Of members

    def pull(self, peer: int, stream: ReceiveStream, ranges: RangeSet, now: float) -> None:
        """Ask a member for packets, unless they were asked for just now."""
        host = self._host
        sender = stream.sender
        until = now + host.config.request_retry_s
        asked = RangeSet()
        in_vain = RangeSet()
        for sequence in ranges.values(PULLS_AT_ONCE):
            again_at, tries = stream.requested.get(sequence, (0.0, 0))
            if again_at <= now:
                stream.requested[sequence] = (until, tries + 1)
                asked.add(sequence, sequence + 1)
                if tries and tries % TRIES_BEFORE_NAK == 0:
                    in_vain.add(sequence, sequence + 1)
        if not asked:
            return
        if in_vain and not stream.sender_failed:
            # Those who should hold a copy do not answer: the sender has it still.
            self.send_nak(sender, in_vain)
        if host.tracer is not None:
            count = asked.count()
            host.tracer(
                trace.PacketsMissed(now, host.node, self._region, self._view, sender, count)
            )

        def make() -> Pull | None:
            lacking = asked.intersection(stream.missing)
            if not lacking:
                return None
            host.counters.pull_sent += 1
            flat, _ = trimmed(lacking, 0)
            return Pull(host.cluster, host.node, self._region, self._view, sender, flat)

        self._tell(peer, make)

    def pull_from_holders(self, stream: ReceiveStream, kept: Kept, now: float) -> None:
        """Ask for what others keep, each packet of one of its replicas.

        Other partitions' packets, and those of the own one that a neighbour in
        the ring need not have because fewer nodes keep a copy than are in it.
        ``kept`` says which packets have arrived where copies are kept: a cache may
        be full all the same, and what is asked for in vain is asked of the sender in
        the end.
        """
        hierarchy = self._hierarchy
        own = hierarchy.partition_of(self._host.node)
        neighbours_have_ours = self._replication >= len(hierarchy.partitions[own])
        by_peer: dict[int, RangeSet] = {}
        for sequence in stream.askable().values(PULLS_AT_ONCE):
            partition = hierarchy.caching_partition(sequence)
            if partition == own and neighbours_have_ours:
                continue
            if not kept.has(sequence):
                continue
            if stream.requested.get(sequence, (0.0, 0))[0] > now:
                continue
            holders = [n for n in self._living_holders(sequence) if n != self._host.node]
            if holders:
                peer = self._host.rng.choice(holders)
                by_peer.setdefault(peer, RangeSet()).add(sequence, sequence + 1)
        for peer in sorted(by_peer):
            self.pull(peer, stream, by_peer[peer], now)

    def _living_holders(self, sequence: int) -> list[int]:
        """Return the nodes that keep a packet and have not failed."""
        cachers = self._hierarchy.cachers(sequence, self._replication)
        return [node for node in cachers if node not in self._failed]

    # Of the sender

    def ours_to_ask_for(self, wanted: RangeSet) -> RangeSet:
        """Return what this partition keeps, or would if the one that does still lived."""
        hierarchy = self._hierarchy
        if len(hierarchy.partitions) == 1:
            return wanted
        own = hierarchy.partition_of(self._host.node)
        return RangeSet(
            (s, s + 1)
            for s in wanted.values(HELD_CHECKED_MAX)
            if hierarchy.caching_partition(s) == own or not self._living_holders(s)
        )

    def ask_sender(self, sender: int, wanted: RangeSet, now: float) -> None:
        """Ask for what nobody in the partition holds, unless it was asked for just now."""
        asked, until = self._wanted.get(sender, (RangeSet(), 0.0))
        if now < until and not wanted.difference(asked):
            return
        self._wanted[sender] = (wanted, now + self._host.config.request_retry_s)
        self.send_nak(sender, wanted)

    def send_nak(self, sender: int, wanted: RangeSet) -> None:
        """Ask the sender itself."""
        host = self._host

        def make() -> Nak:
            host.counters.nak_sent += 1
            flat, _ = trimmed(wanted, 0)
            return Nak(host.cluster, host.node, self._region, self._view, flat)

        self._tell(sender, make)
