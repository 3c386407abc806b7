"""Repairs: who lacks messages asks a member that has them, and is given copies.

Something that is lacking may be on its way: it is asked for only if it still lacks a moment
later, once, whichever agents of the node find that, and again if no answer comes, in turn of
the member that is said to have it and of others. Answers are limited in bytes and rate; what
was just sent to a member is not sent again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol, TypeVar

import msgspec

from quicksilver.scopes.dissemination.holdings import STREAMS_MAX, Name
from quicksilver.scopes.dissemination.packets import Packet
from quicksilver.scopes.names import Path
from quicksilver.scopes.posts import AgentKey, Post, parse_part, way_of
from quicksilver.scopes.reliability.frames import PACKETS_MAX, Copies, Item, Pull
from quicksilver.scopes.reliability.lower import NodeState
from quicksilver.scopes.reliability.records import SEGMENTS_MAX, Segment
from quicksilver.scopes.routing import Channel
from quicksilver.stdx.ranges import RangeSet, parse_flat

Key = TypeVar("Key")
Value = TypeVar("Value")

MESSAGES_ASKED_MAX = 4096
"""Messages that one question asks for."""

ITEM_MESSAGES = 64
ITEMS_MAX = 32
"""Where all are asked at once: messages of one question, and questions about one stream."""

LACKING_MAX = 10_000
SENT_MAX = 4096
QUEUE_MAX = 4096
"""Entries of tables, and messages that wait."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """How eagerly messages are asked for and given."""

    grace_s: float = 0.02
    """What is lacking for a shorter time may be on its way."""
    again_s: float = 0.1
    """After this time without an answer the same is asked for again."""
    sent_again_s: float = 0.05
    """The same is not sent to the same member again before."""
    answer_bytes: int = 256 << 10
    """Of one answer."""
    answer_bytes_s: float = 16e6
    """Of all answers of a node in a second."""


class Asker(Protocol):
    """The rounds of an agent, as far as repairs need to know them."""

    key: AgentKey
    post: Post
    seat: int

    def offers_below(self, name: Name) -> tuple[Asker, Sequence[Segment]] | None:
        """Return the rounds of the domain that the agent speaks for, and who has what there;
        None: it speaks for the node itself."""
        ...


@dataclass(slots=True)
class _Lacking:
    """What one agent finds lacking of a stream."""

    ranges: RangeSet
    """Lacking since a time …"""
    since: float
    due: RangeSet = field(default_factory=RangeSet)
    """… and what is lacking for long enough to be asked for."""
    first: int = -1
    tries: int = 0
    """How often it was asked while the first that was lacking stayed the same."""


class _Recent:
    """Numbers that were noted a short time ago: for one to two periods."""

    __slots__ = ("_at", "_new", "_old")

    def __init__(self) -> None:
        self._at = 0.0
        self._new = RangeSet()
        self._old = RangeSet()

    def without(self, ranges: RangeSet, now: float, period_s: float) -> RangeSet:
        """Return those of some numbers that were not noted."""
        if now - self._at >= period_s:
            fresh = now - self._at < 2 * period_s
            self._old = self._new if fresh else RangeSet()
            self._new = RangeSet()
            self._at = now
        return ranges.difference(self._new).difference(self._old)

    def note(self, ranges: Iterable[tuple[int, int]]) -> None:
        for start, stop in ranges:
            self._new.add(start, stop)


class Repairs:
    """What one node asks for and gives."""

    def __init__(self, node: NodeState, config: Config) -> None:
        self._node = node
        self._config = config
        self._lacking: dict[tuple[AgentKey, Name], _Lacking] = {}
        self._asked: dict[Name, _Recent] = {}
        self._sent: dict[tuple[AgentKey, int, Name], _Recent] = {}
        self._room = 0.0
        """Bytes that may be given now."""
        self._room_at = 0.0
        self.pulls: deque[tuple[AgentKey, int, Pull]] = deque()
        """Who asks which member for what."""
        self.repairs: deque[tuple[Channel, Packet]] = deque()
        self.counters: Counter[str] = Counter()

    # Asking

    def handle_lacking(
        self,
        asker: Asker,
        name: Name,
        lacking: RangeSet,
        offers: Sequence[Segment],
        now: float,
    ) -> None:
        """An agent finds that messages are lacking that others have."""
        key = asker.key, name
        entry = self._lacking.get(key)
        if not lacking:
            if entry is not None:
                del self._lacking[key]
            return
        if entry is None:
            entry = _put(self._lacking, key, _Lacking(lacking, now), LACKING_MAX)
        entry.due = entry.due.intersection(lacking)
        if now - entry.since >= self._config.grace_s:
            entry.due = entry.due.union(lacking.intersection(entry.ranges))
            entry.ranges, entry.since = lacking, now
        if asker.post.protocol != "requests":
            self._pull(asker, name, entry, offers, now)

    def _pull(
        self, asker: Asker, name: Name, entry: _Lacking, offers: Sequence[Segment], now: float
    ) -> None:
        asked = self._asked.get(name)
        if asked is None:
            asked = _put(self._asked, name, _Recent(), STREAMS_MAX)
        due = asked.without(entry.due, now, self._config.again_s)
        if not due or len(self.pulls) >= QUEUE_MAX:
            return
        if due.first() == entry.first:
            entry.tries += 1
        else:
            entry.first, entry.tries = due.first(), 0
        for member, ranges in self._choose(asker, due, offers, entry.tries):
            flat = tuple(ranges.to_flat())
            self.pulls.append((asker.key, member, Pull(name.topic, name.sender, flat)))
            asked.note(ranges)
            self.counters["pulls"] += 1

    def _choose(
        self, asker: Asker, due: RangeSet, offers: Sequence[Segment], tries: int
    ) -> list[tuple[int, RangeSet]]:
        """Return whom to ask for what."""
        if tries % 2:
            # Who is said to have it does not answer: ask another one.
            others = [seat for seat in range(len(asker.post.seats)) if seat != asker.seat]
            other = others[(asker.seat + tries // 2) % len(others)]
            return [(other, _limited(due))]
        by_member: dict[int, RangeSet] = {}
        for segment in offers:
            if segment.member == asker.seat:
                continue
            for start, stop in due.clamped(segment.start, segment.stop):
                by_member.setdefault(segment.member, RangeSet()).add(start, stop)
        return [(member, _limited(ranges)) for member, ranges in sorted(by_member.items())]

    def wanted(self, asker: Asker) -> list[Item]:
        """Return what an agent asks all members for."""
        found = []
        for (key, name), entry in self._lacking.items():
            if key != asker.key:
                continue
            pieces = _pieces(self._node.without(name, entry.due))
            found += [Item(name.topic, name.sender, *piece) for piece in islice(pieces, ITEMS_MAX)]
        return found

    # Giving

    def handle_pull(self, asker: Asker, origin: int, pull: Pull, now: float) -> Copies | None:
        """A member asks for messages: return what is here of them."""
        ranges = parse_flat(pull.ranges, SEGMENTS_MAX)
        if ranges is None or pull.topic not in asker.post.topics:
            self.counters["bad_pulls"] += 1
            return None
        name = Name(pull.topic, pull.sender)
        key = asker.key, origin, name
        sent = self._sent.get(key)
        if sent is None:
            sent = _put(self._sent, key, _Recent(), SENT_MAX)
        wanted = sent.without(ranges, now, self._config.sent_again_s)
        copies = self._copies(asker, name, wanted, now)
        self._fetch(asker, name, wanted, now)
        if copies is not None:
            sent.note((packet.number, packet.stop) for packet in copies.packets)
        return copies

    def _fetch(self, asker: Asker, name: Name, wanted: RangeSet, now: float) -> None:
        """Ask for messages that another one wants and that were never here.

        Whoever speaks for a domain is asked for what its members have, and need not have it:
        its node may only send to the topic. They are given when they are asked for again.
        Where the member that has them is one that this node speaks for as well, the domain
        further down tells whom to ask, and so on.
        """
        below = asker.offers_below(name)
        missing = RangeSet() if below is None else self._node.without(name, wanted)
        if below is None or not missing:
            return
        asked = self._asked.get(name)
        if asked is None:
            asked = _put(self._asked, name, _Recent(), STREAMS_MAX)
        due = asked.without(missing, now, self._config.again_s)
        while below is not None and due:
            rounds, offers = below
            for member, ranges in self._choose(rounds, due, offers, 0):
                if len(self.pulls) < QUEUE_MAX:
                    flat = tuple(ranges.to_flat())
                    self.pulls.append((rounds.key, member, Pull(name.topic, name.sender, flat)))
                    asked.note(ranges)
                    self.counters["fetched"] += 1
                due = due.difference(ranges)
            below = rounds.offers_below(name)

    def give(self, asker: Asker, item: object, now: float) -> Copies | None:
        """Return messages that somebody has asked all for, if all of them are here.

        Of more than fits into an answer the first are given: the others are asked for again.
        """
        if not isinstance(item, Item) or item.start >= item.stop:
            return None
        if item.stop - item.start > ITEM_MESSAGES or item.topic not in asker.post.topics:
            return None
        wanted = RangeSet([(item.start, item.stop)])
        packets = self._node.lower.copies(
            item.topic, item.sender, wanted, self._config.answer_bytes
        )
        if sum(packet.count for packet in packets) < wanted.count() and not (
            packets and self._has(item, packets[-1].stop)
        ):
            self._fetch(asker, Name(item.topic, item.sender), wanted, now)
            return None
        return Copies(way_of(asker.post), tuple(packets[:PACKETS_MAX]))

    def _has(self, item: Item, number: int) -> bool:
        one = RangeSet([(number, number + 1)])
        return bool(self._node.lower.copies(item.topic, item.sender, one, 1))

    def _copies(self, asker: Asker, name: Name, wanted: RangeSet, now: float) -> Copies | None:
        rate = self._config.answer_bytes_s
        burst = max(rate / 10, self._config.answer_bytes)
        self._room = min(burst, self._room + rate * max(0.0, now - self._room_at))
        self._room_at = max(now, self._room_at)
        if not wanted or self._room <= 0:
            self.counters["held_back"] += bool(wanted)
            return None
        bytes_max = min(self._config.answer_bytes, int(self._room))
        packets = self._node.lower.copies(*name, wanted, bytes_max)[:PACKETS_MAX]
        if not packets:
            self.counters["not_here"] += 1
            return None
        self._room -= sum(packet.size() for packet in packets)
        self.counters["given"] += sum(packet.count for packet in packets)
        return Copies(way_of(asker.post), tuple(packets))

    # Taking

    def handle_copies(self, asker: Asker, origin: int, copies: Copies) -> None:
        """A member gives messages: whatever was missing here goes to the forwarder."""
        post = asker.post
        member = post.seats[origin].member
        part = parse_part(member)
        if part is None and copies.way[0] != member:
            self.counters["forged"] += 1
            return
        for packet in copies.packets:
            name = Name(packet.topic, packet.sender)
            if packet.topic not in post.topics:
                self.counters["forged"] += 1
                continue
            is_missing = self._node.without(name, RangeSet([(packet.number, packet.stop)]))
            if is_missing and len(self.repairs) < QUEUE_MAX:
                self._node.begin(name)
                self.repairs.append((channel_of(post, copies.way, packet), packet))
                self.counters["taken"] += packet.count

    def forget(self, key: AgentKey) -> None:
        """An agent is gone, or its view."""
        for each in [each for each in self._lacking if each[0] == key]:
            del self._lacking[each]
        for sent in [sent for sent in self._sent if sent[0] == key]:
            del self._sent[sent]
        self.pulls = deque(pull for pull in self.pulls if pull[0] != key)


def channel_of(post: Post, giver: Path, packet: Packet) -> Channel:
    """Return the way of a repaired packet as if it were a channel of the domain's scope."""
    scope = post.domain.scope
    origin = giver[0]
    for entry in packet.record:
        if entry.scope == scope:
            origin = entry.origin
    return Channel(scope, giver, way_of(post), packet.topic, origin)


def _pieces(ranges: RangeSet) -> Iterator[tuple[int, int]]:
    """Yield ranges cut where all members cut them: so several ask for the same."""
    for first, stop in ranges:
        start = first
        while start < stop:
            end = min(stop, start - start % ITEM_MESSAGES + ITEM_MESSAGES)
            yield start, end
            start = end


def _limited(ranges: RangeSet) -> RangeSet:
    """Return as much of some ranges as one question asks for."""
    found = RangeSet()
    room = MESSAGES_ASKED_MAX
    for start, stop in ranges.head(SEGMENTS_MAX):
        found.add(start, min(stop, start + room))
        room -= stop - start
        if room <= 0:
            break
    return found


def _put(table: dict[Key, Value], key: Key, value: Value, most: int) -> Value:
    """Put something into a table that is bounded: the oldest entry goes."""
    table[key] = value
    if len(table) > most:
        del table[next(iter(table))]
    return value
