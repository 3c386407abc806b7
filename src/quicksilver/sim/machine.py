"""Several processes on one machine: they share its cores.

A simulated host is a process with a machine to itself. Where hosts are given a
``SharedCpu``, each of their turns needs a core; with all cores taken, it waits its
turn, first come, first served. A process that has more to do keeps its core for the
next turn until its time slice is over, as Linux has it: whoever wakes meanwhile does
not interrupt it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from quicksilver.sim.events import EventQueue

SLICE_S = 0.003
"""Linux's ``base_slice_ns`` with two processors, rounded."""


class SharedCpu:
    """The cores of one machine."""

    def __init__(self, events: EventQueue, cores: int, slice_s: float = SLICE_S) -> None:
        assert cores > 0
        self.cores = cores
        self.slice_s = slice_s
        self.busy_s = 0.0
        """Processor time used, of all cores together."""
        self.waits = 0
        """Turns that found no core free."""
        self._events = events
        self._free = cores
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, begin: Callable[[], None]) -> bool:
        """Take a core; False when there is none: ``begin`` is called with one taken later."""
        if self._free:
            self._free -= 1
            return True
        self.waits += 1
        self._waiting.append(begin)
        return False

    def give_back(self, at: float, busy_s: float) -> None:
        """A turn's work is done at a time, now or later."""
        self.busy_s += busy_s
        self._events.at(at, self._release)

    def _release(self) -> None:
        self._free += 1
        if self._waiting:
            self._free -= 1
            self._waiting.popleft()()
