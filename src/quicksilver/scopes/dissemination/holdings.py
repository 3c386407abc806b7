"""What a node has of each sender's messages to a topic: which arrived, and copies of them.

Messages of one sender are numbered without gaps. A node delivers them in order, keeps those
that came early until the gap before them is filled, and keeps copies for others. Both are
within one budget: copies make room for messages that came early, the oldest first. What is
missing and what can be given is all that recovery needs to know of a node: it is the lower
interface of the agents above (dissertation 3.2.12).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import msgspec

from quicksilver.scopes.dissemination.filters import TEXT_BYTES_MAX
from quicksilver.scopes.names import Name as ScopeName
from quicksilver.scopes.routing import Record
from quicksilver.stdx.ranges import VALUE_MAX, RangeSet

PACKET_BYTES = 300
TEXT_BYTES = 60
"""Memory that a copy takes besides what is in it, and that a text in it takes, about."""

EARLY_MAX = 4096
"""Messages of one sender that wait for a gap before them to be filled."""

EARLY_ASK = 64
"""With so many early messages whoever may have the missing ones is asked for them."""

STREAMS_MAX = 10_000
"""Streams of one node; past it the one that was quiet for longest is forgotten."""

ATTRIBUTES_MAX = 64
"""Attributes of a message, tags included."""

Number = Annotated[int, msgspec.Meta(ge=0, lt=VALUE_MAX)]
Mark = Annotated[int, msgspec.Meta(ge=0, le=VALUE_MAX)]
"""The number of a message, and the number that comes after some."""

Text = Annotated[str, msgspec.Meta(max_length=TEXT_BYTES_MAX)]
Attributes = Annotated[dict[Text, Text], msgspec.Meta(max_length=ATTRIBUTES_MAX)]


class Sender(msgspec.Struct, frozen=True, array_like=True):
    """A node that sends, in one of its lives; its numbers begin at 0 with each."""

    scope: ScopeName
    node: ScopeName
    life: int


class Packet(msgspec.Struct, frozen=True, array_like=True):
    """A message of a topic on its way."""

    topic: ScopeName
    sender: Sender
    number: Number
    record: Record
    attributes: Attributes
    payload: bytes

    def size(self) -> int:
        """Return about how much memory it takes."""
        size = PACKET_BYTES + len(self.payload) + len(self.sender.scope) + len(self.sender.node)
        for entry in self.record:
            size += 3 * TEXT_BYTES + len(entry.scope) + len(entry.origin) + len(entry.at)
        for name, value in self.attributes.items():
            size += 2 * TEXT_BYTES + len(name) + len(value)
        return size


class Gap(NamedTuple):
    """Messages that nobody can give any more, told in their place among those delivered."""

    topic: str
    sender: Sender
    first: int
    last: int


class Name(NamedTuple):
    """A stream: the messages of one sender to one topic."""

    topic: str
    sender: Sender


class Stream:
    """What a node has of one stream."""

    __slots__ = ("_early", "ask_at", "copies", "early", "is_begun", "low", "record", "refused")

    def __init__(self, first: int) -> None:
        self.low = first
        """All before were delivered or passed over, or were not for this node."""
        self.copies: dict[int, Packet] = {}
        """Delivered messages, kept for others: without gaps, up to ``low``."""
        self.early: dict[int, Packet] = {}
        """Messages that came and were not delivered, because one before them is missing."""
        self.record: Record | None = None
        """How its messages come here; None until one has."""
        self.refused: int | None = None
        """The first of the messages that came early and for which there was no room."""
        self.ask_at = EARLY_ASK
        """With so many early messages others are asked for what is missing."""
        self.is_begun = False
        """False: nothing was delivered or passed over yet."""
        self._early = RangeSet()
        """The numbers in ``early``."""

    @property
    def kept(self) -> int:
        """The first message that can be given to others; all up to ``low`` can."""
        return next(iter(self.copies), self.low)

    @property
    def high(self) -> int:
        """One more than the highest number that is here."""
        return self._early.last() + 1 if self._early else self.low

    def has(self, number: int) -> bool:
        """Whether a message was here once."""
        return number < self.low or number in self.early

    def missing(self, high: int) -> RangeSet:
        """Return which messages below a number have not come."""
        return RangeSet([(self.low, high)] if high > self.low else []).difference(
            self._early.clamped(self.low, high)
        )

    def is_short(self) -> bool:
        """Whether others are to be asked for messages now."""
        if self.refused is not None and self.refused <= self.low:
            return True
        return len(self.early) >= self.ask_at

    def handle_asked(self) -> None:
        """Others were asked for what is missing."""
        if self.refused is not None and self.refused <= self.low:
            self.refused = None
        self.ask_at = max(EARLY_ASK, 2 * len(self.early))

    def take_early(self, packet: Packet) -> None:
        self.early[packet.number] = packet
        self._early.add(packet.number, packet.number + 1)

    def advance(self, number: int) -> list[Packet]:
        """Go on at a number; return the early messages up to the next one that is missing."""
        self._early.discard_below(number)
        ready = []
        while number in self.early:
            ready.append(self.early.pop(number))
            number += 1
        self._early.discard_below(number)
        self.low = number
        self.is_begun = True
        if not self.early:
            self.ask_at = EARLY_ASK
        return ready


class Holdings:
    """All streams of a node, and the budget of their messages."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        """Of copies and of early messages …"""
        self.early_bytes = 0
        """… and of early ones alone; neither is ever above ``bytes_max``."""
        self.streams: dict[Name, Stream] = {}
        """The one that was quiet for longest first."""
        self._by_topic: dict[str, dict[Sender, Stream]] = {}
        self._ages: dict[tuple[Name, int], None] = {}
        """Copies, oldest first; those of one stream ascend."""

    def find(self, topic: str, sender: Sender) -> Stream | None:
        return self.streams.get(Name(topic, sender))

    def begin(self, topic: str, sender: Sender, first: int) -> None:
        """A stream begins at a number.

        If it is known, nothing changes, but that it begins earlier if nothing has come yet.
        """
        name = Name(topic, sender)
        stream = self.streams.get(name)
        if stream is None:
            if len(self.streams) >= STREAMS_MAX:
                self._forget(next(iter(self.streams)))
            stream = self.streams[name] = Stream(first)
            self._by_topic.setdefault(topic, {})[sender] = stream
        elif first < stream.low and not stream.is_begun:
            stream.low = first

    def take(self, packet: Packet) -> list[Packet] | None:
        """Take a message; return what can be delivered now, None if it was here before.

        One that came early and for which there is no room is not taken either: it is still
        missing. A stream that nobody has told the beginning of begins at 0.
        """
        name = Name(packet.topic, packet.sender)
        if name not in self.streams:
            self.begin(packet.topic, packet.sender, 0)
        stream = self.streams[name] = self.streams.pop(name)
        stream.record = packet.record
        number = packet.number
        if stream.has(number):
            return None
        size = packet.size()
        if number != stream.low:
            if len(stream.early) >= EARLY_MAX or self.early_bytes + size > self.bytes_max:
                stream.refused = number if stream.refused is None else min(stream.refused, number)
                return None
            stream.take_early(packet)
            self.bytes += size
            self.early_bytes += size
            self._keep_within_budget()
            return []
        ready = [packet, *self._advance(stream, number + 1)]
        self.bytes += size
        self._keep(name, stream, ready)
        return ready

    def pass_over(self, topic: str, sender: Sender, number: int) -> list[Packet | Gap]:
        """Messages below a number cannot be had any more, except those that are here.

        Return what is delivered now, and what is missing among it. Copies from before a gap
        are given up: what is kept of a stream has none.
        """
        name = Name(topic, sender)
        stream = self.streams[name]
        told: list[Packet | Gap] = []
        for first, stop in stream.missing(number):
            told.append(Gap(topic, sender, first, stop - 1))
            for kept in list(stream.copies):
                self._drop(name, kept)
            ready = self._advance(stream, stop)
            told += ready
            self._keep(name, stream, ready)
        return told

    def since(self, topic: str, lows: dict[Sender, int]) -> Iterator[Packet]:
        """Yield copies of a topic's messages that somebody lacks, each sender's in order.

        ``lows``: what comes next there, by sender. Of others, the newest life of a sender
        included, everything that is kept is lacking.
        """
        for sender, stream in list(self._by_topic.get(topic, {}).items()):
            low = lows.get(sender, 0)
            for number in range(max(low, stream.kept), stream.low):
                yield stream.copies[number]
            for number in sorted(number for number in stream.early if number >= low):
                yield stream.early[number]

    def of_topic(self, topic: str) -> dict[Sender, Stream]:
        """Return the streams of a topic, by sender."""
        return self._by_topic.get(topic, {})

    def forget_topic(self, topic: str) -> None:
        """This node has left a topic."""
        for sender in list(self._by_topic.get(topic, {})):
            self._forget(Name(topic, sender))

    def _advance(self, stream: Stream, number: int) -> list[Packet]:
        ready = stream.advance(number)
        self.early_bytes -= sum(packet.size() for packet in ready)
        return ready

    def _keep(self, name: Name, stream: Stream, packets: list[Packet]) -> None:
        """Keep copies of what was just delivered; their bytes were counted on arrival."""
        for packet in packets:
            stream.copies[packet.number] = packet
            self._ages[name, packet.number] = None
        self._keep_within_budget()

    def _keep_within_budget(self) -> None:
        """Drop the oldest copies; messages that came early are needed, and stay."""
        while self.bytes > self.bytes_max:
            self._drop(*next(iter(self._ages)))

    def _drop(self, name: Name, number: int) -> None:
        del self._ages[name, number]
        self.bytes -= self.streams[name].copies.pop(number).size()

    def _forget(self, name: Name) -> None:
        stream = self.streams[name]
        for number in list(stream.copies):
            self._drop(name, number)
        size = sum(packet.size() for packet in stream.early.values())
        self.bytes -= size
        self.early_bytes -= size
        del self.streams[name]
        others = self._by_topic[name.topic]
        del others[name.sender]
        if not others:
            del self._by_topic[name.topic]
