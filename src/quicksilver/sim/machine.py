"""Several processes on one machine: they share its cores and its caches.

A simulated host is a process with a machine to itself. Where hosts are given a
``SharedCpu``, each of their turns needs a core. With all cores taken it waits for the
one that it ran on last, and is served as a fair scheduler would: who has had least comes
first. A core with nobody waiting takes from the others. A process that has more to do
keeps its core for the next turn until its time slice is over, or until somebody wakes
there who has had less. Whoever sleeps saves nothing up: on waking it has had
no less than the others on average. (Measured on Linux 6.18: next to a busy process, one
that needs less than its share runs within 0.1 ms of waking, one that needs more waits up
to 4 ms.) Turns are not interrupted, so everything happens up to a turn later.

Whoever ran meanwhile has taken part of the caches. How many others that were is the
process's depth in a list by last use, which is what decides in a cache that forgets
the least recently used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from quicksilver.sim.events import EventQueue

SLICE_S = 0.004
"""Linux looks at ticks, here 250 a second, whether a slice is over: two busy
processes on one core changed places every 4.0 ms."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A process without a core."""

    process: int
    begin: Callable[[], None]
    woke: bool
    """True when it was asleep, False when it was interrupted."""


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
        self.slices = 0
        """Times that a core was given to a process."""
        self._events = events
        self._idle = list(range(cores))
        self._running: dict[int, int] = {}
        """Which process each core runs."""
        self._home: dict[int, int] = {}
        """The core that each process ran on last, and waits for."""
        self._waiting: list[Waiting] = []
        """In the order they came, which decides between equals."""
        self._had_s: dict[int, float] = {}
        """What each process has had, or is taken to have had."""
        self._recent: list[int] = []
        """Processes by last use of a core, the last one first."""

    def take(self, process: int, begin: Callable[[], None], *, woke: bool) -> bool:
        """Take a core; False when there is none: ``begin`` is called with one taken later."""
        if woke or process not in self._had_s:
            self._had_s[process] = max(self._had_s.get(process, 0.0), self._average_s())
        home = self._home.setdefault(process, process % self.cores)
        if self._idle:
            self._place(process, home if home in self._idle else self._idle[0])
            return True
        self.waits += 1
        self._waiting.append(Waiting(process, begin, woke))
        return False

    def _place(self, process: int, core: int) -> None:
        self._idle.remove(core)
        self._running[core] = process
        self._home[process] = core

    def _average_s(self) -> float:
        """What those who run or want to have had."""
        had = self._had_s
        some = [had[each] for each in self._running.values()]
        some += [had[each.process] for each in self._waiting]
        return sum(some) / len(some) if some else 0.0

    def others_since(self, process: int) -> int:
        """A process begins on a core: how many others ran since it last did."""
        self.slices += 1
        recent = self._recent
        if process in recent:
            depth = recent.index(process)
            del recent[depth]
        else:
            depth = len(recent)
        recent.insert(0, process)
        return depth

    def charge(self, process: int, busy_s: float) -> None:
        """A process that has a core has worked on it."""
        self.busy_s += busy_s
        self._had_s[process] += busy_s

    def must_yield(self, process: int) -> bool:
        """Whether somebody woke on this core who has had less."""
        had, home = self._had_s, self._home
        own, core = had[process], home[process]
        return any(
            each.woke and home[each.process] == core and had[each.process] < own
            for each in self._waiting
        )

    def give_back(self, process: int, at: float) -> None:
        """A process needs its core no longer than until a time, now or later."""
        core = self._home[process]
        self._events.at(at, lambda: self._release(core))

    def _release(self, core: int) -> None:
        del self._running[core]
        self._idle.append(core)
        self._idle.sort()
        if not self._waiting:
            return
        had, home = self._had_s, self._home
        # A core with nobody of its own takes from the others. Of equals, min() takes the first.
        own = [each for each in self._waiting if home[each.process] == core]
        chosen = min(own or self._waiting, key=lambda each: had[each.process])
        self._waiting.remove(chosen)
        self._place(chosen.process, core)
        chosen.begin()
