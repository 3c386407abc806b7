"""What members ask a sender for: packets that they lack, and the answers they get.

What is kept is sent again, to all or to whoever asks. Of what was never sent, or is
no longer kept, members are told so.
"""

from __future__ import annotations

from quicksilver.core.ports import Transmit
from quicksilver.core.pull import RatePolicy, Sink
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.multicast.sending.stream_table import StreamTable
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trace import records as trace
from quicksilver.wire.control import RANGES_MAX, Extent, Gone, Nak, Pull, encode_control
from quicksilver.wire.ids import Address, RegionId
from quicksilver.wire.packets import PRIORITY_DATA

EXTENT_SPACING_S = 0.1
EXTENTS_REMEMBERED_MAX = 1024
GONE_SPACING_S = 0.1
"""A member that asks for what is gone is answered no more often."""

GONE_REMEMBERED_MAX = 1024
EXTENTS_PER_S = 100
"""Each goes to all members of a region, and whoever asks may name views that never were."""


class MemberRequests:
    """Answers what members of this node's streams ask for."""

    def __init__(self, environment: Environment, streams: StreamTable, resends: Sink) -> None:
        """``resends`` is the sink that pulls packets to send again from streams."""
        self._env = environment
        self._counters = environment.counters
        self._streams = streams
        self._resends = resends
        self._extents = RatePolicy(EXTENTS_PER_S, EXTENTS_PER_S)
        """What members are told about streams that do not exist: answers, not bytes."""
        self._extent_at: dict[tuple[int, int], float] = {}
        self._gone_told: dict[tuple[int, int, int], tuple[float, RangeSet]] = {}
        """By region, view and member: when it was told of packets that are gone, and which it
        has asked for since."""

    def handle_nak(self, nak: Nak, now: float) -> None:
        """A partition asks for packets that none of its members has."""
        stream = self._streams.find(nak.region, nak.view)
        ranges = RangeSet.parse_flat(nak.ranges, RANGES_MAX)
        if stream is None or not ranges or nak.origin not in stream.members:
            self._handle_vain(nak, stream, ranges, now)
            return
        self._counters.nak_received += 1
        self._tell_what_is_not_there(nak, stream, ranges, now)
        late = stream.admit(ranges.clamped(stream.safe, stream.low), now)
        address = self._env.address_of(nak.origin)
        if late and address is not None:
            # Only members lack it that nobody waits for: no loss of the region's, and no
            # business of the others.
            self._env.repairs.add(address, stream.key, stream.packets, late)
        ranges = ranges.clamped(stream.low, stream.next_sequence)
        if packets := stream.resend(ranges, now):
            stream.flow.handle_region_loss(now, newest=ranges.last(), sent=stream.next_sequence)
            self._resends.register(stream, PRIORITY_DATA)
            if self._env.tracer is not None:
                self._env.tracer(
                    trace.PacketsResent(now, self._env.node, stream.region, stream.view, packets)
                )

    def handle_pull(self, pull: Pull, to: Address, now: float) -> None:
        """A member asks for packets of this node's that its peers did not give it.

        That is one member's bad luck, and no sign of a network that is too full, unless
        many ask for the same.
        """
        stream = self._streams.find(pull.region, pull.view)
        ranges = RangeSet.parse_flat(pull.ranges, RANGES_MAX)
        if stream is None or not ranges or pull.origin not in stream.members:
            self._handle_vain(pull, stream, ranges, now)
            return
        self._counters.pull_received += 1
        self._tell_what_is_not_there(pull, stream, ranges, now)
        alone, for_all = stream.answer(pull.origin, ranges, now)
        if alone:
            self._env.repairs.add(to, stream.key, stream.packets, alone)
        if for_all:
            stream.flow.handle_region_loss(now, newest=for_all.last(), sent=stream.next_sequence)
            self._resends.register(stream, PRIORITY_DATA)

    def _handle_vain(
        self, request: Nak | Pull, stream: SendStream | None, ranges: RangeSet | None, now: float
    ) -> None:
        """Packets are asked for of a stream that is over or never was, or by a stranger."""
        self._counters.rejected += 1
        if stream is not None or not ranges:
            return
        region, view = request.region, request.view
        known = self._env.directory.regions.get(RegionId(region))
        is_member = known is not None and request.origin in known.members
        length = self._streams.length_of(region, view)
        if gone := self._streams.gone_among(region, view, ranges):
            self._send_gone(request, gone, now)
        elif is_member and ranges.last() >= length:
            # Finished long ago, or never begun: nothing more is coming.
            self.send_extent(region, view, length, now)

    def _tell_what_is_not_there(
        self, request: Nak | Pull, stream: SendStream, ranges: RangeSet, now: float
    ) -> None:
        """Tell a member of packets that it asks for and that are not kept yet, or any more."""
        if ranges.last() >= stream.next_sequence:
            self.send_extent(stream.region, stream.view, stream.next_sequence, now)
        if gone := stream.gone_among(ranges):
            self._send_gone(request, gone, now)

    def send_extent(self, region: int, view: int, packets: int, now: float) -> None:
        """A member believes in packets that were never sent: tell all how long the stream is."""
        name = (region, view)
        if self._extent_at.get(name, -1.0) + EXTENT_SPACING_S > now:
            return
        if not self._extents.is_open(now):
            return
        self._extents.charge(1, now)
        self._extent_at[name] = now
        while len(self._extent_at) > EXTENTS_REMEMBERED_MAX:
            del self._extent_at[next(iter(self._extent_at))]
        stream = self._streams.find(region, view)
        known = self._env.directory.regions.get(RegionId(region))
        members: tuple[int, ...] = ()
        if stream is not None:
            members = stream.members
        elif known is not None:
            members = known.members
        extent = Extent(self._env.cluster, self._env.node, region, view, packets)
        for member in members:
            address = self._env.address_of(member)
            if address is not None and member != self._env.node:
                transmit = Transmit(address, [encode_control(extent, member)])
                self._env.control.add(lambda _, transmit=transmit: transmit)  # type: ignore[misc]

    def _send_gone(self, nak: Nak | Pull, gone: RangeSet, now: float) -> None:
        """A member asks for packets that all have acknowledged, or that were given up.

        Most often its request is old, and it has them by now. If it does not, it can
        never go on.
        """
        name = (nak.region, nak.view, nak.origin)
        address = self._env.address_of(nak.origin)
        if address is None:
            return
        most = self._env.config.ranges_told_max
        told_at, untold = self._gone_told.pop(name, (-GONE_SPACING_S, RangeSet()))
        gone = gone.union(untold).head(most)
        if told_at + GONE_SPACING_S > now:
            # Of two requests that always come one behind the other, the second would never be
            # answered.
            self._gone_told[name] = (told_at, gone)
            return
        self._gone_told[name] = (now, RangeSet())
        while len(self._gone_told) > GONE_REMEMBERED_MAX:
            del self._gone_told[next(iter(self._gone_told))]
        flat = tuple(gone.to_flat())
        word = Gone(self._env.cluster, self._env.node, nak.region, nak.view, flat)
        packet = encode_control(word, nak.origin)
        self._counters.gone_sent += 1
        self._env.control.add(lambda _: Transmit(address, [packet]))

    def clear(self) -> None:
        """The incarnation is over: nobody was told anything in the next one."""
        self._extent_at.clear()
        self._gone_told.clear()
