"""Futures that the core thread answers, whoever waits for them and however long."""

from __future__ import annotations

from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any


def settle(future: Future[Any], result: object) -> None:
    """Give a future its result, unless whoever waited has given up, be it in this moment."""
    with suppress(InvalidStateError):
        future.set_result(result)


def fail(future: Future[Any], error: Exception) -> None:
    """Give a future an error, unless whoever waited has given up."""
    with suppress(InvalidStateError):
        future.set_exception(error)


class Promises:
    """Futures that somebody may wait for; each forgets itself when it has an answer."""

    def __init__(self) -> None:
        self._unanswered: set[Future[Any]] = set()

    def make(self) -> Future[Any]:
        """Return a future that has an answer at the latest when the node ends."""
        future: Future[Any] = Future()
        self._unanswered.add(future)
        future.add_done_callback(self._unanswered.discard)
        return future

    def fail_all(self, error: Exception) -> None:
        """The node has ended: tell those who wait."""
        for future in list(self._unanswered):
            fail(future, error)
