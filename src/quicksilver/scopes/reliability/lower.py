"""What agents know of their own node: the bottom of every stack (dissertation 3.2.12).

The messages themselves are in the node's holdings. Kept here is what agents of one node share,
whatever their domains: how far each stream is stable, what is lost, where this node was counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from quicksilver.scopes.dissemination.holdings import STREAMS_MAX, Name
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.reliability.records import Kind, Own, Return
from quicksilver.scopes.reliability.returns import RETURN_S, Returns
from quicksilver.stdx.ranges import VALUE_MAX, RangeSet


class LowerStream(Protocol):
    """What a node has of one stream (``holdings.Stream``)."""

    stable: int

    @property
    def low(self) -> int: ...

    @property
    def high(self) -> int: ...

    @property
    def kept(self) -> int: ...

    @property
    def is_begun(self) -> bool: ...

    def missing(self, high: int) -> RangeSet: ...


class LowerState(Protocol):
    """What a node has (``holdings.Holdings``)."""

    def find(self, topic: str, sender: Sender) -> LowerStream | None: ...

    def of_topic(self, topic: str) -> Mapping[Sender, LowerStream]: ...

    def begin(self, topic: str, sender: Sender, first: int) -> object: ...

    def fetched(self, topic: str, sender: Sender) -> RangeSet: ...

    def never_here(self, topic: str, sender: Sender, ranges: RangeSet) -> RangeSet: ...

    def copies(
        self, topic: str, sender: Sender, ranges: RangeSet, bytes_max: int
    ) -> list[Packet]: ...

    def handle_stable(self, topic: str, sender: Sender, mark: int) -> None: ...

    def handle_away(self, topic: str, sender: Sender, mark: int) -> None: ...


Value = TypeVar("Value")

Subscribes = Callable[[str], bool]
"""Whether anybody at the node wants the messages of a topic."""


class NodeState:
    """What the agents of one node share."""

    def __init__(self, lower: LowerState, subscribes: Subscribes) -> None:
        self.lower = lower
        self.subscribes = subscribes
        self.active: dict[Name, None] = {}
        """Streams that have something which is not stable; the longest active first."""
        self._stable: dict[Name, int] = {}
        self._lost: dict[Name, int] = {}
        self._counted: dict[Name, None] = {}
        """Streams in which this node was counted as one that is waited for: it stays so."""
        self._returns = Returns()
        self._joined_at: dict[str, float] = {}
        self.begun: deque[tuple[str, Sender, int]] = deque()
        """Streams that were taken to begin earlier than they do for this node."""
        self.given_up: deque[tuple[str, Sender, int]] = deque()
        """Streams and marks below which what is missing cannot be had."""
        self.risen: dict[Name, None] = {}
        """Streams whose stable part has grown since somebody took note of it."""

    # What happens at the node

    def handle_arrived(self, name: Name) -> bool:
        """There is something new of a stream here; return whether it was quiet."""
        if name in self.active:
            return False
        stream = self.lower.find(*name)
        if stream is None or stream.high <= self.stable(name):
            return False
        if len(self.active) >= STREAMS_MAX:
            del self.active[next(iter(self.active))]
        self.active[name] = None
        return True

    def scan(self, topic: str) -> bool:
        """Look for active streams of a topic; return whether there are new ones."""
        names = [Name(topic, sender) for sender in self.lower.of_topic(topic)]
        fresh = [name for name in sorted(names, key=sort_key) if self.handle_arrived(name)]
        return bool(fresh)

    def active_of(self, topics: frozenset[str]) -> list[Name]:
        """Return the active streams of some topics, and forget those that are quiet."""
        found = []
        for name in list(self.active):
            if name.topic not in topics:
                continue
            stream = self.lower.find(*name)
            if stream is None or self.stable(name) >= stream.high:
                del self.active[name]
            else:
                found.append(name)
        return found

    # What was agreed on

    def stable(self, name: Name) -> int:
        return self._stable.get(name, 0)

    def lost(self, name: Name) -> int:
        return self._lost.get(name, 0)

    def learn(self, name: Name, stable: int, lost: int) -> None:
        """An agent was told how far a stream is stable, and below what it is not to be had."""
        if stable > self.stable(name):
            _put(self._stable, name, stable)
            self.risen[name] = None
            self.lower.handle_stable(*name, stable)
        if lost > self.lost(name):
            _put(self._lost, name, lost)
        stream = self.lower.find(*name)
        lost = self.lost(name)
        if stream is not None and not self.subscribes(name.topic) and stream.kept == stream.low:
            lost = self.stable(name)  # Nobody here waits for it, and nothing goes with it.
        elif stream is None or not self.subscribes(name.topic):
            return
        if lost <= stream.low:
            return
        is_new = (*name, lost) not in self.given_up and len(self.given_up) < STREAMS_MAX
        if is_new and stream.missing(lost):
            self.given_up.append((*name, lost))

    def report(self, name: Name, agreed: int) -> Own:
        """Return what this node has of a stream.

        ``agreed``: what the domain has agreed on. Whoever lacks something of it, or of what
        is stable, and was never counted is not counted yet ("guarded join", 3.2.15).
        """
        stream = self.lower.find(*name)
        is_receiver = self.subscribes(name.topic)
        if stream is None:
            if not is_receiver:
                return _fetched_alone(self.lower.fetched(*name))
            self.begin(name)
            stream = self.lower.find(*name)
            assert stream is not None
        if is_receiver and not stream.is_begun and name not in self._counted:
            # It may have been told where those begin who were away.
            first = self._beginning(name)
            is_told = (*name, first) in self.begun or len(self.begun) >= STREAMS_MAX
            if stream.low <= first and not is_told:
                self.begun.append((*name, first))
        low, high = stream.low, stream.high
        some = RangeSet([(low, high)] if high > low else []).difference(stream.missing(high))
        gives = self.lower.fetched(*name)
        if stream.kept < low:
            gives.add(stream.kept, low)
        kept = next((start for start, stop in gives if stop == low), VALUE_MAX)
        some = some.union(gives.clamped(0, kept))
        if not is_receiver:
            return Own(Kind.NEUTRAL, low=low, high=high, kept=kept, some=some)
        kind = Kind.REGULAR
        if name not in self._counted:
            if low < max(agreed, self.stable(name)):
                kind = Kind.LIGHT
            else:
                _put(self._counted, name, None)
        return Own(kind, low=low, need=low, high=high, kept=kept, some=some)

    def begin(self, name: Name) -> None:
        """Begin a stream that this node wants, if it knows nothing of it."""
        if self.subscribes(name.topic) and self.lower.find(*name) is None:
            self.lower.begin(*name, self._beginning(name))
            self.lower.handle_stable(*name, self.stable(name))
            self._tell_away(name)

    # Members that are away

    def note_joined(self, topic: str, now: float) -> None:
        """This node takes part in a topic."""
        self._joined_at.setdefault(topic, now)

    def note_subscribed(self, topic: str, now: float) -> None:
        """Applications want a topic, to which this node may have sent only until now."""
        if topic in self._joined_at:
            self._joined_at[topic] = now

    def _beginning(self, name: Name) -> int:
        """Return where a stream begins for this node, which knows nothing of it.

        What is stable was for those who were here before.
        """
        mark = self._returns.find(name, self._joined_at.get(name.topic, 0.0))
        return self.stable(name) if mark is None else min(mark, self.stable(name))

    def note_away(self, name: Name, mark: int, until: float) -> None:
        """Until a time, a member may come back that lacks what follows a number."""
        self._returns.note(name, mark, until)
        self._tell_away(name)

    def returns_of(self, name: Name, now: float) -> tuple[Return, ...]:
        """Return where members begin that were away, and know nothing of a stream."""
        return tuple(
            Return(min(until - now, RETURN_S), mark)
            for until, mark in self._returns.of_stream(name)
            if until > now
        )

    def _tell_away(self, name: Name) -> None:
        marks = self._returns.of_stream(name)
        self.lower.handle_away(*name, marks[0][1] if marks else VALUE_MAX)

    def next_timeout(self) -> float | None:
        return self._returns.next_timeout()

    def handle_timeout(self, now: float) -> None:
        for name in self._returns.expire(now):
            self._tell_away(name)

    def is_counted(self, name: Name) -> bool:
        return name in self._counted

    def lacking(self, name: Name, ranges: RangeSet) -> RangeSet:
        """Return which messages of some this node wants and does not have."""
        stream = self.lower.find(*name)
        if stream is None or not ranges or not self.subscribes(name.topic):
            return RangeSet()
        return stream.missing(ranges.last() + 1).intersection(ranges)

    def without(self, name: Name, ranges: RangeSet) -> RangeSet:
        """Return which messages of some were never here."""
        return self.lower.never_here(*name, ranges)

    def forget_topic(self, topic: str) -> None:
        self._returns.forget_topic(topic)
        self._joined_at.pop(topic, None)
        tables: list[dict[Name, Any]]
        tables = [self._stable, self._lost, self._counted, self.active, self.risen]
        for table in tables:
            for name in [name for name in table if name.topic == topic]:
                del table[name]


def _fetched_alone(fetched: RangeSet) -> Own:
    """Return what a node has of a stream that it does not want, and has fetched for others."""
    if not fetched:
        return Own(Kind.NEUTRAL)
    kept, low = next(iter(fetched))
    some = fetched.clamped(low, VALUE_MAX)
    return Own(Kind.NEUTRAL, low=low, high=fetched.last() + 1, kept=kept, some=some)


def sort_key(name: Name) -> tuple[str, str, str, int]:
    return name.topic, name.sender.scope, name.sender.node, name.sender.life


def _put(table: dict[Name, Value], name: Name, value: Value) -> None:
    """Put something into a table that is bounded: the oldest entry goes."""
    table[name] = value
    if len(table) > STREAMS_MAX:
        del table[next(iter(table))]
