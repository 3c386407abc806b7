"""Waiting until what was asked for here has reached the others, before objects are closed.

A component that keeps something on its way has an attribute ``is_settled``, False
while it does. A service that does has ``flush(done)``, which calls back when what
was given to it is where it belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from quicksilver.live.runtime.promises import Promise

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime

LOOK_S = 0.02
"""Between two looks at components: what they wait for has no single place to tell it."""


@runtime_checkable
class Flushing(Protocol):
    """A service that takes things which arrive later."""

    def flush(self, done: Callable[[], None]) -> None:
        """Call back on the executor when all that was sent has arrived, or cannot any more."""


class Settling:
    """One wait; ``promise`` is kept with the names of those who were not done in time."""

    def __init__(self, runtime: Runtime, services: Iterable[object], timeout_s: float) -> None:
        self._runtime = runtime
        self._services = [one for one in services if isinstance(one, Flushing)]
        self._until = runtime.executor.now() + timeout_s
        self._flushing = 0
        self._is_flushed = False
        self.promise: Promise[list[str]] = Promise()
        self._look()

    def _look(self) -> None:
        names = [cell.name for cell in tuple(self._runtime.cells) if not cell.is_settled()]
        if not names and not self._is_flushed:
            # Only now: components give the services their last when they are ready for it.
            self._flush()
        if not names and self._is_flushed and not self._flushing:
            self.promise.keep([])
        elif self._runtime.executor.now() >= self._until:
            self.promise.keep(names or ["the network"])
        else:
            self._runtime.executor.call_later(LOOK_S, self._look)

    def _flush(self) -> None:
        self._is_flushed = True
        self._flushing = len(self._services)
        for service in self._services:
            service.flush(self._note_flushed)

    def _note_flushed(self) -> None:
        self._flushing -= 1
