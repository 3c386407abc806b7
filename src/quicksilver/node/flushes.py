"""Flushes of a node, and what becomes of messages that may be lost.

Each loss is told once: by the flush that is under way, by the next one, or by the next ``send`` to
the group; or at once, to the callback of the node's options. Core thread, but for ``begin`` and
``untell``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Protocol

from quicksilver.multicast.events import FlushEnded, MessagesUnconfirmed
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.node.errors import UnconfirmedError

OnUnconfirmed = Callable[[Unconfirmed], None]


class Warned(Protocol):
    """A group whose next ``send`` can tell of messages that may be lost."""

    def unconfirmed_on_core(self, messages: Unconfirmed) -> None: ...

    def told_on_core(self) -> None: ...


class FlushingSession(Protocol):
    """What flushes need of a session."""

    def flush(self) -> int: ...

    def put_back_unconfirmed(self, messages: Iterable[Unconfirmed]) -> None: ...

    def take_put_back(self) -> tuple[Unconfirmed, ...]: ...


class Flushes:
    """The flushes under way, and who else is to be told."""

    def __init__(
        self,
        session: FlushingSession,
        log: Callable[[Iterable[Unconfirmed]], None],
        on_unconfirmed: OnUnconfirmed | None,
        sinks_of: Callable[[str], Iterable[Warned]],
    ) -> None:
        """``sinks_of`` gives those that send to a group."""
        self._session = session
        self._log = log
        self._on_unconfirmed = on_unconfirmed
        self._sinks_of = sinks_of
        self._under_way: dict[int, Future[tuple[Unconfirmed, ...]]] = {}
        self._warned: dict[Warned, None] = {}
        """Groups whose next ``send`` tells of messages that may be lost."""

    def begin(self, future: Future[tuple[Unconfirmed, ...]]) -> None:
        """Let a future have what a flush of everything sent so far brings."""
        self._under_way[self._session.flush()] = future

    def put_back(self, future: Future[tuple[Unconfirmed, ...]]) -> tuple[Unconfirmed, ...]:
        """Whoever waited for a flush is gone: return what it would have told (any thread)."""
        if future.cancel() or future.cancelled():
            return ()
        error = future.exception()
        return error.messages if isinstance(error, UnconfirmedError) else ()

    def clear(self) -> None:
        """The node has ended."""
        self._under_way.clear()

    def handle_ended(self, event: FlushEnded) -> None:
        """A flush has ended."""
        future = self._under_way.pop(event.number, None)
        found = event.unconfirmed
        # The caller may have given up, or the node may be closed.
        if future is None or future.done() or not future.set_running_or_notify_cancel():
            self._session.put_back_unconfirmed(found)
            if not self._under_way:
                self._warn(found)
            return
        # A flush that nobody waits for any more may have ended in the same moment, before it.
        found = (*found, *self._session.take_put_back())
        for sink in self._warned:
            sink.told_on_core()
        self._warned.clear()
        if any(each.reason.is_failure for each in found):
            future.set_exception(UnconfirmedError(found))
        else:
            future.set_result(found)

    def handle_unconfirmed(self, event: MessagesUnconfirmed) -> None:
        """Messages may be lost."""
        if self._on_unconfirmed is not None:
            for each in event.messages:
                self._on_unconfirmed(each)
        else:
            self._log(event.messages)
        if not self._under_way:
            self._warn(event.messages)

    def _warn(self, messages: Iterable[Unconfirmed]) -> None:
        """Let the next ``send`` in each group tell of what may be lost: nobody else does."""
        if self._on_unconfirmed is not None:
            return
        for each in messages:
            for sink in self._sinks_of(each.group):
                if each.reason.is_failure:
                    sink.unconfirmed_on_core(each)
                    self._warned[sink] = None
