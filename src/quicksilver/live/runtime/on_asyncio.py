"""An executor on a running asyncio loop, and promises as futures of that loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from quicksilver.live.runtime.promises import Promise, Task, TaskCancelled

T = TypeVar("T")


class AsyncioExecutor:
    """Runs steps on the loop that it is made in."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop if loop is not None else asyncio.get_running_loop()
        self._thread = threading.current_thread()

    def now(self) -> float:
        """Seconds of the loop's clock."""
        return self._loop.time()

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on this executor."""
        return threading.current_thread() is self._thread

    def post(self, step: Callable[[], None]) -> None:
        """Run a step soon, after those posted before; may be called from any thread."""
        try:
            if self.is_here:
                self._loop.call_soon(step)
            else:
                self._loop.call_soon_threadsafe(step)
        except RuntimeError:
            if not self._loop.is_closed():
                raise
            # Nothing runs any more; a proxy may be collected as late as this.

    def call_later(self, delay_s: float, step: Callable[[], None]) -> asyncio.TimerHandle:
        """Run a step after some time; called on the executor."""
        return self._loop.call_later(delay_s, step)

    def close(self) -> None:
        """Nothing to end: the loop is its owner's."""

    def future(self, promise: Promise[T]) -> asyncio.Future[T]:
        """Return what an asyncio task can wait for; cancelling it cancels a task of ours."""
        future: asyncio.Future[T] = self._loop.create_future()

        def finish(done: Promise[T]) -> None:
            if future.done():
                return
            if isinstance(done.error, TaskCancelled):
                future.cancel()
            elif done.error is not None:
                future.set_exception(done.error)
            else:
                future.set_result(done.result())

        def give_up(done: asyncio.Future[T]) -> None:
            if done.cancelled() and isinstance(promise, Task):
                promise.cancel()

        promise.when_done(finish)
        future.add_done_callback(give_up)
        return future
