"""When a node counts as failed.

A node is silent too long, or its connection breaks and it does not resume. A
GMS that was itself held up (stopped, swapped out, busy with a large plan) finds
all nodes silent although what they said waits in its sockets. So silence is
measured in the GMS's running time: the clock, less the time it was held up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quicksilver.membership.tables import NodeRow

LATE_S = 0.25
"""A timer served later than this: the GMS itself was held up."""


@dataclass(slots=True)
class Watch:
    """How a node of the cluster is doing; lives as long as its incarnation."""

    row: NodeRow
    conn: int | None
    """The node's connection; None while it is disconnected and may still resume."""
    heard_at: float
    """When the node was last heard, by the clock; for snapshots."""
    counted_from: float = 0.0
    """In running time: when the node was last heard, or its connection broke."""
    grace_s: float = 0.0
    """How long it may be disconnected."""
    stats: dict[str, int | float | str] = field(default_factory=dict)
    departs: str = ""
    """Not empty: the incarnation ends with the next batch, for this reason."""


class FailureDetector:
    """Judges nodes from what was heard of them."""

    def __init__(self, failure_timeout_s: float) -> None:
        self._failure_timeout_s = failure_timeout_s
        self._held_up_s = 0.0
        """How far the running time lags behind the clock: all the time the GMS was held up."""
        self._seen_at = 0.0
        """When the service last did anything."""

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
        watch.heard_at = now
        watch.counted_from = now - self._held_up_s

    def handle_lost(self, watch: Watch, grace_s: float, now: float) -> None:
        """A node's connection broke, or it has not resumed after a restart."""
        watch.conn = None
        watch.grace_s = grace_s
        watch.counted_from = now - self._held_up_s

    def deadline(self, watch: Watch) -> float:
        """Return when the node counts as failed if nothing is heard of it."""
        limit_s = watch.grace_s if watch.conn is None else self._failure_timeout_s
        return watch.counted_from + limit_s + self._held_up_s

    def reason(self, watch: Watch) -> str:
        """Say why the node counts as failed."""
        if watch.conn is None:
            return "the connection broke and the node did not resume"
        return f"the node was silent for {self._failure_timeout_s:g} s"
