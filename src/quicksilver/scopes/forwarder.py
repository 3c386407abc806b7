"""A node's part in carrying messages: what arrives is delivered, and goes on where it should.

The node's manager says which channels begin and end here (``events``). Messages travel over
links, one for each node that this one sends to, whatever the channels: a link is a stream of
frames in order, such as a TCP connection. The first thing that goes over a new link, for
each channel, is what the target has already, so that nothing is lost when a channel was
handed from one node to another, and little is sent twice.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from quicksilver.scopes.carrying import Key, key_of
from quicksilver.scopes.channels import External, Link
from quicksilver.scopes.events import (
    Event,
    SourceClosed,
    SourceOpened,
    TargetClosed,
    TargetOpened,
)
from quicksilver.scopes.filters import BadFilterError, Compiled, Facts, compile_filter
from quicksilver.scopes.holdings import Holdings, Packet, Sender
from quicksilver.scopes.routing import Channel, begin, find_record_problem, forwarded, matches

FRAME_BYTES_MAX = 16 << 20
"""The longest frame that a node accepts."""

QUEUE_BYTES_MAX = 8 << 20
"""What waits for one link. Past it nothing more is queued; once half of it has left, the
target is asked what it lacks, and gets that from the copies that are kept."""

ATTRIBUTES_MAX = 64
LOWS_MAX = 65_536
"""Attributes of a message, and senders that a target tells of."""


# What goes over a link


class OpenChannel(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """From a channel's source: its messages come over this link from now on."""

    channel: Channel


