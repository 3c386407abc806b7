"""Endpoints of this process, reachable from others by those who were given their address."""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from quicksilver.live.codec import BadMessageError
from quicksilver.live.runtime.endpoints import EndpointReference
from quicksilver.live.runtime.errors import LiveRuntimeError
from quicksilver.live.runtime.remote.addresses import Place, PublishError, parse_place
from quicksilver.live.runtime.remote.frames import (
    VERSION,
    Event,
    Frame,
    Hello,
    Ready,
    Refused,
    Welcome,
    shorten,
)
from quicksilver.live.runtime.remote.links import Link, LinkSettings, Mirror
from quicksilver.live.types.encoding import encode_type, parse_type
from quicksilver.live.types.errors import TypeParseError
from quicksilver.live.types.model import EndpointType

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime

TOKEN_BYTES = 32
LINKS_MAX = 256
"""Connections at one time; more are closed at once."""


class Refusals(msgspec.Struct):
    """How many callers were turned away, by reason."""

    token: int = 0
    type: int = 0
    taken: int = 0
    malformed: int = 0
    late: int = 0
    too_many: int = 0


class Publisher:
    """Listens at one place for all endpoints that are published there."""

    def __init__(
        self, runtime: Runtime, place: str, *, settings: LinkSettings | None = None
    ) -> None:
        """Listen at ``live+tcp://host:port`` (port 0: any) or ``live+unix:/path``.

        Raises BadAddressError or PublishError.
        """
        self._runtime = runtime
        self._settings = settings if settings is not None else LinkSettings()
        self._listener, self._at = _listen(parse_place(place))
        self._published: dict[str, Callable[[], EndpointReference]] = {}
        self._callers: dict[Caller, None] = {}
        self.refusals = Refusals()
        self._closed = threading.Event()
        threading.Thread(target=self._accept, name="live-publisher", daemon=True).start()

    @property
    def place(self) -> str:
        """Where it listens, without any token."""
        return str(self._at)

    def publish(self, find: EndpointReference | Callable[[], EndpointReference]) -> str:
        """Return the address under which an endpoint can be connected to, once at a time.

        With a function, what it returns is connected to; it is called anew for each
        who comes, so that each may have an endpoint of their own.
        """
        token = secrets.token_urlsafe(TOKEN_BYTES)
        if isinstance(find, EndpointReference):
            endpoint = find
            self._published[token] = lambda: endpoint
        else:
            self._published[token] = find
        return f"{self._at}#{token}"

    def withdraw(self, address: str) -> None:
        """Let nobody else connect to an endpoint; who is connected stays so."""
        self._published.pop(address.partition("#")[2], None)

    def find(self, token: str) -> Callable[[], EndpointReference] | None:
        """Return what was published under a token, in time that does not depend on it."""
        found = None
        given = token.encode()
        for known, find in self._published.items():
            if hmac.compare_digest(known.encode(), given):
                found = find
        return found

    def forget(self, caller: Caller) -> None:
        """Take note that a connection ended."""
        self._callers.pop(caller, None)

    @property
    def connections(self) -> int:
        """How many are connected or about to be."""
        return len(self._callers)

    def close(self) -> None:
        """Listen no longer, and part from everybody."""
        if self._closed.is_set():
            return
        self._closed.set()
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        except OSError:
            pass
        self._listener.close()
        if self._at.path:
            Path(self._at.path).unlink(missing_ok=True)
        for caller in list(self._callers):
            caller.close()

    def _accept(self) -> None:
        executor = self._runtime.executor
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                # Closed, or out of files: then who is connected may leave.
                if self._closed.wait(0.1):
                    return
                continue
            if self._closed.is_set():
                connected.close()
                return
            executor.post(lambda connected=connected: self._welcome(connected))  # type: ignore[misc]

    def _welcome(self, connected: socket.socket) -> None:
        if self._closed.is_set() or len(self._callers) >= LINKS_MAX:
            self.refusals.too_many += 1
            connected.close()
            return
        self._callers[Caller(self._runtime, self, connected, self._settings)] = None


