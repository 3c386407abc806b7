"""A running component: the instance, its ends, and all that it holds.

A cell is the wall around a component: an exception inside ends that component,
its connections are told, and everything else goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from quicksilver.live.runtime.allowance import Allowance
from quicksilver.live.runtime.blueprints import Blueprint
from quicksilver.live.runtime.endpoints import End, Handler
from quicksilver.live.runtime.errors import ComponentFailedError
from quicksilver.live.runtime.executors import Timer
from quicksilver.live.runtime.promises import Promise, Task, TaskCancelled

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime

T = TypeVar("T")
Chain: TypeAlias = tuple[tuple[str, str], ...]
"""The folders and names that were gone through, for telling a circle."""


class Closeable(Protocol):
    """Something that a cell holds, and closes when the cell ends."""

    def close(self) -> None:
        """End it."""
        ...


class Cell:
    """One running component."""

    def __init__(
        self, runtime: Runtime, name: str, depth: int = 0, allowance: Allowance | None = None
    ) -> None:
        self.runtime = runtime
        self.name = name
        self.instance: Any = None
        self.ends: dict[str, End] = {}
        self.failure: ComponentFailedError | None = None
        self.is_over = False
        """Closed or failed: none of its code runs any more."""
        self.chain: Chain = ()
        """While it starts: the external references that led here, for telling a circle."""
        self.allowance = allowance
        """The limit that it counts against, if it is a guest."""
        self.depth = depth
        """How many components there are around it: each opened the next."""
        self.is_starting = True
        """Whoever opens it is told what goes wrong; nobody else needs to be."""
        self._is_made = False
        self._held: dict[int, Closeable] = {}
        runtime.cells[self] = None

    def make(self, blueprint: Blueprint, arguments: dict[str, Any]) -> None:
        """Make the instance and its ends; raises whatever the constructor raises."""
        from quicksilver.live.runtime.context import Context

        cls = blueprint.cls
        instance: Any = cls.__new__(cls)  # type: ignore[call-overload]  # any class
        self.instance = instance
        instance.context = Context(self)
        for plan in blueprint.ports:
            end = End(
                self,
                plan.name,
                plan.type,
                plan.signatures,
                lambda event, handlers=plan.handlers: getattr(instance, handlers[event]),  # type: ignore[misc]
                is_queued=plan.is_queued,
                on_connected=_method(instance, plan.on_connected),
                on_disconnected=_method(instance, plan.on_disconnected),
            )
            self.ends[plan.name] = end
            setattr(instance, plan.attribute, end.port)
        instance.__init__(**arguments)
        self._is_made = True

    async def start(self) -> None:
        """Let the component do what takes time; ends early, with its failure, if it fails."""
        start: Callable[[], Coroutine[Any, Any, None]] | None
        start = getattr(self.instance, "start", None)
        if start is not None:
            task = self.spawn("start", start())
            try:
                await task
            except TaskCancelled:
                if self.failure is None:
                    raise
        if self.failure is not None:
            raise self.failure.cause
        self.is_starting = False
        self.chain = ()

    # What it holds

    def hold(self, held: Closeable) -> None:
        """Close something when the component ends, or at once if it has ended."""
        if self.is_over:
            held.close()
        else:
            self._held[id(held)] = held

    def release(self, held: Closeable) -> None:
        """Give something up without closing it: its owner closes it, or has done so."""
        self._held.pop(id(held), None)

    # Its code, guarded

    def guard(self, where: str, step: Callable[[], Any]) -> Callable[[], None]:
        """Return a step that runs only while the component does, and whose errors end it."""

        def run() -> None:
            if self.is_over:
                return
            try:
                step()
            except Exception as error:  # noqa: BLE001  # a component's error stays with it
                self.fail(where, error)

        return run

    def call_later(self, delay_s: float, where: str, step: Callable[[], Any]) -> Timer:
        """Run a guarded step after some time; the timer ends with the component."""
        guarded = self.guard(where, step)

        def run() -> None:
            self.release(held)
            guarded()

        held = _HeldTimer(self, self.runtime.executor.call_later(delay_s, run))
        self.hold(held)
        return held

    def spawn(self, where: str, coroutine: Coroutine[Any, Any, T]) -> Task[T]:
        """Run a coroutine until it or the component ends; its errors end the component."""
        task = Task(coroutine)
        if not task.is_done:
            held = _HeldTask(task)
            self.hold(held)
            task.when_done(lambda _: self.release(held))
        task.when_done(lambda done: self._end_task(where, done))
        return task

    def _end_task(self, where: str, done: Promise[Any]) -> None:
        if isinstance(done.error, Exception):
            self.fail(where, done.error)

    def is_settled(self) -> bool:
        """Whether nothing that it was asked to send is still on its way."""
        if self.is_over:
            return True
        try:
            return bool(getattr(self.instance, "is_settled", True))
        except Exception as error:  # noqa: BLE001  # a component's error stays with it
            self.fail("is_settled", error)
            return True

    # Its end

    def fail(self, where: str, cause: BaseException) -> None:
        """The component raised: it ends here, and the runtime is told why."""
        if self.is_over:
            return
        self.failure = ComponentFailedError(self.name, where, cause)
        self.close()
        if not self.is_starting:
            self.runtime.report(self.failure)

    def close(self) -> None:
        """End the component: part its connections, close what it holds."""
        if self.is_over:
            return
        self.is_over = True
        for end in self.ends.values():
            if end.connection is not None:
                end.connection.close()
            end.unbind()
        close = getattr(self.instance, "close", None)
        if close is not None and self._is_made:
            self._finish("close", close)
        while self._held:
            _, held = self._held.popitem()
            self._finish("close", held.close)
        if self.allowance is not None:
            self.allowance.release()
        self.runtime.cells.pop(self, None)

    def _finish(self, where: str, close: Callable[[], Any]) -> None:
        try:
            close()
        except Exception as error:  # noqa: BLE001  # a component's error stays with it
            self.runtime.report(ComponentFailedError(self.name, where, error))


def _method(instance: Any, name: str | None) -> Handler | None:
    return None if name is None else getattr(instance, name)


class _HeldTask:
    def __init__(self, task: Task[Any]) -> None:
        self._task = task

    def close(self) -> None:
        self._task.cancel()


class _HeldTimer:
    def __init__(self, cell: Cell, timer: Timer) -> None:
        self._cell = cell
        self._timer = timer

    def cancel(self) -> None:
        self._timer.cancel()
        self._cell.release(self)

    def close(self) -> None:
        self._timer.cancel()
