"""A node's part in carrying messages: what arrives is delivered, and goes on where it should.

The node's manager says which channels begin and end here (``events``). Messages travel over
links, one for each node that this one sends to, whatever the channels: a link is a stream of
frames in order, such as a TCP connection (``frames``). The first thing that goes over a new
link, for each channel, is what the target has already, so that nothing is lost when a channel
was handed from one node to another, and little is sent twice.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from quicksilver.scopes.dissemination.carrying import Key, key_of
from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.filters import (
    TEXT_BYTES_MAX,
    BadFilterError,
    Compiled,
    Facts,
    compile_filter,
)
from quicksilver.scopes.dissemination.frames import (
    Begin,
    Carry,
    CloseChannel,
    Frame,
    Given,
    Have,
    OpenChannel,
)
from quicksilver.scopes.dissemination.holdings import (
    ATTRIBUTES_MAX,
    STREAMS_MAX,
    Gap,
    Holdings,
    Packet,
    Sender,
)
from quicksilver.scopes.dissemination.inlets import Inlets
from quicksilver.scopes.management.events import (
    Event,
    SourceClosed,
    SourceOpened,
    TargetClosed,
    TargetOpened,
    TopicLeft,
)
from quicksilver.scopes.routing import Channel, begin, find_record_problem, forwarded, matches
from quicksilver.stdx.errors import QuicksilverError

QUEUE_BYTES_MAX = 8 << 20
"""What waits for one link; a longer message goes alone. Past it nothing more is queued; once
half of it has left, the target is asked what it lacks, and gets that from the copies that are
kept."""

PAYLOAD_BYTES_MAX = 12 << 20
"""The longest message: with all that filters may add to it, it fits into a frame."""

PUBLISHED_ATTRIBUTES_MAX = 32
"""Attributes that a sender may give a message; the rest is for filters."""


class MessageTooLargeError(QuicksilverError, ValueError):
    """A message that cannot be carried."""

    def __init__(self, what: str, size: int, size_max: int) -> None:
        super().__init__(what, size, size_max)
        self.what = what
        self.size = size
        self.size_max = size_max

    def __str__(self) -> str:
        return f"a message has {self.size:,} {self.what}, {self.size_max:,} are allowed"


@dataclass(slots=True)
class _Source:
    """A channel that begins here."""

    channel: Channel
    filters: tuple[Compiled, ...]
    where: Link | External
    is_ready: bool = False
    """True once the target has said what it has."""
    begun: dict[Sender, None] = field(default_factory=dict)
    """Senders whose beginning the target was told since."""


@dataclass(slots=True)
class _Wire:
    """The link to one node."""

    channels: dict[Key, None] = field(default_factory=dict)
    queued_bytes: int = 0
    is_behind: bool = False
    """True while messages are not queued for lack of room."""


class Forwarder:
    """Carries the messages of one node.

    The caller's duty: after every input take frames until ``poll_transmit`` returns None and
    messages until ``poll_delivery`` does; say with ``handle_sent`` that a message has left, and
    with ``handle_link_lost`` and ``handle_link_closed`` that a link has ended. Links that others
    make are numbered by the caller, and no number is used again.
    """

    def __init__(self, *, scope: str, node: str, life: int, copies_bytes_max: int) -> None:
        """``scope`` is the one that this node is a member of."""
        self.counters: Counter[str] = Counter()
        self.holdings = Holdings(copies_bytes_max)
        self._scope = scope
        self._node = node
        self._sender = Sender(scope, node, life)
        self._numbers: Counter[str] = Counter()
        self._sources: dict[Key, _Source] = {}
        self._by_topic: dict[str, dict[Key, _Source]] = {}
        self._wires: dict[Link, _Wire] = {}
        self._out: deque[tuple[Link, Frame]] = deque()
        self._answers: deque[tuple[int, Frame]] = deque()
        self._deliveries: deque[Packet | Gap] = deque()
        self._lost: dict[Channel, None] = {}
        self._inlets = Inlets(self._sender, self.holdings, self._answers)
        """The channels that end here."""

    # Application verbs

    def publish(self, topic: str, payload: bytes, attributes: dict[str, str] | None = None) -> int:
        """Send a message to a topic; return its number. Raises ``MessageTooLargeError``."""
        attributes = attributes or {}
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise MessageTooLargeError("bytes", len(payload), PAYLOAD_BYTES_MAX)
        if len(attributes) > PUBLISHED_ATTRIBUTES_MAX:
            raise MessageTooLargeError("attributes", len(attributes), PUBLISHED_ATTRIBUTES_MAX)
        longest = max((len(text) for each in attributes.items() for text in each), default=0)
        if longest > TEXT_BYTES_MAX:
            raise MessageTooLargeError("characters in an attribute", longest, TEXT_BYTES_MAX)
        number = self._numbers[topic]
        self._numbers[topic] += 1
        record = begin(self._scope, self._node)
        packet = Packet(topic, self._sender, number, record, attributes, payload)
        self.holdings.begin(topic, self._sender, number)
        self.holdings.take(packet)
        self._forward(packet)
        return number

    # Inputs

    def handle_event(self, event: Event) -> None:
        """The node's manager says which channels begin and end here."""
        match event:
            case SourceOpened():
                self._open_source(event)
            case SourceClosed(channel):
                self._close_source(key_of(channel))
            case TargetOpened(channel):
                self._inlets.announce(channel)
            case TargetClosed(channel):
                self._deliver(self._inlets.withdraw(channel))
            case TopicLeft(topic):
                self.holdings.forget_topic(topic)
            case _:
                pass

    def handle_frame(self, link: int, frame: Frame) -> None:
        """Something arrived over a link that another node has made."""
        match frame:
            case OpenChannel(channel):
                self._inlets.handle_open(link, channel)
            case Carry(channel, packet):
                self._handle_packet(link, channel, packet)
            case CloseChannel(channel):
                self._inlets.handle_close(link, channel)
            case Begin():
                if not self._inlets.handle_begin(link, frame):
                    self.counters["unexpected"] += 1
            case Given():
                told = self._inlets.handle_given(link, frame)
                if told is None:
                    self.counters["unexpected"] += 1
                else:
                    self._deliver(told)
            case _:
                self.counters["unexpected"] += 1

    def handle_answer(self, where: Link, frame: Frame) -> None:
        """Something came back over a link that this node has made."""
        match frame:
            case Have(channel, lows):
                key = key_of(channel)
                wire = self._wires.get(where)
                if wire is not None and key in wire.channels:
                    self._give(self._sources[key], where, dict(lows))
            case CloseChannel(channel):
                source = self._sources.get(key_of(channel))
                if source is not None and source.where == where:
                    self._lost[source.channel] = None
            case _:
                self.counters["unexpected"] += 1

    def handle_link_lost(self, where: Link) -> None:
        """A link that this node has made has ended: its channels are to be asked for again."""
        wire = self._wires.pop(where, None)
        if wire is None:
            return
        self._out = deque(each for each in self._out if each[0] != where)
        for key in wire.channels:
            source = self._sources[key]
            source.is_ready = False
            self._lost[source.channel] = None

    def handle_link_closed(self, link: int) -> None:
        """A link that another node has made has ended."""
        self._inlets.handle_link_closed(link)

    def handle_sent(self, where: Link, size: int) -> None:
        """A message has left, of a size that ``Packet.size`` gives."""
        wire = self._wires.get(where)
        if wire is None:
            return
        wire.queued_bytes = max(0, wire.queued_bytes - size)
        if wire.is_behind and wire.queued_bytes <= QUEUE_BYTES_MAX // 2:
            wire.is_behind = False
            for key in wire.channels:
                self._out.append((where, OpenChannel(self._sources[key].channel)))

    # Outputs

    def poll_transmit(self) -> tuple[Link, Frame] | None:
        """Return which frame goes over which link that this node makes, or None."""
        return self._out.popleft() if self._out else None

    def poll_answer(self) -> tuple[int, Frame] | None:
        """Return which frame goes back over which link that another node made, or None."""
        return self._answers.popleft() if self._answers else None

    def poll_delivery(self) -> Packet | Gap | None:
        """Return the next message for the applications of this node, or None.

        A ``Gap`` stands where messages are missing that nobody can give any more.
        """
        return self._deliveries.popleft() if self._deliveries else None

    def poll_lost(self) -> Channel | None:
        """Return a channel that does not reach its target any more, or None.

        The manager is to be told (``ScopeManager.handle_link_lost``).
        """
        lost = next(iter(self._lost), None)
        if lost is not None:
            del self._lost[lost]
        return lost

    # Channels

    def _open_source(self, event: SourceOpened) -> None:
        try:
            filters = tuple(compile_filter(rule) for rule in event.filters)
        except BadFilterError:
            self.counters["bad_filters"] += 1
            return
        source = _Source(event.channel, filters, event.where)
        key = key_of(event.channel)
        self._close_source(key)
        self._sources[key] = source
        self._by_topic.setdefault(event.channel.topic, {})[key] = source
        if isinstance(event.where, Link):
            self._wires.setdefault(event.where, _Wire()).channels[key] = None
            self._out.append((event.where, OpenChannel(event.channel)))

    def _close_source(self, key: Key) -> None:
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
        kept: deque[tuple[Link, Frame]] = deque()
        for each in self._out:
            if each[0] != where or each[1].channel != source.channel:
                kept.append(each)
            elif isinstance(each[1], Carry):
                wire.queued_bytes -= each[1].packet.size()
        self._out = kept
        self._out.append((where, CloseChannel(source.channel)))
        if not wire.channels:
            del self._wires[where]

    # Messages

    def _handle_packet(self, link: int, channel: Channel, packet: Packet) -> None:
        if not self._inlets.knows(channel):
            self.counters["unknown_channels"] += 1
            self._answers.append((link, CloseChannel(channel)))
            return
        problem = find_record_problem(packet.record, channel)
        is_bad = problem is not None or packet.topic != channel.topic
        if is_bad or len(packet.attributes) > ATTRIBUTES_MAX or packet.number < 0:
            self.counters["forged"] += 1
            return
        if packet.sender == self._sender:
            self.counters["duplicates"] += 1
            return
        ready = self.holdings.take(packet)
        self._inlets.handle_taken(packet.topic, packet.sender)
        if ready is None:
            self.counters["duplicates"] += 1
            return
        self._deliver(ready)
        self._forward(packet)

    def _deliver(self, told: Sequence[Packet | Gap]) -> None:
        """Give messages to the applications; others are told what this node passes over."""
        self._deliveries.extend(told)
        gaps = [each for each in told if isinstance(each, Gap)]
        self.counters["delivered"] += len(told) - len(gaps)
        self.counters["gaps"] += len(gaps)
        for topic in dict.fromkeys(gap.topic for gap in gaps):
            for source in self._by_topic.get(topic, {}).values():
                if source.is_ready and isinstance(source.where, Link):
                    self._say_given(source, source.where, is_answer=False)

    def _give(self, source: _Source, where: Link, lows: dict[Sender, int]) -> None:
        """Send what the target lacks, and say how far that goes."""
        source.is_ready = True
        source.begun.clear()
        for packet in self.holdings.since(source.channel.topic, lows):
            self._carry(source, packet)
            if not source.is_ready:
                return
        self._say_given(source, where, is_answer=True)

    def _say_given(self, source: _Source, where: Link, *, is_answer: bool) -> None:
        channel = source.channel
        marks = tuple(
            (sender, stream.low)
            for sender, stream in self.holdings.of_topic(channel.topic).items()
            if stream.record is not None and matches(stream.record, channel)
        )
        self._out.append((where, Given(channel, marks, is_answer)))

    def _forward(self, packet: Packet) -> None:
        for source in self._by_topic.get(packet.topic, {}).values():
            if source.is_ready:
                self._carry(source, packet)

    def _carry(self, source: _Source, packet: Packet) -> None:
        """Send a message along a channel, if it belongs there."""
        if not matches(packet.record, source.channel):
            return
        where = source.where
        if not isinstance(where, Link):
            return
        wire = self._wires[where]
        if packet.sender not in source.begun:
            self._say_begin(source, where, packet)
        facts = Facts(packet.number, packet.attributes)
        for passes in source.filters:
            attributes = passes(facts)
            if attributes is not None:
                break
        else:
            return
        if len(attributes) > ATTRIBUTES_MAX:
            self.counters["too_many_tags"] += 1
            return
        record = forwarded(packet.record, source.channel)
        moved = Packet(
            packet.topic, packet.sender, packet.number, record, dict(attributes), packet.payload
        )
        size = moved.size()
        if wire.queued_bytes and wire.queued_bytes + size > QUEUE_BYTES_MAX:
            self.counters["queue_full"] += 1
            wire.is_behind = True
            for key in wire.channels:
                self._sources[key].is_ready = False
            return
        wire.queued_bytes += size
        self._out.append((where, Carry(source.channel, moved)))
        self.counters["forwarded"] += 1

    def _say_begin(self, source: _Source, where: Link, packet: Packet) -> None:
        """Tell the target where a stream begins, of which this is the first message for it."""
        if len(source.begun) >= STREAMS_MAX:
            source.begun.clear()
        source.begun[packet.sender] = None
        stream = self.holdings.find(packet.topic, packet.sender)
        first = packet.number if stream is None else min(stream.kept, packet.number)
        self._out.append((where, Begin(source.channel, packet.sender, first)))
