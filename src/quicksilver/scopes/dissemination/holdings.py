"""What a node has of each sender's messages to a topic: which arrived, and copies of them.

Messages of one sender are numbered without gaps. A node delivers them in order, keeps those
that came early until the gap before them is filled, and keeps copies for others. Both are
within one budget: copies make room for messages that came early, those that everybody has
first, then those of other senders, the oldest of them first. What was fetched for others is
within the budget as well (``fetched``). What is missing and what can be given is all that
recovery needs to know of a node: it is the lower interface of the agents above (dissertation
3.2.12).

Messages come in packets, and nodes cut packets differently. Of what arrives only messages that
were not here are kept, so packets here never overlap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from quicksilver.scopes.dissemination.fetched import Fetched
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.routing import Record
from quicksilver.stdx.ranges import VALUE_MAX, RangeSet

EARLY_MAX = 4096
"""Packets of one sender that wait for a gap before them to be filled."""

EARLY_ASK = 64
"""With so many early messages whoever may have the missing ones is asked for them."""

STABLE_SHARE = 4
"""Copies that everybody has may take one part in so many of the budget: they are for few, and
memory that is used again soon is faster than fresh memory. So may what was fetched for others."""

STREAMS_MAX = 10_000
"""Streams of one node; past it the one that was quiet for longest is forgotten."""

_number_of = attrgetter("number")


class Name(NamedTuple):
    """A stream: the messages of one sender to one topic."""

    topic: str
    sender: Sender


class Taken(NamedTuple):
    """What became of a packet that arrived."""

    fresh: list[Packet]
    """Those of its messages that were not here, and that there is room for …"""
    ready: list[Packet]
    """… and what can be delivered now, in order."""


_NOTHING = Taken([], [])


class Stream:
    """What a node has of one stream."""

    __slots__ = (
        "_early",
        "ask_at",
        "away",
        "copies",
        "early",
        "early_count",
        "first",
        "is_begun",
        "is_lossy",
        "is_own",
        "low",
        "record",
        "refused",
        "stable",
    )

    def __init__(self, first: int, *, is_own: bool = False) -> None:
        self.is_own = is_own
        """True: this node is the sender, so others may need it to have what they lack."""
        self.first = first
        """The stream begins here for this node: it never had what comes before."""
        self.low = first
        """All before were delivered or passed over, or were not for this node."""
        self.stable = 0
        """All who are waited for have everything below."""
        self.away = VALUE_MAX
        """Below ``stable`` if somebody was away and has to get what is stable from here on."""
        self.copies: deque[Packet] = deque()
        """Delivered messages, kept for others: without gaps, up to ``low``."""
        self.early: dict[int, Packet] = {}
        """Packets that came and were not delivered, because a message before them is missing;
        by the number of the first message."""
        self.early_count = 0
        """Messages in them."""
        self.record: Record | None = None
        """How its messages come here; None until one has."""
        self.refused: int | None = None
        """The first of the messages that came early and for which there was no room."""
        self.ask_at = EARLY_ASK
        """With so many early messages others are asked for what is missing."""
        self.is_begun = False
        """False: nothing was delivered or passed over yet."""
        self.is_lossy = False
        """True: some of it comes along channels that lose messages. Whether one that is missing
        can still be had is then for recovery to say, and not for the sources of channels."""
        self._early = RangeSet()

    @property
    def kept(self) -> int:
        """The first message that can be given to others; all up to ``low`` can."""
        return self.copies[0].number if self.copies else self.low

    @property
    def high(self) -> int:
        """One more than the highest number that is here."""
        return self._early.last() + 1 if self._early else self.low

    @property
    def first_early(self) -> int | None:
        """The first message that waits for others before it."""
        return self._early.first() if self._early else None

    def beginning(self) -> int:
        """Return where the stream begins for somebody who has nothing of it.

        What all have that were waited for is not for those who came later.
        """
        return max(self.kept, min(self.stable, self.low))

    def missed(self) -> int:
        """Return where it begins for those who have nothing of it because they were away."""
        return max(self.kept, min(self.stable, self.low, self.away))

    def missing(self, high: int) -> RangeSet:
        """Return which messages below a number have not come."""
        return RangeSet([(self.low, high)] if high > self.low else []).difference(
            self._early.clamped(self.low, high)
        )

    def lacking(self, packet: Packet) -> list[Packet]:
        """Return those parts of a packet that have not come, in order."""
        first, stop = packet.number, packet.stop
        if first >= self.low and (not self._early or first > self._early.last()):
            return [packet]  # As almost always: it comes after all that is here.
        low = max(first, self.low)
        new = RangeSet([(low, stop)]).difference(self._early.clamped(low, stop))
        return [packet.cut(start, end) for start, end in new]

    def given(self, ranges: Iterable[tuple[int, int]]) -> Iterator[Packet]:
        """Yield what is here of the messages in some ranges, in order."""
        copies = self.copies
        firsts = sorted(self.early)
        for first, stop in ranges:
            at = max(bisect_right(copies, first, key=_number_of) - 1, 0)
            while at < len(copies) and copies[at].number < stop:
                if copies[at].stop > first:
                    yield _trimmed(copies[at], first, stop)
                at += 1
            at = max(bisect_right(firsts, first) - 1, 0)
            while at < len(firsts) and firsts[at] < stop:
                packet = self.early[firsts[at]]
                if packet.stop > first:
                    yield _trimmed(packet, first, stop)
                at += 1

    def is_short(self) -> bool:
        """Whether others are to be asked for messages now."""
        if self.refused is not None and self.refused <= self.low:
            return True
        return self.early_count >= self.ask_at

    def handle_asked(self) -> None:
        """Others were asked for what is missing."""
        if self.refused is not None and self.refused <= self.low:
            self.refused = None
        self.ask_at = max(EARLY_ASK, 2 * self.early_count)

    def take_early(self, packet: Packet) -> None:
        self.early[packet.number] = packet
        self.early_count += packet.count
        self._early.add(packet.number, packet.stop)

    def early_bytes(self) -> int:
        return sum(packet.size() for packet in self.early.values())

    def forget_early(self, stop: int) -> None:
        """Forget early messages below a number."""
        early, self.early, self.early_count = self.early, {}, 0
        self._early = RangeSet()
        for packet in early.values():
            if packet.stop > stop:
                self.take_early(_trimmed(packet, stop, packet.stop))

    def advance(self, number: int) -> list[Packet]:
        """Go on at a number; return the early packets up to the next message that is missing."""
        self.is_begun = True
        ready = []
        while (packet := self.early.pop(number, None)) is not None:
            ready.append(packet)
            self.early_count -= packet.count
            number = packet.stop
        if self._early:
            self._early.discard_below(number)
        self.low = number
        if not self.early:
            self.ask_at = EARLY_ASK
        return ready


def _trimmed(packet: Packet, first: int, stop: int) -> Packet:
    return packet if first <= packet.number and packet.stop <= stop else packet.cut(first, stop)


class Holdings:
    """All streams of a node, and the budget of their messages."""

    def __init__(self, bytes_max: int, own: Sender | None = None) -> None:
        """``own``: this node as a sender."""
        self.bytes_max = bytes_max
        self._own = own
        self.bytes = 0
        """Of copies, of early messages and of what was fetched …"""
        self.early_bytes = 0
        """… and of early messages alone; neither is ever above ``bytes_max``."""
        self.streams: dict[Name, Stream] = {}
        """The one that was quiet for longest first."""
        self.arrived: dict[Name, None] = {}
        """Streams that have got something since somebody took note of it."""
        self._by_topic: dict[str, dict[Sender, Stream]] = {}
        self._fetched = Fetched()
        self._own_lows: dict[str, int] = {}
        """How far this node's own streams were in topics that it has left."""
        self._stable: OrderedDict[tuple[Stream, int], None] = OrderedDict()
        """Copies that everybody has, oldest first …"""
        self._stable_bytes = 0
        self._unstable: OrderedDict[tuple[Stream, int], None] = OrderedDict()
        """… and the others …"""
        self._unstable_own: OrderedDict[tuple[Stream, int], None] = OrderedDict()
        """… apart from this node's own, which nobody else may have. Of one stream those that
        everybody has come before the others, so whatever is dropped next is the first copy of
        its stream."""

    def find(self, topic: str, sender: Sender) -> Stream | None:
        streams = self._by_topic.get(topic)
        return None if streams is None else streams.get(sender)

    def begin(self, topic: str, sender: Sender, first: int) -> Stream:
        """A stream begins at a number.

        If it is known, nothing changes, but that it begins earlier if nothing has come yet.
        """
        stream = self.find(topic, sender)
        if stream is None:
            if len(self.streams) >= STREAMS_MAX:
                self._forget(next(iter(self.streams)))
            is_own = sender == self._own
            stream = Stream(
                max(first, self._own_lows.pop(topic, 0)) if is_own else first, is_own=is_own
            )
            self.streams[Name(topic, sender)] = stream
            self._by_topic.setdefault(topic, {})[sender] = stream
        elif first < stream.low and not stream.is_begun:
            stream.first = stream.low = first
        else:
            return stream
        if self._fetched:
            # What was fetched of it may not be from before it begins.
            self.bytes -= self._fetched.bytes
            self._fetched.forget((topic, sender))
            self.bytes += self._fetched.bytes
        return stream

    def take(self, packet: Packet) -> Taken:
        """Take those messages of a packet that were not here.

        One that came early and for which there is no room is not taken: it is still missing.
        A stream that nobody has told the beginning of begins at 0.
        """
        name = Name(packet.topic, packet.sender)
        stream = self.streams.pop(name, None)
        if stream is None:
            stream = self.begin(packet.topic, packet.sender, 0)
        self.streams[name] = stream
        stream.record = packet.record
        if packet.stop <= stream.low:
            return _NOTHING
        fresh: list[Packet] = []
        ready: list[Packet] = []
        for piece in stream.lacking(packet):
            size = piece.size()
            number = piece.number
            if number == stream.low:
                ready.append(piece)
                ready += self._advance(stream, piece.stop)
            elif len(stream.early) >= EARLY_MAX or self.early_bytes + size > self.bytes_max:
                stream.refused = number if stream.refused is None else min(stream.refused, number)
                continue
            else:
                stream.take_early(piece)
                self.early_bytes += size
            fresh.append(piece)
            self.bytes += size
        if fresh:
            self.arrived[name] = None
        self._keep(stream, ready)
        return Taken(fresh, ready)

    def take_fetched(self, packet: Packet) -> list[Packet]:
        """Keep messages for others that are from before a stream begins here, if it does.

        Return those that were not here.
        """
        fresh = self._fetched.take(packet, self._first(packet.topic, packet.sender))
        self.bytes += sum(piece.size() for piece in fresh)
        self._make_room()
        return fresh

    def fetched(self, topic: str, sender: Sender) -> RangeSet:
        """Return which messages of a stream are here because others need them."""
        return self._fetched.ranges((topic, sender))

    def never_here(self, topic: str, sender: Sender, ranges: RangeSet) -> RangeSet:
        """Return which messages of some have not come, be it that this node wants none."""
        stream = self.find(topic, sender)
        found = ranges.clamped(0, self._first(topic, sender))
        if stream is not None and ranges:
            found = found.union(stream.missing(ranges.last() + 1).intersection(ranges))
        return self._fetched.without((topic, sender), found)

    def _first(self, topic: str, sender: Sender) -> int:
        """Return where a stream begins here; all of one that does not begin is for others."""
        stream = self.find(topic, sender)
        if stream is not None:
            return stream.first
        return self._own_lows.get(topic, 0) if sender == self._own else VALUE_MAX

    def pass_over(self, topic: str, sender: Sender, number: int) -> list[Packet | Gap]:
        """Messages below a number cannot be had any more, except those that are here.

        Return what is delivered now, and what is missing among it. Copies from before a gap
        are given up: what is kept of a stream has none.
        """
        stream = self._by_topic[topic][sender]
        told: list[Packet | Gap] = []
        for first, stop in stream.missing(number):
            told.append(Gap(topic, sender, first, stop - 1))
            while stream.copies:
                self._drop(stream)
            ready = self._advance(stream, stop)
            told += ready
            self._keep(stream, ready)
        return told

    def skip(self, topic: str, sender: Sender, first: int) -> list[Packet]:
        """What comes before a number is not for this node, if nothing was delivered yet.

        From now on the stream does not begin earlier. Return what is delivered now.
        """
        stream = self.find(topic, sender)
        if stream is None or stream.is_begun or first < stream.low:
            return []
        self.early_bytes -= stream.early_bytes()
        self.bytes -= stream.early_bytes()
        stream.forget_early(first)
        stream.first = first
        self.early_bytes += stream.early_bytes()
        self.bytes += stream.early_bytes()
        ready = self._advance(stream, first)
        self._keep(stream, ready)
        return ready

    def handle_stable(self, topic: str, sender: Sender, mark: int) -> None:
        """All who are waited for have everything below a number: its copies may go first."""
        stream = self.find(topic, sender)
        if stream is None or mark <= stream.stable:
            return
        copies = stream.copies
        at = max(bisect_right(copies, stream.stable, key=_number_of) - 1, 0)
        stream.stable = mark
        while at < len(copies) and copies[at].stop <= mark:
            key = stream, copies[at].number
            unstable = self._unstable_of(stream)
            if key in unstable:
                del unstable[key]
                self._stable[key] = None
                self._stable_bytes += copies[at].size()
            at += 1
        self._make_room()

    def handle_away(self, topic: str, sender: Sender, mark: int) -> None:
        """Whoever knows nothing of a stream begins here, though more is stable."""
        stream = self.find(topic, sender)
        if stream is not None:
            stream.away = mark

    def copies(self, topic: str, sender: Sender, ranges: RangeSet, bytes_max: int) -> list[Packet]:
        """Return what is here of some messages, as much of it as fits, what was fetched first.

        Of what does not fit the first message is returned all the same, if it would be the
        only one: else nobody could ever get it.
        """
        stream = self.find(topic, sender)
        found: list[Packet] = []
        used = 0
        fetched = self._fetched.given((topic, sender), ranges)
        for packet in chain(fetched, () if stream is None else stream.given(ranges)):
            size = packet.size()
            if used + size > bytes_max:
                if not found:
                    found.append(_shortened(packet, size, bytes_max))
                break
            used += size
            found.append(packet)
        return found

    def since(self, topic: str, lows: dict[Sender, int]) -> Iterator[Packet]:
        """Yield copies of a topic's messages that somebody lacks, each sender's in order.

        ``lows``: what comes next there, by sender. Of others, the newest life of a sender
        included, everything is lacking from where the stream begins, or what was missed of it.
        """
        for sender, stream in list(self._by_topic.get(topic, {}).items()):
            low = lows.get(sender)
            yield from stream.given([(stream.missed() if low is None else low, stream.high)])

    def beginning_of(self, packet: Packet) -> tuple[int, int]:
        """Return where a packet's stream begins for those who have nothing of it, and for those
        of them who were away."""
        stream = self.find(packet.topic, packet.sender)
        if stream is None:
            return packet.number, packet.number
        first = min(stream.beginning(), packet.number)
        return first, min(stream.missed(), first)

    def of_topic(self, topic: str) -> dict[Sender, Stream]:
        """Return the streams of a topic, by sender."""
        return self._by_topic.get(topic, {})

    def forget_topic(self, topic: str) -> None:
        """This node has left a topic.

        If it comes back its own stream goes on where it was, and none of that is missing here.
        """
        own = None if self._own is None else self.find(topic, self._own)
        if own is not None:
            self._own_lows[topic] = own.low
        for sender in list(self._by_topic.get(topic, {})):
            self._forget(Name(topic, sender))
        self.bytes -= self._fetched.bytes
        self._fetched.forget_topic(topic)
        self.bytes += self._fetched.bytes

    def _advance(self, stream: Stream, number: int) -> list[Packet]:
        ready = stream.advance(number)
        if ready:
            self.early_bytes -= sum(packet.size() for packet in ready)
        return ready

    def _keep(self, stream: Stream, packets: list[Packet]) -> None:
        """Keep copies of what was just delivered; their bytes were counted on arrival."""
        for packet in packets:
            stream.copies.append(packet)
            if packet.stop <= stream.stable:
                self._stable[stream, packet.number] = None
                self._stable_bytes += packet.size()
            else:
                self._unstable_of(stream)[stream, packet.number] = None
        self._make_room()

    def _make_room(self) -> None:
        while self._stable_bytes > self.bytes_max // STABLE_SHARE:
            self._drop(next(iter(self._stable))[0])
        while self._fetched.bytes > self.bytes_max // STABLE_SHARE:
            self._drop_fetched()
        while self.bytes > self.bytes_max:
            # What came early is needed, and stays.
            if copies := self._stable or self._unstable:
                self._drop(next(iter(copies))[0])
            elif self._fetched:
                self._drop_fetched()
            else:
                self._drop(next(iter(self._unstable_own))[0])

    def _unstable_of(self, stream: Stream) -> OrderedDict[tuple[Stream, int], None]:
        return self._unstable_own if stream.is_own else self._unstable

    def _drop(self, stream: Stream) -> None:
        packet = stream.copies.popleft()
        key = stream, packet.number
        size = packet.size()
        if key in self._stable:
            del self._stable[key]
            self._stable_bytes -= size
        else:
            del self._unstable_of(stream)[key]
        self.bytes -= size

    def _drop_fetched(self) -> None:
        self.bytes -= self._fetched.bytes
        self._fetched.drop_oldest()
        self.bytes += self._fetched.bytes

    def _forget(self, name: Name) -> None:
        stream = self.streams.pop(name)
        self.arrived.pop(name, None)
        while stream.copies:
            self._drop(stream)
        size = stream.early_bytes()
        self.bytes -= size
        self.early_bytes -= size
        others = self._by_topic[name.topic]
        del others[name.sender]
        if not others:
            del self._by_topic[name.topic]


def _shortened(packet: Packet, size: int, bytes_max: int) -> Packet:
    """Return as many messages of a packet as fit, at least one."""
    room = bytes_max - (size - packet.payload_bytes())
    count = 0
    for message in packet.split():
        room -= len(message)
        if room < 0:
            break
        count += 1
    return packet.cut(packet.number, packet.number + max(count, 1))
