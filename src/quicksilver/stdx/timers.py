"""One table for all the deadlines of an engine.

An engine names its timers (an enum member, or a tuple of one and an identifier)
and the host asks the table when to wake it up. Moving a deadline is the most
common operation, so old entries stay in the heap and are recognised as stale
when they surface; the heap is rebuilt before they outnumber the live ones.
"""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

STALE_SLACK = 32
"""Stale entries that are always tolerated, so that small tables never rebuild."""


class TimerTable(Generic[Key]):
    """Keyed deadlines; each key has at most one."""

    __slots__ = ("_heap", "_live", "_turn")

    _heap: list[tuple[float, int, Key]]
    """Deadline, turn, key. Turns are unique, so keys are never compared."""

    _live: dict[Key, tuple[float, int]]
    """The entry that counts for each key; any other in the heap is stale."""

    def __init__(self) -> None:
        self._heap = []
        self._live = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: object) -> bool:
        return key in self._live

    def set(self, key: Key, when: float) -> None:
        """Let ``key`` fall due at ``when``, instead of at any earlier choice."""
        self._turn += 1
        self._live[key] = (when, self._turn)
        heappush(self._heap, (when, self._turn, key))
        self._drop_stale()

    def cancel(self, key: Key) -> None:
        """Forget ``key``; it need not be set."""
        if self._live.pop(key, None) is not None:
            self._drop_stale()

    def deadline(self, key: Key) -> float | None:
        """Return when ``key`` falls due, or None if it is not set."""
        entry = self._live.get(key)
        return None if entry is None else entry[0]

    def next(self) -> float | None:
        """Return the earliest deadline, or None if nothing is set."""
        heap, live = self._heap, self._live
        while heap:
            when, turn, key = heap[0]
            if live.get(key) == (when, turn):
                return when
            heappop(heap)
        return None

    def pop_due(self, now: float) -> list[Key]:
        """Remove and return the keys due by ``now``, earliest first.

        Keys with equal deadlines come in the order in which they were set.
        """
        due: list[Key] = []
        heap, live = self._heap, self._live
        while heap and heap[0][0] <= now:
            when, turn, key = heappop(heap)
            if live.get(key) == (when, turn):
                del live[key]
                due.append(key)
        self._drop_stale()
        return due

    def _drop_stale(self) -> None:
        if len(self._heap) > 2 * len(self._live) + STALE_SLACK:
            self._heap = [(when, t, key) for key, (when, t) in self._live.items()]
            heapify(self._heap)
