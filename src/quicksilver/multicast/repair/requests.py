"""Who is asked for what this node lacks: a neighbour, a keeper, or the sender.

Each packet is kept by some nodes of one partition (dissertation 4.2.1 C), so what is lost
is asked of them, as soon as it is missed: no round is waited for. All who lack a packet
ask the same keeper first, which may then serve many at once; who gets no answer asks the
next one, then several, and the sender in the end. What a whole partition lacks, a round
finds sooner, and its leader tells the sender.
"""

from __future__ import annotations

from collections.abc import Iterator

from quicksilver.core.ports import Transmit
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.receiving.lost import REORDERED_S, Request
from quicksilver.multicast.receiving.region import Region
from quicksilver.multicast.receiving.stream import ReceiveStream
from quicksilver.multicast.repair.region_state import StreamState
from quicksilver.multicast.repair.reports import trim_ranges
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trace import records as trace
from quicksilver.wire.control import Nak, Pull, encode_control

PULLS_AT_ONCE = 256
"""Packets looked at, and asked of one node, at a time."""

UNDER_WAY_BYTES = 1 << 20
"""Repairs of one stream that are asked for and have not come: what a switch holds …"""

UNDER_WAY_MIN = 16
"""… but this many packets however large: peers ask in parallel."""

LOOKED_UP_MAX = 512
"""Packets of which it is looked up who keeps them, in one round."""

PEERS_AT_ONCE = (1, 1, 2, 2, 3)
"""Nodes asked for a packet with the first request, the second …; the last number stays."""

TRIES_BEFORE_SENDER_BEHIND = 2
"""Requests in vain before a node that was absent asks the sender for what all others have:
keepers drop that first …"""

TRIES_BEFORE_SENDER_KEEPER = 3
"""… before whoever is to keep a packet asks its sender as well …"""

TRIES_BEFORE_SENDER = 5
"""… before others do, of whom there may be hundreds …"""

TRIES_BEFORE_SENDER_KEPT = 8
"""… and before anybody does while the keepers are known to have the packet."""

PATIENCE_GROWTH = 0.25
PATIENCE_MAX = 4.0
"""A request is repeated a quarter of the usual time later each time, up to four times that."""

