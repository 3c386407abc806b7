"""What a node has of each sender's messages to a topic: which arrived, and copies of them.

Messages of one sender are numbered without gaps. A node delivers them in order, keeps those
that came early until the gap before them is filled, and keeps copies for others within a
budget. What is missing and what can be given is all that recovery needs to know of a node:
it is the lower interface of the agents above (dissertation 3.2.12).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from quicksilver.scopes.routing import Record
from quicksilver.stdx.ranges import RangeSet

PACKET_BYTES = 300
"""Memory that a copy takes besides its payload, about."""

EARLY_MAX = 4096
"""Messages of one sender that wait for a gap before them to be filled."""


class Sender(msgspec.Struct, frozen=True, array_like=True):
    """A node that sends, in one of its lives; its numbers begin at 0 with each."""

    scope: str
    node: str
    life: int


class Packet(msgspec.Struct, frozen=True, array_like=True):
    """A message of a topic on its way."""

    topic: str
    sender: Sender
    number: int
    record: Record
    attributes: dict[str, str]
    payload: bytes

    def size(self) -> int:
        return PACKET_BYTES + len(self.payload)


class Name(NamedTuple):
    """A stream: the messages of one sender to one topic."""

    topic: str
    sender: Sender


class Stream:
    """What a node has of one stream."""

    __slots__ = ("_early", "copies", "first", "low")

    def __init__(self, first: int) -> None:
        self.first = first
        """The first message that this node is to have; earlier ones were not for it."""
        self.low = first
        """All before were delivered; this one is missing."""
        self.copies: dict[int, Packet] = {}
        """Messages kept for others, and those that came early."""
        self._early = RangeSet()
        """Messages that came and were not delivered, because one before them is missing."""

    @property
    def high(self) -> int:
        """One more than the highest number that is here."""
        return self._early.last() + 1 if self._early else self.low

    def has(self, number: int) -> bool:
        """Whether a message was here once."""
        return number < self.low or number in self._early

    def missing(self, high: int) -> RangeSet:
        """Return which messages below a number have not come."""
        return RangeSet([(self.low, high)] if high > self.low else []).difference(self._early)

    def early_count(self) -> int:
        return self._early.count()

    def take(self, packet: Packet) -> list[Packet]:
        """Take a message that was not here; return what can be delivered now, in order."""
        number = packet.number
        self.copies[number] = packet
        if number != self.low:
            self._early.add(number, number + 1)
            return []
        ready = [packet]
        self.low += 1
        while self.low in self._early:
            ready.append(self.copies[self.low])
            self._early.discard(self.low, self.low + 1)
            self.low += 1
        return ready

    def pass_over(self, number: int) -> list[Packet]:
        """Messages below a number cannot be had any more; return what can be delivered now."""
        ready = []
        while self.low < number or self.low in self._early:
            if self.low in self._early:
                ready.append(self.copies[self.low])
                self._early.discard(self.low, self.low + 1)
            self.low += 1
        return ready


class Holdings:
    """All streams of a node, and the budget of their copies."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.streams: dict[Name, Stream] = {}
        self._ages: dict[tuple[Name, int], None] = {}
        """Copies, oldest first."""

    def take(self, packet: Packet) -> list[Packet] | None:
        """Take a message; return what can be delivered now, None if it was here before.

        One that came early and for which there is no room is not taken either: it is still
        missing.
        """
        name = Name(packet.topic, packet.sender)
        stream = self.streams.get(name)
        if stream is None:
            stream = self.streams[name] = Stream(packet.number)
        number = packet.number
        if stream.has(number) or (number != stream.low and stream.early_count() >= EARLY_MAX):
            return None
        self.bytes += packet.size()
        self._ages[name, number] = None
        ready = stream.take(packet)
        self._keep_within_budget()
        return ready

    def since(self, topic: str, lows: dict[Sender, int]) -> Iterator[Packet]:
        """Yield copies of a topic's messages that somebody lacks, each sender's in order.

        ``lows``: what comes next there, by sender. Of others, the newest life of a sender
        included, everything that is kept is lacking.
        """
        for name, stream in list(self.streams.items()):
            if name.topic == topic:
                low = lows.get(name.sender, stream.first)
                for number in sorted(number for number in stream.copies if number >= low):
                    yield stream.copies[number]

    def lows(self, topic: str) -> dict[Sender, int]:
        """Return which message comes next, for each sender to a topic."""
        return {
            name.sender: stream.low for name, stream in self.streams.items() if name.topic == topic
        }

    def forget_topic(self, topic: str) -> None:
        """This node has left a topic."""
        for name in [name for name in self.streams if name.topic == topic]:
            for number in list(self.streams[name].copies):
                self._drop(name, number)
            del self.streams[name]

    def _keep_within_budget(self) -> None:
        """Drop the oldest copies; those that came early are needed, and stay."""
        while self.bytes > self.bytes_max:
            for name, number in self._ages:
                if number < self.streams[name].low:
                    self._drop(name, number)
                    break
            else:
                return

    def _drop(self, name: Name, number: int) -> None:
        del self._ages[name, number]
        self.bytes -= self.streams[name].copies.pop(number).size()
