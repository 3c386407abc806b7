"""Connecting an endpoint of this process to one that another has published."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from quicksilver.live.runtime.endpoints import EndpointReference
from quicksilver.live.runtime.errors import LiveRuntimeError
from quicksilver.live.runtime.promises import Promise, Task
from quicksilver.live.runtime.remote.addresses import Place, RemoteError, parse_address
from quicksilver.live.runtime.remote.frames import (
    VERSION,
    Event,
    Frame,
    Hello,
    Ready,
    Refused,
    Welcome,
)
from quicksilver.live.runtime.remote.links import Link, LinkSettings, Mirror
from quicksilver.live.types.encoding import encode_type, parse_type
from quicksilver.live.types.errors import TypeParseError
from quicksilver.live.types.model import EndpointType

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime


class RemoteConnection:
    """A connection to an endpoint of another process; closing it parts the two."""

    def __init__(
        self, runtime: Runtime, endpoint: EndpointReference, at: Place, settings: LinkSettings
    ) -> None:
        self._runtime = runtime
        self._endpoint = endpoint
        self._at = at
        self._settings = settings
        self._link: Link | None = None
        self._mirror: Mirror | None = None
        self._is_matched = False
        self._answer: Promise[RemoteConnection] = Promise()
        self._when_closed: list[Callable[[str], None]] = []
        self.reason = ""
        """Why it ended; empty while it has not, and if it was closed here."""

    @property
    def is_open(self) -> bool:
        """Whether events pass."""
        return self._mirror is not None and self._mirror.is_connected

    @property
    def misfits(self) -> int:
        """Events that came and were dropped, as they were not of the endpoint's type."""
        return 0 if self._mirror is None else self._mirror.misfits

    def when_closed(self, callback: Callable[[str], None]) -> None:
        """Call back with the reason when the connection is lost or ended by the other side."""
        self._when_closed.append(callback)

    def close(self) -> None:
        """Part the two endpoints; both owners are told."""
        if self._mirror is not None:
            self._mirror.close()
        if self._link is not None:
            self._link.close()

    async def open(self, token: str) -> RemoteConnection:
        """Connect; raises RemoteError."""
        connected = await self._dial()
        timer = self._runtime.executor.call_later(
            self._settings.handshake_s, lambda: self._fail("it did not answer in time")
        )
        try:
            executor = self._runtime.executor
            self._link = Link(executor, connected, self._settings, self._take, self._end)
            self._link.send(Hello(VERSION, token, encode_type(self._endpoint.type)))
            return await self._answer
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()

    async def _dial(self) -> socket.socket:
        """Connect the socket on a thread: a network may take its time."""
        dialled: Promise[socket.socket] = Promise()
        executor = self._runtime.executor

        def dial() -> None:
            made = socket.socket(self._at.family, socket.SOCK_STREAM)
            made.settimeout(self._settings.handshake_s)
            try:
                made.connect(self._at.for_socket)
            except OSError as error:
                made.close()
                problem = RemoteError(str(self._at), f"cannot be reached: {error}")
                executor.post(lambda: dialled.fail(problem))
                return
            executor.post(lambda: dialled.keep(made))

        threading.Thread(target=dial, name="live-dial", daemon=True).start()
        try:
            return await dialled
        except BaseException:
            dialled.when_done(lambda done: None if done.error else done.result().close())
            raise

    def _take(self, frame: Frame) -> None:
        match frame:
            case Event() if self._mirror is not None:
                self._mirror.take(frame)
            case Welcome(type=theirs) if not self._is_matched:
                self._match(theirs)
            case Ready() if self._is_matched and self._mirror is None:
                self._join()
            case Refused(reason=reason):
                self._fail(f"it says: {reason}")
            case _:
                self._fail("it does not speak as it should")

    def _match(self, data: bytes) -> None:
        try:
            theirs = parse_type(data)
        except TypeParseError as error:
            self._fail(f"its type cannot be read: {error}")
            return
        checker = self._runtime.checker
        if not isinstance(theirs, EndpointType):
            self._fail("its type is none of an endpoint")
            return
        problem = checker.check_constraints(theirs) or checker.check_match(
            self._endpoint.type, theirs
        )
        if problem is not None:
            self._fail(f"the endpoints do not match: {problem.line}")
            return
        assert self._link is not None
        self._is_matched = True
        self._link.send(Ready())

    def _join(self) -> None:
        assert self._link is not None
        try:
            self._mirror = Mirror(self._runtime, self._endpoint, self._link)
        except LiveRuntimeError as error:
            self._fail(str(error))
            return
        self._answer.keep(self)

    def _fail(self, problem: str) -> None:
        self._answer.fail(RemoteError(str(self._at), problem))
        self._finish(problem)
        self.close()

    def _end(self, reason: str) -> None:
        self._answer.fail(RemoteError(str(self._at), reason))
        self._finish(reason)
        self.close()

    def _finish(self, reason: str) -> None:
        self.reason = self.reason or reason
        callbacks, self._when_closed = self._when_closed, []
        for callback in callbacks:
            callback(reason)


def join(
    runtime: Runtime,
    endpoint: EndpointReference,
    address: str,
    *,
    settings: LinkSettings | None = None,
) -> Task[RemoteConnection]:
    """Connect an endpoint to the one published at an address.

    Both processes see the other's type and check that the two match before anything
    passes. Raises BadAddressError; the task raises RemoteError.
    """
    at, token = parse_address(address)
    connection = RemoteConnection(
        runtime, endpoint, at, settings if settings is not None else LinkSettings()
    )
    return Task(connection.open(token))
