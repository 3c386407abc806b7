"""Channels that begin at a node, and what waits for the links that they go over.

Channels to one node share a link, and each link has a queue of its own, so a slow node holds
up no other. Past the queue nothing is queued; once half of it has left, the target is asked
what it lacks, and gets that from the copies that are kept. Over links that lose messages
packets go as datagrams and nothing is negotiated: what is lost there is for recovery.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from quicksilver.scopes.dissemination.carrying import Key, key_of
from quicksilver.scopes.dissemination.casting import Datagrams
from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.filters import (
    BadFilterError,
    Compiled,
    Facts,
    compile_filter,
)
from quicksilver.scopes.dissemination.frames import (
    Begin,
    Carry,
    ChannelFrame,
    CloseChannel,
    Given,
    LossyCarry,
    OpenChannel,
)
from quicksilver.scopes.dissemination.holdings import STREAMS_MAX, Holdings
from quicksilver.scopes.dissemination.packets import ATTRIBUTES_MAX, Packet, Sender
from quicksilver.scopes.management.events import SourceOpened
from quicksilver.scopes.routing import Channel, forwarded, matches
from quicksilver.stdx.ranges import VALUE_MAX

QUEUE_BYTES_MAX = 8 << 20
"""What waits for one link; a longer packet goes alone."""

LOSSY_PROTOCOL = "udp"
"""Of links over which packets go as datagrams."""


@dataclass(slots=True)
class _Source:
    """A channel that begins here."""

    channel: Channel
    filters: tuple[Compiled, ...]
    where: Link | External
    waits: bool
    is_ready: bool = False
    """True once the target has said what it has."""
    begun: dict[Sender, None] = field(default_factory=dict)
    """Senders whose beginning the target was told since."""
    own: deque[tuple[int, int]] = field(default_factory=deque)
    """The node's own packets that are queued: their numbers and sizes …"""
    own_bytes: int = 0
    """… and the sum of the sizes."""
    own_lost: int | None = None
    """The first of the node's own messages that was not queued because there was no room."""


@dataclass(slots=True)
class _Wire:
    """The link to one node."""

    channels: dict[Key, None] = field(default_factory=dict)
    out: deque[tuple[ChannelFrame, int]] = field(default_factory=deque)
    """What is to be said, each with its size if it has messages."""
    bytes: int = 0
    is_behind: bool = False
    """True while messages are not queued for lack of room."""
    is_blocked: bool = False
    """True while the link takes nothing."""


