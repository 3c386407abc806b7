"""Coroutines without an event loop of their own.

Dereferencing takes its time: a folder may be on another node. The runtime must
do it on asyncio, on a plain thread and in virtual time alike, so its coroutines
wait for promises only, and whoever keeps a promise runs those that wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Promise(Generic[T]):
    """A result that comes once: a value or an error. All of it happens on one thread."""

    __slots__ = ("_error", "_is_done", "_value", "_waiting")

    def __init__(self) -> None:
        self._is_done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._waiting: list[Callable[[Promise[T]], None]] = []

    @property
    def is_done(self) -> bool:
        """Whether the result is there."""
        return self._is_done

    def keep(self, value: T) -> None:
        """Give the value; what was given before stays."""
        self._finish(value, None)

    def fail(self, error: BaseException) -> None:
        """Give an error instead; what was given before stays."""
        self._finish(None, error)

    def result(self) -> T:
        """Return the value or raise the error; it must be there."""
        assert self._is_done
        if self._error is not None:
            raise self._error
        return cast("T", self._value)

    @property
    def error(self) -> BaseException | None:
        """The error, if that is what came."""
        return self._error

    def when_done(self, callback: Callable[[Promise[T]], None]) -> None:
        """Call back with this promise as soon as the result is there, maybe at once."""
        if self._is_done:
            callback(self)
        else:
            self._waiting.append(callback)

    def __await__(self) -> Generator[Any, Any, T]:
        if not self._is_done:
            yield self
        return self.result()

    def _finish(self, value: T | None, error: BaseException | None) -> None:
        if self._is_done:
            return
        self._is_done = True
        self._value, self._error = value, error
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback(self)


class Task(Promise[T]):
    """A coroutine being run; its promise is kept with what it returns."""

    __slots__ = ("_awaited", "_coroutine", "_is_running", "_is_to_cancel")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        super().__init__()
        self._coroutine = coroutine
        self._awaited: Promise[Any] | None = None
        """What the coroutine waits for; nothing else resumes it."""
        self._is_running = False
        self._is_to_cancel = False
        """Cancelled by itself: it ends where it waits next."""
        self._advance(lambda: coroutine.send(None))

    def cancel(self) -> None:
        """Stop the coroutine where it waits; its ``finally`` blocks run, and may wait again."""
        if self.is_done:
            return
        if self._is_running:
            self._is_to_cancel = True
            return
        self._awaited = None
        self._advance(lambda: self._coroutine.throw(TaskCancelled()))

    def _step(self, kept: Promise[Any]) -> None:
        # After a cancellation, what was waited for before may still come.
        if kept is self._awaited:
            self._awaited = None
            self._advance(lambda: self._coroutine.send(None))

    def _advance(self, resume: Callable[[], Any]) -> None:
        while True:
            self._is_running = True
            try:
                awaited = resume()
            except StopIteration as end:
                self.keep(end.value)
                return
            except BaseException as error:  # it goes to whoever waits for the task
                self.fail(error)
                if not isinstance(error, Exception | TaskCancelled):
                    raise
                return
            finally:
                self._is_running = False
            if self._is_to_cancel:
                self._is_to_cancel = False
                resume = self._throw(TaskCancelled())
            elif isinstance(awaited, Promise):
                self._awaited = awaited
                awaited.when_done(self._step)
                return
            else:
                resume = self._throw(_wrong_await(awaited))

    def _throw(self, error: BaseException) -> Callable[[], Any]:
        return lambda: self._coroutine.throw(error)


class TaskCancelled(BaseException):
    """Thrown into a coroutine whose task is cancelled."""


def _wrong_await(awaited: object) -> TypeError:
    name = type(awaited).__name__
    return TypeError(f"components wait for promises of the runtime only, not for a {name}")