class Have(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """From a channel's target: which message of each sender it lacks first."""

    channel: Channel
    lows: tuple[tuple[Sender, int], ...]


class Carry(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """From a channel's source: a message."""

    channel: Channel
    packet: Packet


class CloseChannel(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """From either end: the channel is over, or never was."""

    channel: Channel


Frame = OpenChannel | Have | Carry | CloseChannel

_decode: Callable[[bytes], Frame] = msgspec.msgpack.Decoder(Frame).decode

encode = msgspec.msgpack.Encoder().encode


def parse_frame(data: bytes) -> Frame | None:
    """Return what a frame says, or None if no node of ours says that."""
    if len(data) > FRAME_BYTES_MAX:
        return None
    try:
        return _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


@dataclass(slots=True)
class _Source:
    """A channel that begins here."""

    channel: Channel
    filters: tuple[Compiled, ...]
    where: Link | External
    is_ready: bool = False
    """True once the target has said what it has."""


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
    messages until ``poll_delivery`` does; say with ``handle_sent`` that a frame has left.
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
        self._by_topic: dict[str, list[_Source]] = {}
        self._targets: dict[Key, Channel] = {}
        self._wires: dict[str, _Wire] = {}
        self._out: deque[tuple[Link, Frame]] = deque()
        self._answers: deque[tuple[int, Frame]] = deque()
        self._deliveries: deque[Packet] = deque()
        self._lost: deque[Channel] = deque()

    # Application verbs

    def publish(self, topic: str, payload: bytes, attributes: dict[str, str] | None = None) -> int:
        """Send a message to a topic; return its number."""
        number = self._numbers[topic]
        self._numbers[topic] += 1
        record = begin(self._scope, self._node)
        packet = Packet(topic, self._sender, number, record, attributes or {}, payload)
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
                self._targets[key_of(channel)] = channel
            case TargetClosed(channel):
                self._targets.pop(key_of(channel), None)
            case _:
                pass

    def handle_frame(self, link: int, frame: Frame) -> None:
        """Something arrived over a link that another node has made."""
        match frame:
            case OpenChannel(channel):
                if not self._knows(channel):
                    self._answers.append((link, CloseChannel(channel)))
                    return
                lows = tuple(self.holdings.lows(channel.topic).items())[:LOWS_MAX]
                self._answers.append((link, Have(channel, lows)))
            case Carry(channel, packet):
                self._handle_packet(link, channel, packet)
            case _:
                self.counters["unexpected"] += 1

    def handle_answer(self, where: Link, frame: Frame) -> None:
        """Something came back over a link that this node has made."""
        match frame:
            case Have(channel, lows):
                source = self._sources.get(key_of(channel))
                if source is None or source.where != where:
                    return
                source.is_ready = True
                for packet in self.holdings.since(channel.topic, dict(lows)):
                    if not source.is_ready:
                        break
                    self._carry(source, packet)
            case CloseChannel(channel):
                if key_of(channel) in self._sources:
                    self._lost.append(channel)
            case _:
                self.counters["unexpected"] += 1

    def handle_link_lost(self, where: Link) -> None:
        """A link has ended: its channels are to be asked for again."""
        self._wires.pop(where.address, None)
        for source in self._sources.values():
            if source.where == where:
                source.is_ready = False
                self._lost.append(source.channel)

    def handle_sent(self, where: Link, size: int) -> None:
        """A message has left, of a size that ``Packet.size`` gives."""
        wire = self._wires.get(where.address)
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

    def poll_delivery(self) -> Packet | None:
        """Return the next message for the applications of this node, or None."""
        return self._deliveries.popleft() if self._deliveries else None

    def poll_lost(self) -> Channel | None:
        """Return a channel that does not reach its target any more, or None.

        The manager is to be told (``ScopeManager.handle_link_lost``).
        """
        return self._lost.popleft() if self._lost else None

    # Channels

    def _open_source(self, event: SourceOpened) -> None:
        try:
            filters = tuple(compile_filter(rule) for rule in event.filters)
        except BadFilterError:
            self.counters["bad_filters"] += 1
            return
        source = _Source(event.channel, filters, event.where)
        key = key_of(event.channel)
        self._sources[key] = source
        self._by_topic.setdefault(event.channel.topic, []).append(source)
        if isinstance(event.where, Link):
            self._wires.setdefault(event.where.address, _Wire()).channels[key] = None
            self._out.append((event.where, OpenChannel(event.channel)))

    def _close_source(self, key: Key) -> None:
        source = self._sources.pop(key, None)
        if source is None:
            return
        others = self._by_topic[key.topic]
        others.remove(source)
        if not others:
            del self._by_topic[key.topic]
        if isinstance(source.where, Link) and source.where.address in self._wires:
            wire = self._wires[source.where.address]
            wire.channels.pop(key, None)
            self._out.append((source.where, CloseChannel(source.channel)))
            if not wire.channels:
                del self._wires[source.where.address]

    def _knows(self, channel: Channel) -> bool:
        """Whether a channel ends here, whoever works its source."""
        known = self._targets.get(key_of(channel))
        return known is not None and known.target == channel.target

    # Messages

    def _handle_packet(self, link: int, channel: Channel, packet: Packet) -> None:
        if not self._knows(channel):
            self.counters["unknown_channels"] += 1
            self._answers.append((link, CloseChannel(channel)))
            return
        problem = find_record_problem(packet.record, channel)
        is_bad = problem is not None or packet.topic != channel.topic
        if is_bad or len(packet.attributes) > ATTRIBUTES_MAX or packet.number < 0:
            self.counters["forged"] += 1
            return
        ready = self.holdings.take(packet)
        if ready is None:
            self.counters["duplicates"] += 1
            return
        self._deliveries.extend(ready)
        self.counters["delivered"] += len(ready)
        self._forward(packet)

    def _forward(self, packet: Packet) -> None:
        for source in self._by_topic.get(packet.topic, ()):
            if source.is_ready:
                self._carry(source, packet)

    def _carry(self, source: _Source, packet: Packet) -> None:
        """Send a message along a channel, if it belongs there."""
        if not matches(packet.record, source.channel):
            return
        facts = Facts(packet.number, packet.attributes)
        for passes in source.filters:
            attributes = passes(facts)
            if attributes is not None:
                break
        else:
            return
        if not isinstance(source.where, Link):
            return
        wire = self._wires[source.where.address]
        size = packet.size()
        if wire.queued_bytes + size > QUEUE_BYTES_MAX:
            self.counters["queue_full"] += 1
            wire.is_behind = True
            for key in wire.channels:
                self._sources[key].is_ready = False
            return
        wire.queued_bytes += size
        record = forwarded(packet.record, source.channel)
        moved = Packet(
            packet.topic, packet.sender, packet.number, record, dict(attributes), packet.payload
        )
        self._out.append((source.where, Carry(source.channel, moved)))
        self.counters["forwarded"] += 1
