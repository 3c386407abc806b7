"""Members that answer requests in the asyncio form: handlers are tasks of the group's loop."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from quicksilver.multicast.requests import serve_attendance
from quicksilver.node.errors import QuicksilverError
from quicksilver.node.messages import Message
from quicksilver.node.requests import WAITING_MAX, Answers, Handler, Request
from quicksilver.node.serving import BUSY, OPEN_S

if TYPE_CHECKING:
    from quicksilver.node import aio


class TaskServer:
    """Runs handlers as tasks of the group's loop."""

    def __init__(
        self, group: aio.Group[Any], handler: Handler, concurrency: int, answers: Answers
    ) -> None:
        self.attendance = serve_attendance(group.name)
        self.dropped = 0
        """Requests that were not even told that the member is busy."""
        self._group = group
        self._handler = handler
        self._concurrency = concurrency
        self._waiting: deque[Request] = deque()
        """Requests for handlers; the core thread adds, as to the next one, and the loop takes."""
        self._busy: deque[Request] = deque()
        """Requests that are to be told that the member is busy."""
        self._is_notified = False
        self._is_stopped = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusing: asyncio.Task[None] | None = None
        self._answers = answers
        answers.attach(self)

    # Core thread

    def take_on_core(self, requests: list[Request]) -> None:
        """Requests have come."""
        for request in requests:
            if len(self._waiting) < WAITING_MAX:
                self._waiting.append(request)
            elif len(self._busy) < WAITING_MAX:
                self._busy.append(request)
            else:
                self.dropped += 1
        if not self._is_notified:
            self._is_notified = True
            self._group.call_in_loop(self._wake)

    def end_on_core(self) -> None:
        """The group or the node has ended."""
        self._group.call_in_loop(self.stop)

    # Loop's thread

    def stop(self) -> None:
        """Answer no more; handlers that run are cancelled."""
        self._is_stopped = True
        self._waiting.clear()
        self._busy.clear()
        for task in self._tasks:
            task.cancel()
        if self._refusing is not None:
            self._refusing.cancel()
        self._answers.detach(self)

    def _wake(self) -> None:
        self._is_notified = False
        self._begin()

    def _begin(self) -> None:
        """Start as many handlers as may run, and refuse what is too much."""
        if self._is_stopped:
            return
        while self._waiting and len(self._tasks) < self._concurrency:
            task = asyncio.ensure_future(self._answer(self._waiting.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._handle_done)
        if self._busy and self._refusing is None:
            self._refusing = asyncio.ensure_future(self._refuse())

    def _handle_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._begin()

    async def _refuse(self) -> None:
        try:
            while self._busy:
                request = self._busy.popleft()
                await self._send(request, request.failure(BUSY))
        finally:
            self._refusing = None

    async def _answer(self, request: Request) -> None:
        try:
            message = self._group.decoded(request.message)
            payload = request.answer(await call_handler(self._handler, message))
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, the requester is told
            payload = request.failure(error)
        await self._send(request, payload)

    async def _send(self, request: Request, payload: bytes) -> None:
        room = self._answers.send(request.reply, payload)
        if room is not None:
            waiting = asyncio.wrap_future(room)
            try:
                done, _ = await asyncio.wait({waiting}, timeout=OPEN_S)
                if not done:
                    self._answers.give_up(request.reply, room)
                with suppress(QuicksilverError):  # the node has ended
                    await waiting
            finally:
                waiting.cancel()


async def call_handler(handler: Handler, message: Message[Any]) -> Any:
    """Return what a handler returns, whichever kind of function it is."""
    result = handler(message)
    return await result if inspect.isawaitable(result) else result
