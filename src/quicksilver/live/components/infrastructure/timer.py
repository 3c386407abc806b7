"""A timer as an object: it ticks at a steady interval for whoever is connected."""

from __future__ import annotations

from typing import Protocol

from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.executors import Timer as Pending
from quicksilver.live.types.declare import Given, endpoint, live_object


class TimerRequests(Protocol):
    """Events that users send to a timer."""

    def start(self) -> None:
        """Begin again from tick 1."""

    def stop(self) -> None:
        """Tick no more until the next start."""


class Ticks(Protocol):
    """Events that a timer sends to its users."""

    def tick(self, number: int) -> None:
        """Take a tick; numbers count from 1, and those that came too late are left out."""


@component("quicksilver.timer", type_name="Timer")
@live_object(title="Timer")
class Timer:
    """ticks at an interval while somebody is connected

    It starts by itself unless ``starts`` is false, and ends after ``count`` ticks,
    or never if that is 0. Ticks do not drift: each has its own due time.
    """

    context: Context
    ticks = endpoint(TimerRequests, Ticks, name="Timer")

    def __init__(
        self, interval_s: Given[float], count: Given[int] = 0, starts: Given[bool] = True
    ) -> None:
        if interval_s <= 0:
            raise ValueError(f"interval_s must be positive, not {interval_s:g}")
        self._interval_s = interval_s
        self._count = count
        self._starts = starts
        self._began_at = 0.0
        self._pending: Pending | None = None

    def ticks_connected(self) -> None:
        if self._starts:
            self.ticks_start()

    def ticks_disconnected(self) -> None:
        self.ticks_stop()

    def ticks_start(self) -> None:
        self.ticks_stop()
        self._began_at = self.context.now()
        self._plan(1)

    def ticks_stop(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None

    def _plan(self, number: int) -> None:
        due = self._began_at + number * self._interval_s
        wait = max(0.0, due - self.context.now())
        self._pending = self.context.call_later(wait, lambda: self._tick(number))

    def _tick(self, number: int) -> None:
        self._pending = None
        late = int((self.context.now() - self._began_at) / self._interval_s)
        next_number = max(number, late) + 1
        if not self._count or next_number <= self._count:
            self._plan(next_number)
        self.ticks.tick(number)
