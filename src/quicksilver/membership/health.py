"""When a node counts as failed.

A node is silent too long, or its connection breaks and it does not resume. Two
faults of the GMS itself look the same from here, and must not cost nodes their
place:

* It was held up (stopped, swapped out, busy with a large plan) and finds all
  nodes silent although what they said waits in its sockets. So silence is
  measured in the GMS's running time: the clock, less the time it was held up.
* Its own link is down. So a GMS that hears less than half of its nodes suspects
  itself first: it holds its judgement, until one of the silent is heard again,
  or until they are no longer the majority. From then on all have the usual time.

The second doubt is bounded: whoever has been silent for ``silence_s_max`` has
failed, whatever the others do. A connection that the other side closed or reset
is no silence: the network carried that, so a crash is cleaned up as ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from quicksilver.membership.tables import NodeRow

LATE_S = 0.25
"""A timer served later than this: the GMS itself was held up."""

COUNT_INTERVAL_S = 0.05
"""Least time between two counts of the silent: each looks at all nodes."""


@dataclass(slots=True)
class Watch:
    """How a node of the cluster is doing; lives as long as its incarnation."""

    row: NodeRow
    conn: int | None
    """The node's connection; None while it is disconnected and may still resume."""
    heard_at: float
    """When the node was last heard, by the clock; for snapshots."""
    heard_from: float = float("inf")
    """When it was last heard, in running time; not before the service has noted that."""
    counted_from: float = 0.0
    """In running time: when the node was last heard, or its connection broke."""
    grace_s: float = 0.0
    """How long it may be disconnected."""
    said_end: bool = False
    """The node's side ended the connection: that was heard, so it is not silent."""
    stats: dict[str, int | float | str] = field(default_factory=dict)
    departs: str = ""
    """Not empty: the incarnation ends with the next batch, for this reason."""


@dataclass(frozen=True, slots=True)
class Judging:
    """Who is silent for too long has failed."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Most nodes are silent: the fault may be this GMS's own, so nobody is judged."""

    since: float
    """By the clock."""
    silent: int
    nodes: int


class FailureDetector:
    """Judges nodes from what was heard of them."""

    def __init__(self, failure_timeout_s: float, silence_s_max: float) -> None:
        self.state: Judging | Holding = Judging()
        self._failure_timeout_s = failure_timeout_s
        self._silence_s_max = max(silence_s_max, failure_timeout_s)
        self._held_up_s = 0.0
        """How far the running time lags behind the clock: all the time the GMS was held up."""
        self._seen_at = 0.0
        """When the service last did anything."""
        self._pardoned_from = float("-inf")
        """In running time: when the last doubt ended; the silent have the usual time anew."""
        self._counted_at = float("-inf")
        self._silent = 0
        self._nodes = 0
        """The last count, of the clock's ``_counted_at``."""

    def handle_time(self, now: float, due_at: float | None) -> bool:
        """Compare the clock with the next timer; return True if the GMS was held up."""
        seen_at, self._seen_at = self._seen_at, now
        if due_at is None or now - max(due_at, seen_at) <= LATE_S:
            return False
        # It may have stood still since the last time it did anything.
        self._held_up_s += now - seen_at
        return True

    def handle_heard(self, watch: Watch, now: float) -> None:
        """A node gave a sign of life."""
        if isinstance(self.state, Holding) and self._is_silent(watch, now):
            self._become_judging(now)
        watch.heard_at = now
        watch.heard_from = watch.counted_from = now - self._held_up_s
        watch.said_end = False

    def handle_lost(self, watch: Watch, grace_s: float, now: float) -> None:
        """A node's side ended its connection."""
        if isinstance(self.state, Holding) and self._is_silent(watch, now):
            self._become_judging(now)
        watch.conn = None
        watch.grace_s = grace_s
        watch.counted_from = now - self._held_up_s
        watch.said_end = True

    def handle_mute(self, watch: Watch) -> None:
        """The connection was given up because nothing comes from there: silence goes on."""
        watch.conn = None
        watch.grace_s = self._failure_timeout_s

    def handle_stored(self, watch: Watch, grace_s: float, now: float) -> None:
        """The GMS starts again: a node that it knows has not resumed yet."""
        watch.conn = None
        watch.grace_s = grace_s
        watch.heard_from = watch.counted_from = now - self._held_up_s

    def handle_welcomed(self, watch: Watch, now: float) -> None:
        """The GMS kept a new node waiting until now: it had nothing to say before."""
        watch.heard_from = watch.counted_from = now - self._held_up_s

    def deadline(self, watch: Watch) -> float:
        """Return when to judge the node if nothing is heard of it."""
        limit_s = watch.grace_s if watch.conn is None else self._failure_timeout_s
        due = watch.counted_from + limit_s
        if watch.heard_from < self._pardoned_from:
            anew = self._pardoned_from + self._failure_timeout_s
            return max(
                due + self._held_up_s, min(anew + self._held_up_s, self._end_of_patience(watch))
            )
        return due + self._held_up_s

    def has_failed(self, watch: Watch, watches: Collection[Watch], now: float) -> bool:
        """Judge a node whose deadline has passed; the others say whether to trust the silence."""
        if watch.said_end or now >= self._end_of_patience(watch):
            return True
        self._count(watches, now)
        match self.state:
            case Judging() if 2 * self._silent > self._nodes:
                self.state = Holding(now, self._silent, self._nodes)
                return False
            case Holding() if 2 * self._silent > self._nodes:
                return False
            case Holding():
                self._become_judging(now)
                return False
            case Judging():
                return True

    def next_look(self, watch: Watch, now: float) -> float:
        """Return when to look again at a node that was not judged."""
        if isinstance(self.state, Judging):
            return self.deadline(watch)
        return min(now + self._failure_timeout_s / 2, self._end_of_patience(watch))

    def reason(self, watch: Watch) -> str:
        """Say why the node counts as failed."""
        if watch.said_end:
            return "the connection broke and the node did not resume"
        if watch.conn is None:
            return "the node did not resume"
        return f"the node was silent for {self._failure_timeout_s:g} s"

    def _become_judging(self, now: float) -> None:
        self.state = Judging()
        self._pardoned_from = now - self._held_up_s
        self._counted_at = float("-inf")

    def _end_of_patience(self, watch: Watch) -> float:
        return watch.heard_from + self._silence_s_max + self._held_up_s

    def is_silent(self, watch: Watch, now: float) -> bool:
        """Whether nothing was heard of a node for so long that it may have failed."""
        return watch.said_end or self._is_silent(watch, now)

    def _is_silent(self, watch: Watch, now: float) -> bool:
        # Midway between a heartbeat of a node that is well and the failure timeout: when
        # the first of many is overdue, all who fell silent with it are past this, and
        # nobody else is.
        silence_s = now - self._held_up_s - watch.heard_from
        return not watch.said_end and silence_s >= self._failure_timeout_s / 2

    def _count(self, watches: Iterable[Watch], now: float) -> None:
        if now - self._counted_at < COUNT_INTERVAL_S:
            return
        self._counted_at = now
        known = [watch for watch in watches if not watch.departs]
        self._nodes = len(known)
        self._silent = sum(self._is_silent(watch, now) for watch in known)
