"""Who is asked for what this node lacks: a neighbour, a keeper, or the sender.

Each packet is kept by some nodes of one partition (dissertation 4.2.1 C), so most of
what is lost is asked of them. The sender is asked for what nobody there holds, and
for what was asked of others in vain.
"""

from __future__ import annotations

from quicksilver.core.ports import Transmit
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.receiving.region import Region
from quicksilver.multicast.receiving.stream import ReceiveStream
from quicksilver.multicast.repair.reports import Kept, trim_ranges
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trace import records as trace
from quicksilver.wire.control import Nak, Pull, encode_control

PULLS_AT_ONCE = 256
"""Packets asked of one node in one request."""

UNDER_WAY_BYTES = 512 << 10
"""Repairs of one stream that are asked for and have not come: a part of what a switch holds …"""

UNDER_WAY_MIN = 8
"""… but this many packets however large."""

LOOKED_UP_MAX = 512
"""Packets of which it is looked up who keeps them, in one round."""

TRIES_BEFORE_NAK = 6
"""Requests to peers that went unanswered before the sender itself is asked."""


class RepairRequests:
    """The requests of one node in one region view."""

    def __init__(self, environment: Environment, region: Region) -> None:
        self._env = environment
        self._region = region
        self._wanted: dict[int, tuple[RangeSet, float]] = {}
        """What a sender was asked for by NAK, and until when not to ask again."""

    def _room(self, stream: ReceiveStream) -> int:
        """Return how many packets to ask for at once.

        Who comes back after a while lacks a lot: all at once it would fill links, and
        neither tokens nor news would pass.
        """
        room = max(UNDER_WAY_MIN, UNDER_WAY_BYTES // stream.usual_bytes())
        return min(PULLS_AT_ONCE, room)

    # Of members

    def pull(self, peer: int, stream: ReceiveStream, ranges: RangeSet, now: float) -> None:
        """Ask a member for packets, unless they were asked for just now."""
        env = self._env
        region = self._region
        sender = stream.sender
        until = now + env.config.request_retry_s
        asked = RangeSet()
        in_vain = RangeSet()
        for sequence in ranges.values(self._room(stream)):
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
        elif in_vain:
            self._pull_from_anybody(stream, in_vain)
        if env.tracer is not None:
            count = asked.count()
            env.tracer(trace.PacketsMissed(now, env.node, region.id, region.number, sender, count))

        self._send_pull(peer, stream, asked)

    def _pull_from_anybody(self, stream: ReceiveStream, ranges: RangeSet) -> None:
        """Ask any one keeper for packets of a dead sender that the one asked does not send.

        It may have had no room for copies; the only one left may be with somebody who is
        no neighbour in the ring.
        """
        by_peer: dict[int, RangeSet] = {}
        for sequence in ranges.values(PULLS_AT_ONCE):
            keepers = [n for n in self._living_keepers(sequence) if n != self._env.node]
            if keepers:
                peer = self._env.rng.choice(keepers)
                by_peer.setdefault(peer, RangeSet()).add(sequence, sequence + 1)
        for peer in sorted(by_peer):
            self._send_pull(peer, stream, by_peer[peer])

    def _send_pull(self, peer: int, stream: ReceiveStream, asked: RangeSet) -> None:
        env, region = self._env, self._region

        def intent(_: float) -> Transmit | None:
            lacking = asked.intersection(stream.missing)
            address = env.address_of(peer)
            if not lacking or address is None:
                return None
            env.counters.pull_sent += 1
            flat, _ = trim_ranges(lacking, 0, env.config.ranges_told_max)
            pull = Pull(env.cluster, env.node, region.id, region.number, stream.sender, flat)
            return Transmit(address, [encode_control(pull, peer)])

        env.control.add(intent)

    def pull_from_keepers(self, stream: ReceiveStream, kept: Kept, now: float) -> None:
        """Ask for what others keep, each packet of one of the nodes with a copy.

        Other partitions' packets, and those of the own one that a neighbour in
        the ring need not have because fewer nodes keep a copy than are in it.
        ``kept`` says which packets have arrived where copies are kept: a cache may
        be full all the same, and what is asked for in vain is asked of the sender in
        the end.
        """
        node = self._env.node
        placement = self._region.placement
        own = placement.partition_of(node)
        neighbours_have_ours = placement.keeps_whole_partition(node)
        by_peer: dict[int, RangeSet] = {}
        for sequence in stream.askable().values(PULLS_AT_ONCE):
            if neighbours_have_ours and placement.keeping_partition(sequence) == own:
                continue
            if not kept.has(sequence):
                continue
            if stream.requested.get(sequence, (0.0, 0))[0] > now:
                continue
            keepers = [n for n in self._living_keepers(sequence) if n != node]
            if keepers:
                peer = self._env.rng.choice(keepers)
                by_peer.setdefault(peer, RangeSet()).add(sequence, sequence + 1)
        for peer in sorted(by_peer):
            self.pull(peer, stream, by_peer[peer], now)

    def _living_keepers(self, sequence: int) -> list[int]:
        """Return the nodes that keep a packet and have not failed."""
        keepers = self._region.placement.keepers(sequence)
        return [node for node in keepers if not self._env.is_failed(node)]

    # Of the sender

    def ours_to_ask_for(self, wanted: RangeSet) -> RangeSet:
        """Return those that this partition keeps, and those whose keepers have all failed."""
        placement = self._region.placement
        if len(placement.partitions) == 1:
            return wanted
        own = placement.partition_of(self._env.node)
        return RangeSet(
            (s, s + 1)
            for s in wanted.values(LOOKED_UP_MAX)
            if placement.keeping_partition(s) == own or not self._living_keepers(s)
        )

    def ask_sender(self, sender: int, wanted: RangeSet, now: float) -> None:
        """Ask for what nobody in the partition holds, unless it was asked for just now."""
        asked, until = self._wanted.get(sender, (RangeSet(), 0.0))
        if now < until and not wanted.difference(asked):
            return
        self._wanted[sender] = (wanted, now + self._env.config.request_retry_s)
        self.send_nak(sender, wanted)

    def send_nak(self, sender: int, wanted: RangeSet) -> None:
        """Ask the sender itself, for what is needed first: it resends to everybody."""
        env = self._env
        region = self._region
        stream = region.streams.get(sender)
        if stream is not None and (first := wanted.values(self._room(stream))):
            wanted = wanted.clamped(0, first[-1] + 1)

        def intent(_: float) -> Transmit | None:
            address = env.address_of(sender)
            if address is None:
                return None
            env.counters.nak_sent += 1
            flat, _ = trim_ranges(wanted, 0, env.config.ranges_told_max)
            nak = Nak(env.cluster, env.node, region.id, region.number, flat)
            return Transmit(address, [encode_control(nak, sender)])

        env.control.add(intent)
