"""Virtual time: what happens next, in an order that nothing but the run decides."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

Work = Callable[[], None]


class EventQueue:
    """Events by time; those of the same time happen in the order they were added."""

    def __init__(self) -> None:
        self.now = 0.0
        """Seconds since the run began."""
        self.happened = 0
        """Events so far."""
        self._events: list[tuple[float, int, Work]] = []
        self._order = 0

    def at(self, when: float, work: Work) -> None:
        """Let something happen at a time, at the earliest now."""
        self._order += 1
        heappush(self._events, (max(self.now, when), self._order, work))

    def after(self, seconds: float, work: Work) -> None:
        """Let something happen some time from now."""
        self.at(self.now + seconds, work)

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Advance time; True as soon as ``until`` holds, which each event may change."""
        end = self.now + seconds
        events = self._events
        while events and events[0][0] <= end:
            self.now, _, work = heappop(events)
            self.happened += 1
            work()
            if until is not None and until():
                return True
        self.now = end
        return until is not None and until()

    def next_at(self) -> float | None:
        """When the next event happens."""
        return self._events[0][0] if self._events else None
