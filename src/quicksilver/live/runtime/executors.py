"""Where and when the code of objects runs: one step at a time, in order.

Everything that belongs to one runtime runs on its executor, so components need
no locks. There is an executor for asyncio, one with a thread of its own, and one
in the virtual time of the simulator.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol, TypeVar, overload

from quicksilver.live.runtime.errors import ClosedError
from quicksilver.live.runtime.promises import Promise, Task, TaskCancelled

T = TypeVar("T")
_LOG = logging.getLogger(__name__)


class Timer(Protocol):
    """A call that was asked for later."""

    def cancel(self) -> None:
        """Do not make the call; nothing happens if it was made."""
        ...


class Executor(Protocol):
    """Runs steps one at a time."""

    def now(self) -> float:
        """Seconds from some fixed point; never goes back."""
        ...

    def post(self, step: Callable[[], None]) -> None:
        """Run a step soon, after those posted before; may be called from any thread."""
        ...

    def call_later(self, delay_s: float, step: Callable[[], None]) -> Timer:
        """Run a step after some time; called on the executor."""
        ...

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on this executor."""
        ...

    def close(self) -> None:
        """Run nothing more; the executor owns no thread from here on."""
        ...


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

        def give_up(done: asyncio.Future[T]) -> None:
            if done.cancelled() and isinstance(promise, Task):
                promise.cancel()

        promise.when_done(partial(_settle, future))
        future.add_done_callback(give_up)
        return future


class _Timer:
    __slots__ = ("is_cancelled", "step")

    def __init__(self, step: Callable[[], None]) -> None:
        self.step = step
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ThreadExecutor:
    """Runs steps on one thread."""

    def __init__(self, name: str = "live-objects") -> None:
        self._steps: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._numbers = itertools.count()
        self._wake = threading.Event()
        self._lock = threading.Lock()
        self._waiting: set[Future[Any]] = set()
        """What other threads wait for in ``call``; read and changed under the lock."""
        self._is_closing = False
        self._is_over = False
        """Nothing that is posted would run; read and set under the lock."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on this executor."""
        return threading.current_thread() is self._thread

    def post(self, step: Callable[[], None]) -> None:
        """Run a step soon, after those posted before; may be called from any thread.

        On an executor that was closed nothing happens.
        """
        self._post(step)

    def _post(self, step: Callable[[], None], waiting: Future[Any] | None = None) -> bool:
        with self._lock:
            if self._is_over:
                return False
            self._steps.append(step)
            if waiting is not None:
                self._waiting.add(waiting)
        self._wake.set()
        return True

    def call_later(self, delay_s: float, step: Callable[[], None]) -> _Timer:
        """Run a step after some time; called on the executor."""
        timer = _Timer(step)
        entry = (time.monotonic() + max(0.0, delay_s), next(self._numbers), timer)
        if self.is_here:
            heapq.heappush(self._timers, entry)
        else:
            self.post(lambda: heapq.heappush(self._timers, entry))
        return timer

    @overload
    def call(self, begin: Callable[[], Promise[T]]) -> T: ...
    @overload
    def call(self, begin: Callable[[], T]) -> T: ...
    def call(self, begin: Callable[[], Any]) -> Any:
        """Run something on the executor from another thread, and wait for what it gives.

        Raises ClosedError if the executor is closed before it has run.
        """
        if self.is_here:
            raise RuntimeError("call() would wait for itself: it is for other threads")
        future: Future[Any] = Future()

        def run() -> None:
            try:
                begun = begin()
            except BaseException as error:  # noqa: BLE001  # it is the caller's
                future.set_exception(error)
                return
            if isinstance(begun, Promise):
                begun.when_done(partial(_settle, future))
            else:
                future.set_result(begun)

        if not self._post(run, future):
            raise ClosedError("the executor")
        try:
            return future.result()
        finally:
            with self._lock:
                self._waiting.discard(future)

    def close(self) -> None:
        """Run what was posted, then end the thread."""
        self._is_closing = True
        self._wake.set()
        if not self.is_here:
            self._thread.join()

    def _run(self) -> None:
        steps = self._steps
        while True:
            is_last = self._is_closing
            # Steps that post steps do not keep timers from their turn.
            for _ in range(len(steps)):
                self._run_step(steps.popleft())
            if is_last:
                self._end()
                return
            self._wake.wait(self._run_timers())
            self._wake.clear()

    def _end(self) -> None:
        """Take no more steps; whoever waits for one, or for a promise, is told."""
        with self._lock:
            self._is_over = True
            self._steps.clear()
            waiting = list(self._waiting)
        for future in waiting:
            if not future.done():
                future.set_exception(ClosedError("the executor"))

    def _run_timers(self) -> float | None:
        """Run what is due; return how long nothing else will be."""
        timers = self._timers
        now = time.monotonic()
        while timers:
            at, _, timer = timers[0]
            if at > now and not timer.is_cancelled:
                return 0.0 if self._steps else max(0.0, at - time.monotonic())
            heapq.heappop(timers)
            if not timer.is_cancelled:
                self._run_step(timer.step)
        return 0.0 if self._steps else None

    def _run_step(self, step: Callable[[], None]) -> None:
        try:
            step()
        except BaseException:  # noqa: BLE001  # told, and the thread goes on
            # Components are guarded; this is a step of the program around them.
            _LOG.exception("a step of the runtime of live objects failed")


def _settle(future: asyncio.Future[T] | Future[T], done: Promise[T]) -> None:
    """Give a future what a promise came to, unless it is done."""
    if future.done():
        return
    if isinstance(done.error, TaskCancelled):
        future.cancel()
    elif done.error is not None:
        future.set_exception(done.error)
    else:
        future.set_result(done.result())