class Outlets:
    """The beginnings of channels at one node."""

    def __init__(
        self, own: Sender, holdings: Holdings, datagrams: Datagrams, counters: Counter[str]
    ) -> None:
        self._own = own
        self._holdings = holdings
        self._datagrams = datagrams
        self._counters = counters
        self._sources: dict[Key, _Source] = {}
        self._by_topic: dict[str, dict[Key, _Source]] = {}
        self._wires: dict[Link, _Wire] = {}
        self._busy: dict[Link, None] = {}
        """Links that have something to take, and that take it; the next one first."""
        self._lost: dict[Channel, None] = {}

    # Inputs

    def open(self, event: SourceOpened) -> None:
        try:
            filters = tuple(compile_filter(rule) for rule in event.filters)
        except BadFilterError:
            self._counters["bad_filters"] += 1
            return
        channel, where = event.channel, event.where
        key = key_of(channel)
        self.close(key)
        source = self._sources[key] = _Source(channel, filters, where, event.waits)
        self._by_topic.setdefault(channel.topic, {})[key] = source
        if isinstance(where, External):
            return  # Nothing is sent to others' mechanisms along channels.
        if where.protocol == LOSSY_PROTOCOL:
            source.is_ready = True
            return
        self._wires.setdefault(where, _Wire()).channels[key] = None
        self._say(where, OpenChannel(channel))

    def close(self, key: Key) -> None:
        source = self._sources.pop(key, None)
        if source is None:
            return
        self._lost.pop(source.channel, None)
        others = self._by_topic[key.topic]
        del others[key]
        if not others:
            del self._by_topic[key.topic]
        where = source.where
        wire = self._wires.get(where) if isinstance(where, Link) else None
        if wire is None or key not in wire.channels:
            return  # Its link was lost; another one to the same node may have been made since.
        assert isinstance(where, Link)
        del wire.channels[key]
        wire.out = deque(each for each in wire.out if each[0].channel != source.channel)
        wire.bytes = sum(size for _, size in wire.out)
        self._say(where, CloseChannel(source.channel))
        self._catch_up(where, wire)

    def handle_have(self, where: Link, channel: Channel, lows: dict[Sender, int]) -> None:
        """The target of a channel has said what it lacks."""
        key = key_of(channel)
        wire = self._wires.get(where)
        if wire is not None and key in wire.channels:
            self._give(self._sources[key], where, lows)

    def handle_refused(self, where: Link, channel: Channel) -> None:
        """The target of a channel knows of no such channel."""
        source = self._sources.get(key_of(channel))
        if source is not None and source.where == where:
            self._lost[source.channel] = None

    def handle_link_lost(self, where: Link) -> None:
        wire = self._wires.pop(where, None)
        if wire is None:
            return
        self._busy.pop(where, None)
        for key in wire.channels:
            source = self._sources[key]
            source.is_ready = False
            source.own.clear()
            source.own_bytes, source.own_lost = 0, None
            self._lost[source.channel] = None

    def handle_blocked(self, where: Link) -> None:
        wire = self._wires.get(where)
        if wire is not None:
            wire.is_blocked = True
            self._busy.pop(where, None)

    def handle_writable(self, where: Link) -> None:
        wire = self._wires.get(where)
        if wire is not None and wire.is_blocked:
            wire.is_blocked = False
            if wire.out:
                self._busy[where] = None

    # Outputs

    def poll_transmit(self) -> tuple[Link, ChannelFrame] | None:
        """Return the next frame of the link whose turn it is, or None."""
        where = next(iter(self._busy), None)
        if where is None:
            return None
        wire = self._wires[where]
        frame, size = wire.out.popleft()
        del self._busy[where]
        if wire.out:
            self._busy[where] = None
        if size:
            self._handle_left(where, wire, frame, size)
        if not wire.channels and not wire.out:
            del self._wires[where]
        return where, frame

    def poll_lost(self) -> Channel | None:
        lost = next(iter(self._lost), None)
        if lost is not None:
            del self._lost[lost]
        return lost

    def has_link(self, where: Link) -> bool:
        """Whether a link is needed."""
        return where in self._wires

    def find_link(self, channel: Channel) -> Link | None:
        """Return the link that a channel which begins here goes over."""
        source = self._sources.get(key_of(channel))
        return source.where if source is not None and isinstance(source.where, Link) else None

    def begins(self, topic: str) -> bool:
        """Whether any channel of a topic begins here."""
        return topic in self._by_topic

    # Messages

    def carry(self, packet: Packet) -> None:
        """Send a packet along all channels that it belongs to."""
        for source in self._by_topic.get(packet.topic, {}).values():
            if source.is_ready:
                self._carry(source, packet)
            elif source.own_lost is None and packet.sender == self._own and self._is_open(source):
                source.own_lost = packet.number

    def say_given(self, topics: Iterable[str]) -> None:
        """Tell the targets of channels that this node has passed over messages of topics."""
        for topic in topics:
            for source in self._by_topic.get(topic, {}).values():
                if source.is_ready and isinstance(source.where, Link):
                    self._say_given(source, source.where, is_answer=False)

    def waiting_bytes(self, topic: str) -> int:
        """Return how much of the node's own messages waits at the slowest channel of a topic.

        Channels count whose targets are waited for, that do not lose messages and whose
        targets have answered. One that has fallen behind counts as a full queue.
        """
        return max(
            (
                source.own_bytes if source.own_lost is None else QUEUE_BYTES_MAX
                for source in self._waited_for(topic)
            ),
            default=0,
        )

    def is_ready(self, channel: Channel) -> bool:
        """Whether a channel begins here, and its target has said what it has."""
        source = self._sources.get(key_of(channel))
        return source is not None and source.is_ready

    def is_behind(self, topic: str) -> bool:
        """Whether a channel of a topic whose target is waited for takes nothing for now.

        Much waits there, whoever's messages they are, or the target has yet to say what it has.
        """
        for source in self._by_topic.get(topic, {}).values():
            where = source.where
            wire = self._wires.get(where) if isinstance(where, Link) else None
            if wire is None or not source.waits:
                continue
            if not source.is_ready or wire.is_behind or wire.bytes > QUEUE_BYTES_MAX // 2:
                return True
        return False

    def taken_mark(self, topic: str, sender: Sender) -> int:
        """Return below which number the same channels have taken all of a sender's messages."""
        mark = VALUE_MAX
        for source in self._waited_for(topic):
            if sender != self._own:
                mark = min(mark, self._queued_mark(source, sender))
                continue
            if source.own:
                mark = min(mark, source.own[0][0])
            if source.own_lost is not None:
                mark = min(mark, source.own_lost)
        return mark

    def _queued_mark(self, source: _Source, sender: Sender) -> int:
        """Return the first message of another sender that waits; this looks at the whole queue."""
        if not source.is_ready:
            return 0  # Its target is asked what it lacks.
        assert isinstance(source.where, Link)
        for frame, _ in self._wires[source.where].out:
            if isinstance(frame, Carry) and frame.channel == source.channel:
                packet = frame.packet
                if packet.sender == sender:
                    return packet.number
        return VALUE_MAX

    def _waited_for(self, topic: str) -> Iterator[_Source]:
        for source in self._by_topic.get(topic, {}).values():
            if source.waits and self._is_open(source):
                yield source

    def _is_open(self, source: _Source) -> bool:
        """Whether a channel's link does not lose messages, and its target has answered."""
        where = source.where
        if not isinstance(where, Link) or where.protocol == LOSSY_PROTOCOL:
            return False
        wire = self._wires.get(where)
        if source.is_ready or source.own_lost is not None:
            return True
        return wire is not None and wire.is_behind

    def _say(self, where: Link, frame: ChannelFrame, size: int = 0) -> None:
        wire = self._wires[where]
        wire.out.append((frame, size))
        if not wire.is_blocked:
            self._busy[where] = None

    def _handle_left(self, where: Link, wire: _Wire, frame: ChannelFrame, size: int) -> None:
        """A packet has left."""
        assert isinstance(frame, Carry)
        wire.bytes -= size
        if frame.packet.sender == self._own:
            source = self._sources[key_of(frame.channel)]
            source.own_bytes -= source.own.popleft()[1]
        self._catch_up(where, wire)

    def _catch_up(self, where: Link, wire: _Wire) -> None:
        """If there is room again, ask targets what they lack."""
        if wire.is_behind and wire.bytes <= QUEUE_BYTES_MAX // 2:
            wire.is_behind = False
            for key in wire.channels:
                self._say(where, OpenChannel(self._sources[key].channel))

    def _give(self, source: _Source, where: Link, lows: dict[Sender, int]) -> None:
        """Send what the target lacks, and say how far that goes."""
        source.is_ready = True
        source.begun.clear()
        source.own_lost = None
        self._say_gone(source, where, lows)
        for packet in self._holdings.since(source.channel.topic, lows):
            self._carry(source, packet)
            if not source.is_ready:
                return
        self._say_given(source, where, is_answer=True)

    def _say_gone(self, source: _Source, where: Link, lows: dict[Sender, int]) -> None:
        """Tell a target what it lacks and cannot get, before it gets what comes after.

        Of more than fits into the queue it would ask for the first again and again.
        """
        channel = source.channel
        gone = tuple(
            (sender, stream.kept)
            for sender, stream in self._holdings.of_topic(channel.topic).items()
            if lows.get(sender, stream.kept) < stream.kept
            and stream.record
            and matches(stream.record, channel)
        )
        if gone and where.protocol != LOSSY_PROTOCOL:
            self._say(where, Given(channel, gone, is_answer=True))

    def _say_given(self, source: _Source, where: Link, *, is_answer: bool) -> None:
        if where.protocol == LOSSY_PROTOCOL:
            return
        channel = source.channel
        marks = tuple(
            (sender, stream.low)
            for sender, stream in self._holdings.of_topic(channel.topic).items()
            if stream.record and matches(stream.record, channel)
        )
        self._say(where, Given(channel, marks, is_answer))

    def _carry(self, source: _Source, packet: Packet) -> None:
        """Send a packet along a channel, if it belongs there."""
        where = source.where
        if not isinstance(where, Link) or not packet.record:
            return
        if not matches(packet.record, source.channel):
            return
        is_lossy = where.protocol == LOSSY_PROTOCOL
        if not is_lossy and packet.sender not in source.begun:
            self._say_begin(source, where, packet)
        facts = Facts(packet.serial, packet.attributes)
        for passes in source.filters:
            attributes = passes(facts)
            if attributes is not None:
                break
        else:
            return
        if len(attributes) > ATTRIBUTES_MAX:
            self._counters["too_many_tags"] += 1
            return
        is_tagged = attributes is not packet.attributes
        moved = packet.moved(
            forwarded(packet.record, source.channel), attributes if is_tagged else None
        )
        if is_lossy:
            first, missed = self._holdings.beginning_of(packet)
            self._datagrams.send(where, LossyCarry(source.channel, first, missed, moved))
            return
        self._queue(source, where, moved)

    def _queue(self, source: _Source, where: Link, packet: Packet) -> None:
        wire = self._wires[where]
        size = packet.size()
        is_own = packet.sender == self._own
        if wire.bytes and wire.bytes + size > QUEUE_BYTES_MAX:
            self._counters["queue_full"] += 1
            wire.is_behind = True
            for key in wire.channels:
                self._sources[key].is_ready = False
            if is_own and source.own_lost is None:
                source.own_lost = packet.number
            return
        wire.bytes += size
        if is_own:
            source.own.append((packet.number, size))
            source.own_bytes += size
        self._say(where, Carry(source.channel, packet), size)
        self._counters["forwarded"] += 1

    def _say_begin(self, source: _Source, where: Link, packet: Packet) -> None:
        """Tell the target where a stream begins, of which this is the first packet for it."""
        if len(source.begun) >= STREAMS_MAX:
            source.begun.clear()
        source.begun[packet.sender] = None
        first, missed = self._holdings.beginning_of(packet)
        self._say(where, Begin(source.channel, packet.sender, first, missed))
