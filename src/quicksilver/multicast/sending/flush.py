"""Who waits until all that was sent is on every surviving member.

A flush first waits until the lanes have given away what was queued when it began,
then until the streams that carried it are acknowledged up to where they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from quicksilver.multicast.sending.stream import SendStream

if TYPE_CHECKING:
    from quicksilver.multicast.sending.lane import Lane

OnDone = Callable[[str | None], None]
"""Called once: with None when everybody has it, or with the reason why that cannot be confirmed."""


class Flush:
    """Waits until everything sent so far is on all surviving members."""

    __slots__ = ("lanes", "on_done", "streams")

    def __init__(self, lanes: dict[Lane, int], on_done: OnDone) -> None:
        self.lanes = lanes
        self.streams: dict[SendStream, int] | None = None
        self.on_done = on_done


class Flushes:
    """The flushes under way."""

    __slots__ = ("_live", "waiting")

    def __init__(self, live: Callable[[], Iterable[SendStream]]) -> None:
        self.waiting: list[Flush] = []
        """Callers look here before they call ``check``, which most often is not needed."""
        self._live = live

    def begin(self, lanes: Iterable[Lane], on_done: OnDone) -> None:
        """Wait for what the lanes hold now and what is under way."""
        marks = {lane: lane.pulled_messages + lane.outbox.count() for lane in lanes}
        self.waiting.append(Flush(marks, on_done))
        self.check()

    def check(self) -> None:
        """Something was sent or acknowledged: tell those who have waited long enough."""
        done = []
        for flush in self.waiting:
            flush.lanes = {
                lane: mark for lane, mark in flush.lanes.items() if lane.pulled_messages < mark
            }
            if flush.lanes:
                continue
            if flush.streams is None:
                flush.streams = {s: s.next_sequence for s in self._live() if s.packets}
            flush.streams = {s: n for s, n in flush.streams.items() if s.safe < n and s.packets}
            if not flush.streams:
                done.append(flush)
        for flush in done:
            self.waiting.remove(flush)
            flush.on_done(None)

    def fail_stream(self, stream: SendStream, problem: str) -> None:
        """What was sent on a stream can no longer be confirmed."""
        failed = [flush for flush in self.waiting if flush.streams and stream in flush.streams]
        for flush in failed:
            self.waiting.remove(flush)
            flush.on_done(problem)
        self.check()

    def fail_all(self, problem: str) -> None:
        """Nothing that was sent can be confirmed any more."""
        flushes, self.waiting = self.waiting, []
        for flush in flushes:
            flush.on_done(problem)
