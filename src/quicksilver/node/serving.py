"""Members that answer requests: handlers, bounded in how many run at once.

One class for each form: handlers run in threads of their own, here, or are tasks of the loop
(``task_serving``, so that only who uses a loop imports asyncio). A handler
is done when its answer is on its way; that a requester does not take its answers holds handlers up
only once much waits for it (``multicast.reply_groups``).
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from quicksilver.multicast.requests import serve_attendance
from quicksilver.node.errors import QuicksilverError
from quicksilver.node.requests import (
    WAITING_MAX,
    Answers,
    Handler,
    Request,
)

if TYPE_CHECKING:
    from quicksilver.node import sync

BUSY = "the member is busy: too many requests wait"

OPEN_S = 30.0
"""How long a handler waits for the GMS to open the reply group of a requester for which much waits;
then that is dropped. Other requesters may have theirs open, and wait for handlers."""


class ThreadServer:
    """Runs handlers in threads of their own."""

    def __init__(
        self, group: sync.Group[Any], handler: Handler, concurrency: int, answers: Answers
    ) -> None:
        self.attendance = serve_attendance(group.name)
        self.dropped = 0
        """Requests that were not even told that the member is busy."""
        self._group = group
        self._handler = handler
        self._waiting: queue.Queue[Request | None] = queue.Queue(WAITING_MAX)
        self._busy: deque[Request] = deque()
        """Requests that are to be told that the member is busy."""
        self._answers = answers
        self._is_stopped = False
        answers.attach(self)
        self._threads = [
            threading.Thread(target=self._work, name=f"serve {group.name}", daemon=True)
            for _ in range(concurrency)
        ]
        for thread in self._threads:
            thread.start()

    def take_on_core(self, requests: list[Request]) -> None:
        """Requests have come."""
        for request in requests:
            try:
                self._waiting.put_nowait(request)
            except queue.Full:
                if len(self._busy) < WAITING_MAX:
                    self._busy.append(request)
                else:
                    self.dropped += 1

    def end_on_core(self) -> None:
        """The group or the node has ended."""
        self.stop()

    def stop(self) -> None:
        """Answer no more; handlers that run come to their end."""
        self._is_stopped = True
        self._answers.detach(self)
        for _ in self._threads:
            try:
                self._waiting.put_nowait(None)
            except queue.Full:
                return  # threads look at the flag after each request

    def _work(self) -> None:
        while not self._is_stopped:
            request = self._waiting.get()
            if request is None:
                return
            self._answer(request)
            while self._busy and not self._is_stopped:
                try:
                    refused = self._busy.popleft()
                except IndexError:
                    break
                self._send(refused, refused.failure(BUSY))

    def _answer(self, request: Request) -> None:
        try:
            payload = request.answer(self._handler(self._group.decoded(request.message)))
        except BaseException as error:  # noqa: BLE001  # also sys.exit: the thread goes on
            payload = request.failure(error)
        self._send(request, payload)

    def _send(self, request: Request, payload: bytes) -> None:
        room = self._answers.send(request.reply, payload)
        if room is not None:
            with suppress(QuicksilverError):  # the node has ended
                try:
                    room.result(OPEN_S)
                except TimeoutError:
                    self._answers.give_up(request.reply, room)
                    room.result()
