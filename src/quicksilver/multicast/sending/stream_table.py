"""The streams that this node sends, from the first packet to the last acknowledgement.

Of each region one stream is current. A view change closes it: what was committed to
it is finished, or given up when living members stay silent for too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, assert_never

from quicksilver.membership.directory import RegionView
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.sending.flow import FlowController
from quicksilver.multicast.sending.precedence import Precedence
from quicksilver.multicast.sending.stream import (
    Abandoned,
    Closing,
    GivenUp,
    Open,
    SendStream,
)
from quicksilver.multicast.tree import children_of
from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.ids import Address, RegionId

LEFT_MAX = 10_000
"""Streams into regions that this node no longer sends to and whose length is remembered: 10,000
take about 2 MB."""

FLOWS_MAX = 1024
"""Regions of which it is remembered how fast the last stream was; 1.6 KB each."""

FINISHED_MAX = 1024
"""Streams that all have acknowledged and whose length is remembered."""

GIVEN_UP_MAX = 64
"""Streams given up that STARTs go on to name."""


class _Left(NamedTuple):
    """A stream that was left, with all of its packets delivered: what it takes to go on."""

    view: int
    length: int
    members: tuple[int, ...]


class StreamTable:
    """Streams by region while they are current, by region and view after that."""

    def __init__(
        self,
        environment: Environment,
        precedence: Precedence,
        open_lanes: Callable[[SendStream], None],
    ) -> None:
        self._env = environment
        self._precedence = precedence
        self._open_lanes = open_lanes
        self.sending: dict[int, SendStream] = {}
        self.closing: dict[tuple[int, int], SendStream] = {}
        self._flows: dict[int, FlowController] = {}
        """How fast the last stream into a region was, until the next one knows."""
        self._left: dict[int, _Left | SendStream] = {}
        """Streams into regions that this node no longer sends to. Should it come back
        while the region has the same view, their numbers go on: to members, packets
        that began from 0 again would be old ones. Of those that are delivered only the
        numbers are kept: regions come and go, and a stream takes 5 KB."""
        self._given_up: dict[tuple[int, int], SendStream] = {}
        """Streams that living members did not acknowledge in time. Whoever lacks some of
        them must hear of it: it may not go on as if nothing were missing."""
        self._finished: dict[tuple[int, int], int] = {}
        """How many packets streams had that all have acknowledged, should anybody ask."""
        self._sets: dict[tuple[tuple[int, int], ...], tuple[SendStream, ...]] = {}
        """The streams of each set of region views, so that groups share the tuple."""

    def live(self) -> list[SendStream]:
        """Return the current streams and those that are being finished."""
        return [*self.sending.values(), *self.closing.values()]

    def find(self, region: int, view: int) -> SendStream | None:
        """Return the stream into a region view, current or being finished."""
        stream = self.sending.get(region)
        if stream is not None and stream.view == view:
            return stream
        return self.closing.get((region, view))

    def gone_among(self, region: int, view: int, ranges: RangeSet) -> RangeSet | None:
        """Return the packets into a view that has ended and that cannot be had any more.

        None for a view that is not known to have had any.
        """
        given_up = self._given_up.get((region, view))
        if given_up is not None:
            return given_up.gone_among(ranges)
        length = self._finished.get((region, view))
        return None if length is None else ranges.clamped(0, length)

    def length_of(self, region: int, view: int) -> int:
        """Return how many packets a stream has, or had; 0 if it is not known."""
        stream = self.find(region, view) or self._given_up.get((region, view))
        return self._finished.get((region, view), 0) if stream is None else stream.next_sequence

    def become_nobody(self) -> None:
        """This incarnation is over: nothing of it may be sent."""
        for stream in self.live():
            stream.abandon()
        self.sending.clear()
        self.closing.clear()
        self._left.clear()
        self._flows.clear()
        self._given_up.clear()
        self._finished.clear()
        self._sets.clear()

    # Views

    def leave(self, region: int) -> None:
        """This node no longer sends to a region."""
        stream = self.sending.pop(region, None)
        if stream is not None:
            self._close(stream)
            self._left[region] = stream
            self._forget_delivered()
            while len(self._left) > LEFT_MAX:
                del self._left[next(iter(self._left))]

    def _forget_delivered(self) -> None:
        """Keep only the numbers of streams that were left and are delivered by now."""
        for region, stream in list(self._left.items()):
            if isinstance(stream, SendStream) and self._is_delivered(stream):
                self._left[region] = _Left(stream.view, stream.next_sequence, stream.members)

    def _is_delivered(self, stream: SendStream) -> bool:
        """Whether nothing of a stream is under way, or held back for the sake of older ones."""
        if isinstance(stream.state, GivenUp) or self._precedence.is_unfinished(stream):
            return False
        return not self._precedence.is_held_back(stream)

    def replace(self, region: int, view: int) -> None:
        """A region has a newer view: what goes to the old one is finished."""
        stream = self.sending.get(region)
        if stream is not None and stream.view != view:
            self._close(self.sending.pop(region))

    def into(self, regions: tuple[tuple[int, int], ...]) -> tuple[SendStream, ...]:
        """Return the streams into some region views, except those without another member."""
        streams = self._sets.get(regions)
        if streams is None:
            found = [self._stream_to(region, view) for region, view in regions]
            streams = tuple(stream for stream in found if stream is not None)
            self._sets[regions] = streams
        return streams

    def _stream_to(self, region: int, number: int) -> SendStream | None:
        stream = self.sending.get(region)
        if stream is not None and stream.view == number:
            return stream
        env = self._env
        view = env.directory.regions.get(RegionId(region))
        if view is None or view.view != number:
            return None
        others = [member for member in view.members if member != env.node]
        if not others:
            return None
        if stream is not None:
            self._close(stream)
        left = self._left.pop(region, None)
        if isinstance(left, SendStream) and left.view == number:
            self._resume(left)
            stream = left
        else:
            stream = SendStream(
                cluster=env.cluster,
                node=env.node,
                region=region,
                view=number,
                members=view.members,
                destinations=self._multicast(view) or self._first_members(view),
                everybody=self._multicast(view) or self._addresses(others),
                config=env.config,
                counters=env.counters,
                kept=env.kept,
                disk=env.disk,
                length=left.length if isinstance(left, _Left) and left.view == number else 0,
            )
            older = self._flows.pop(region, None)
            if older is not None:
                stream.flow.inherit(older)
        self.sending[region] = stream
        return stream

    def _multicast(self, view: RegionView) -> tuple[Address, ...]:
        env = self._env
        if not env.uses_multicast(env.node, view):
            return ()
        return ((view.address, env.settings.multicast_port),)

    def _first_members(self, view: RegionView) -> tuple[Address, ...]:
        env = self._env
        return self._addresses(children_of(view.members, env.node, env.node, env.settings.fan_out))

    def _addresses(self, members: Iterable[int]) -> tuple[Address, ...]:
        found = [self._env.address_of(member) for member in members]
        return tuple(address for address in found if address is not None)

    def _resume(self, stream: SendStream) -> None:
        """This node is back in a view that it left: its numbers there go on."""
        match stream.state:
            case GivenUp():
                # They cannot go on after packets that nobody will ever have.
                reason = "members of a view that it came back to lack its packets"
                self._env.end_incarnation(reason)
            case Closing() | Abandoned():
                stream.reopen()
                self.closing.pop((stream.region, stream.view), None)
            case Open():
                raise AssertionError("only streams that were closed are left")
            case other:
                assert_never(other)

    # Endings

    def _close(self, stream: SendStream) -> None:
        if isinstance(stream.state, Open):
            stream.close(self._env.drained_at)
        self._flows[stream.region] = stream.flow
        while len(self._flows) > FLOWS_MAX:
            del self._flows[next(iter(self._flows))]
        if self._precedence.is_unfinished(stream):
            self.closing[stream.region, stream.view] = stream
        else:
            self._note_finished(stream)
        self._sets = {key: streams for key, streams in self._sets.items() if stream not in streams}

    def handle_committed(self, stream: SendStream) -> None:
        """Packets were added to a stream."""
        if isinstance(stream.state, Closing):
            # The rest of a large message, committed before the view changed.
            self.closing[stream.region, stream.view] = stream

    def handle_acknowledged(self, stream: SendStream) -> None:
        """A stream got an acknowledgement: it may be over with it."""
        if isinstance(stream.state, Closing) and not self._precedence.is_unfinished(stream):
            self.closing.pop((stream.region, stream.view), None)
            self._note_finished(stream)

    def _note_finished(self, stream: SendStream) -> None:
        self._finished[stream.region, stream.view] = stream.next_sequence
        if len(self._finished) > FINISHED_MAX:
            del self._finished[next(iter(self._finished))]

    def abandon_unheard(self) -> None:
        """Streams into views of which no member is left have nobody to wait for."""
        for name, stream in list(self.closing.items()):
            if not self.has_living_members(stream):
                stream.abandon()
                self._open_lanes(stream)
                del self.closing[name]
        for name, stream in list(self._given_up.items()):
            if not self.has_living_members(stream):
                stream.abandon()
                del self._given_up[name]
        for region, left in list(self._left.items()):
            if not self.has_living_members(left):
                del self._left[region]

    def has_living_members(self, stream: SendStream | _Left) -> bool:
        """Return whether anybody else is left in the view that a stream goes to."""
        env = self._env
        return any(m != env.node and not env.is_failed(m) for m in stream.members)

    def give_up(self, stream: SendStream) -> None:
        """Give a stream up: members that live have not acknowledged it in time."""
        self._env.counters.abandoned += len(stream.packets)
        stream.give_up()
        self._open_lanes(stream)
        self.closing.pop((stream.region, stream.view), None)
        self._given_up[stream.region, stream.view] = stream
        while len(self._given_up) > GIVEN_UP_MAX:
            self._given_up.pop(next(iter(self._given_up))).abandon()
