"""Messages that a node has fetched for others, from before their streams begin at the node.

A stream need not begin at a node with its first message: the node has joined late, only sends
to the topic, or is the sender itself, has left the topic and come back. Earlier messages are
not missing to such a node. But if it speaks for a domain it is asked for whatever the domain's
members have, and fetches it from them (``reliability.repairs``). Such messages are kept here,
apart from what the node has for itself: they are not delivered, and say nothing about how far
the node has come. They are given when they are asked for again, so they are needed for a short
time, and the oldest go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.stdx.ranges import RangeSet

Key = tuple[str, Sender]
"""A stream, by topic and sender."""


class Fetched:
    """What one node has fetched."""

    def __init__(self) -> None:
        self.bytes = 0
        self._streams: dict[Key, dict[int, Packet]] = {}
        """Packets by the number of the first message; those of a stream do not overlap."""
        self._ranges: dict[Key, RangeSet] = {}
        """Which messages are in them."""
        self._order: OrderedDict[tuple[Key, int], None] = OrderedDict()
        """The oldest packet first."""

    def __bool__(self) -> bool:
        return bool(self._order)

    def ranges(self, key: Key) -> RangeSet:
        """Return which messages of a stream are here."""
        known = self._ranges.get(key)
        return RangeSet() if known is None else known.copy()

    def without(self, key: Key, ranges: RangeSet) -> RangeSet:
        """Return which messages of some are not here."""
        known = self._ranges.get(key)
        return ranges if known is None else ranges.difference(known)

    def take(self, packet: Packet, stop: int) -> list[Packet]:
        """Keep a packet's messages below a number; return those that were not here."""
        if packet.number >= stop:
            return []
        key = packet.topic, packet.sender
        wanted = self.without(key, RangeSet([(packet.number, min(packet.stop, stop))]))
        fresh = [packet.cut(start, end) for start, end in wanted]
        for piece in fresh:
            self._streams.setdefault(key, {})[piece.number] = piece
            self._ranges.setdefault(key, RangeSet()).add(piece.number, piece.stop)
            self._order[key, piece.number] = None
            self.bytes += piece.size()
        return fresh

    def given(self, key: Key, ranges: Iterable[tuple[int, int]]) -> Iterator[Packet]:
        """Yield what is here of the messages in some ranges, in order."""
        packets = self._streams.get(key, {})
        numbers = sorted(packets)
        for first, stop in ranges:
            for number in numbers:
                packet = packets[number]
                if number < stop and packet.stop > first:
                    yield packet.cut(max(first, number), min(stop, packet.stop))

    def drop_oldest(self) -> None:
        self._drop(*next(iter(self._order)))

    def forget(self, key: Key) -> None:
        for number in list(self._streams.get(key, ())):
            self._drop(key, number)

    def forget_topic(self, topic: str) -> None:
        for key in [key for key in self._streams if key[0] == topic]:
            self.forget(key)

    def _drop(self, key: Key, number: int) -> None:
        del self._order[key, number]
        packet = self._streams[key].pop(number)
        self.bytes -= packet.size()
        if self._streams[key]:
            self._ranges[key].discard(number, packet.stop)
        else:
            del self._streams[key], self._ranges[key]