TRIES_BEFORE_BACKING_OFF = 5
"""Requests in vain after which the next ones wait twice as long: repairs may be slow."""


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
        neither tokens nor news would pass. Nor is there a point in asking for more than finds
        room should the first of them be lost again.
        """
        under_way = min(UNDER_WAY_BYTES, stream.region.waiting.limit // 2)
        room = max(UNDER_WAY_MIN, under_way // stream.usual_bytes)
        return min(PULLS_AT_ONCE, room)

    # Of members

    def pull(
        self, peer: int, stream: ReceiveStream, ranges: RangeSet, agreed: int, now: float
    ) -> None:
        """Ask a neighbour for packets that were not asked for just now.

        Those below ``agreed`` it may have dropped: asked for in vain, they are the sender's.
        """
        asked = RangeSet()
        for sequence in ranges.values(self._room(stream)):
            known = stream.lost.requested.get(sequence)
            if known is None or (
                known.again_at <= now
                and (sequence >= agreed or known.tries < TRIES_BEFORE_SENDER_BEHIND)
            ):
                self._note(stream, sequence, now)
                asked.add(sequence, sequence + 1)
        if asked:
            self._trace(stream, asked.count(), now)
            self._send_pull(peer, stream, asked)
            self._region.look_for_holes(now + self._region.repair_patience.seconds)

    def ask(self, stream: ReceiveStream, state: StreamState, now: float) -> float | None:
        """Ask for what is lost and not under way; return when to look again.

        ``state`` says which packets have arrived where copies are kept, and which all have
        that are waited for.
        """
        most = self._env.config.ranges_told_max
        by_peer: dict[int, RangeSet] = {}
        count = 0
        soonest = stream.lost.next_lost(now)
        lost = stream.askable().clamped(0, stream.lost.below)
        for sequence in lost.values(self._room(stream)):
            known = stream.lost.requested.get(sequence)
            if known is not None and known.again_at > now:
                again_at = known.again_at
            else:
                tries = 0 if known is None else known.tries
                peers = self._peers_for(stream, sequence, tries, state)
                wanted = [by_peer.setdefault(peer, RangeSet()) for peer in peers]
                if any(each.range_count() >= most for each in wanted):
                    # A request has no room for it: the next one is soon.
                    again_at = now + REORDERED_S
                else:
                    again_at = self._note(stream, sequence, now)
                    count += 1
                    for each in wanted:
                        each.add(sequence, sequence + 1)
            if soonest is None or again_at < soonest:
                soonest = again_at
        if count:
            self._trace(stream, count, now)
        for peer in sorted(by_peer):
            if by_peer[peer]:
                self._send_pull(peer, stream, by_peer[peer])
        return soonest

    def _note(self, stream: ReceiveStream, sequence: int, now: float) -> float:
        """Note that a packet is asked for now; return when to ask again."""
        known = stream.lost.requested.get(sequence)
        tries = 0 if known is None else known.tries
        patience = self._region.repair_patience
        if tries and tries % TRIES_BEFORE_BACKING_OFF == 0:
            patience.back_off(now)
        again_at = now + min(PATIENCE_MAX, 1.0 + PATIENCE_GROWTH * tries) * patience.seconds
        stream.lost.requested[sequence] = Request(again_at, tries + 1, now)
        return again_at

    def _peers_for(
        self, stream: ReceiveStream, sequence: int, tries: int, state: StreamState
    ) -> Iterator[int]:
        """Yield whom to ask for a packet that was asked for in vain so often."""
        keepers = self._living_keepers(sequence)
        count = PEERS_AT_ONCE[min(tries, len(PEERS_AT_ONCE) - 1)]
        if not stream.sender_failed and (
            not keepers or tries >= self._tries_before_sender(sequence, state)
        ):
            yield stream.sender
            count -= 1
        for place in range(tries, tries + min(count, len(keepers))):
            yield keepers[place % len(keepers)]

    def _tries_before_sender(self, sequence: int, state: StreamState) -> int:
        """Return how often keepers are asked for a packet in vain before its sender is."""
        if sequence < state.agreed:
            return TRIES_BEFORE_SENDER_BEHIND
        if state.kept.has(sequence):
            return TRIES_BEFORE_SENDER_KEPT
        if self._region.is_mine_to_keep(sequence):
            return TRIES_BEFORE_SENDER_KEEPER
        return TRIES_BEFORE_SENDER

    def _living_keepers(self, sequence: int) -> list[int]:
        """Return the others that keep a packet and have not failed, first who is asked first."""
        placement = self._region.placement
        keepers = placement.keepers(sequence)
        # Packet by packet another one comes first: they share the work.
        first = sequence // len(placement.partitions) % len(keepers)
        node, is_failed = self._env.node, self._env.is_failed
        return [
            keeper
            for keeper in (*keepers[first:], *keepers[:first])
            if keeper != node and not is_failed(keeper)
        ]

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

    def _trace(self, stream: ReceiveStream, count: int, now: float) -> None:
        env, region = self._env, self._region
        if env.tracer is not None:
            env.tracer(
                trace.PacketsMissed(now, env.node, region.id, region.number, stream.sender, count)
            )

    # Of the sender, for a whole partition

    def ours_to_ask_for(self, wanted: RangeSet) -> RangeSet:
        """Return those that this partition keeps, and those whose keepers have all failed."""
        placement = self._region.placement
        if len(placement.partitions) == 1:
            return wanted
        own = placement.partition_of(self._env.node)
        node, is_failed = self._env.node, self._env.is_failed
        # Thousands of packets have the same few keepers: each set of them is looked at once.
        is_lost: dict[tuple[int, ...], bool] = {}
        ours = RangeSet()
        for sequence in wanted.values(LOOKED_UP_MAX):
            if placement.keeping_partition(sequence) != own:
                keepers = placement.keepers(sequence)
                if keepers not in is_lost:
                    is_lost[keepers] = all(k == node or is_failed(k) for k in keepers)
                if not is_lost[keepers]:
                    continue
            ours.add(sequence, sequence + 1)
        return ours

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
