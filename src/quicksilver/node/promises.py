"""Futures that the core thread answers, whoever waits for them and however long."""

from __future__ import annotations

import threading
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
        self._lock = threading.Lock()
        self._error: Exception | None = None
        """Why the node has ended; None until then."""

    def make(self) -> Future[Any]:
        """Return a future that has an answer at the latest when the node ends."""
        future: Future[Any] = Future()
        with self._lock:  # else one made while the node ends would be told nothing
            error = self._error
            if error is None:
                self._unanswered.add(future)
        if error is None:
            future.add_done_callback(self._unanswered.discard)
        else:
            fail(future, error)
        return future

    def fail_all(self, error: Exception) -> None:
        """The node has ended: tell those who wait, and whoever still comes to."""
        with self._lock:
            self._error = self._error or error
            unanswered = list(self._unanswered)
        for future in unanswered:
            fail(future, error)