class Caller:
    """Somebody who connected to a publisher."""

    def __init__(
        self,
        runtime: Runtime,
        publisher: Publisher,
        connected: socket.socket,
        settings: LinkSettings,
    ) -> None:
        self._runtime = runtime
        self._publisher = publisher
        self._endpoint: EndpointReference | None = None
        self._mirror: Mirror | None = None
        self._link = Link(runtime.executor, connected, settings, self._take, self._end)
        self._timer = runtime.executor.call_later(settings.handshake_s, self._be_late)

    def close(self) -> None:
        """Part from the endpoint and from the other process."""
        self._timer.cancel()
        self._publisher.forget(self)
        if self._mirror is not None:
            self._mirror.close()
        self._link.close()

    def _take(self, frame: Frame) -> None:
        refusals = self._publisher.refusals
        match frame:
            case Event() if self._mirror is not None:
                self._mirror.take(frame)
            case Hello() if self._endpoint is None:
                self._greet(frame)
            case Ready() if self._endpoint is not None and self._mirror is None:
                self._join(self._endpoint)
            case _:
                refusals.malformed += 1
                self._refuse("that was not to be said here")

    def _greet(self, hello: Hello) -> None:
        refusals = self._publisher.refusals
        find = self._publisher.find(hello.token)
        if hello.version != VERSION:
            refusals.malformed += 1
            self._refuse(f"this side speaks version {VERSION}, not {hello.version}")
            return
        if find is None:
            refusals.token += 1
            self._refuse("nothing is published under this token")
            return
        try:
            endpoint = find()
            theirs = parse_type(hello.type)
        except TypeParseError as error:
            refusals.malformed += 1
            self._refuse(f"the type cannot be read: {error}")
            return
        except LiveRuntimeError as error:
            refusals.taken += 1
            self._refuse(str(error))
            return
        problem = self._find_problem(endpoint, theirs)
        if problem:
            self._refuse(problem)
            return
        self._endpoint = endpoint
        self._link.send(Welcome(encode_type(endpoint.type)))

    def _find_problem(self, endpoint: EndpointReference, theirs: object) -> str:
        refusals = self._publisher.refusals
        if not isinstance(theirs, EndpointType):
            refusals.type += 1
            return "that is no type of an endpoint"
        if endpoint.is_connected or endpoint.end.cell.is_over:
            refusals.taken += 1
            return "somebody is connected already" if endpoint.is_connected else "it has ended"
        unreadable = self._runtime.checker.check_constraints(theirs)
        problem = unreadable or self._runtime.checker.check_match(endpoint.type, theirs)
        if problem is not None:
            refusals.type += 1
            return f"the endpoints do not match: {problem.line}"
        return ""

    def _join(self, endpoint: EndpointReference) -> None:
        self._timer.cancel()
        # Before its owner is told, who may speak at once.
        self._link.send(Ready())
        try:
            self._mirror = Mirror(self._runtime, endpoint, self._link)
        except LiveRuntimeError as error:
            self._publisher.refusals.taken += 1
            self._refuse(str(error))

    def _refuse(self, reason: str) -> None:
        try:
            self._link.send(Refused(shorten(reason)))
        except BadMessageError:
            pass
        self.close()

    def _be_late(self) -> None:
        self._publisher.refusals.late += 1
        self._refuse("that took too long")

    def _end(self, reason: str) -> None:
        self.close()


def _listen(at: Place) -> tuple[socket.socket, Place]:
    listener = socket.socket(at.family, socket.SOCK_STREAM)
    try:
        if at.path:
            _bind_path(listener, at.path)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(at.for_socket)
        listener.listen(64)
    except (OSError, OverflowError) as error:
        listener.close()
        raise PublishError(str(at), str(error)) from None
    if at.path:
        return listener, at
    return listener, Place(host=at.host, port=listener.getsockname()[1])


def _bind_path(listener: socket.socket, path: str) -> None:
    """Bind to a path that only this user can reach; what a dead process left there is replaced."""
    try:
        is_socket = stat.S_ISSOCK(os.stat(path, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        is_socket = False
    if is_socket:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                Path(path).unlink()
            # Otherwise somebody listens there, and bind says that it is in use.
    listener.bind(path)
    Path(path).chmod(0o600)  # nobody can connect before it listens
