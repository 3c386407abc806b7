"""The node's TCP connection to its GMS, without blocking.

Connects, reconnects with growing pauses, and moves whole frames in both
directions. The core thread watches its descriptor and takes what happened.
"""

from __future__ import annotations

import errno
import socket
from collections import deque
from typing import Any

from quicksilver.core.ports import ControlClosed, ControlEvent, ControlFrame, ControlOpened
from quicksilver.net.streams import FrameDecoder, FrameError, configure_stream, encode_frame
from quicksilver.wire.gms import UPDATE_BYTES_MAX
from quicksilver.wire.ids import Address

RETRY_S = 0.05
RETRY_S_MAX = 1.0
CONNECT_TIMEOUT_S = 5.0


class ControlStream:
    """One connection at a time; ``poll_event`` moves bytes and tells what came of it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.last_error = ""
        self._socket: socket.socket | None = None
        self._is_connected = False
        self._decoder = FrameDecoder(UPDATE_BYTES_MAX)
        self._outgoing = bytearray()
        self._resolved: Any = None
        self._retry_at = 0.0
        self._retry_s = RETRY_S
        self._deadline = 0.0
        self._events: deque[ControlEvent] = deque()

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    def fileno(self) -> int | None:
        return None if self._socket is None else self._socket.fileno()

    def wants_write(self) -> bool:
        return self._socket is not None and (not self._is_connected or bool(self._outgoing))

    def next_timeout(self) -> float | None:
        if self._is_connected:
            return None
        return self._retry_at if self._socket is None else self._deadline

    def send(self, frame: bytes) -> None:
        self._outgoing += encode_frame(frame)

    def poll_event(self, now: float) -> ControlEvent | None:
        """Return what happened and was not told yet, in order; None when nothing more did."""
        if not self._events:
            self._advance(now)
        return self._events.popleft() if self._events else None

    def _advance(self, now: float) -> None:
        """Move bytes as far as the socket lets them."""
        if self._socket is None:
            if now >= self._retry_at:
                self._begin(now)
        elif not self._is_connected:
            self._finish(now)
        else:
            try:
                self._flush()
                self._read(now)
            except FrameError as error:
                self._close(f"the GMS sent nonsense: {error}", now)
            except OSError as error:
                self._close(str(error.strerror or error), now)

    def _begin(self, now: float) -> None:
        try:
            if self._resolved is None:
                # Once: a name server that is down must not hold up traffic later.
                found = socket.getaddrinfo(*self.address, socket.AF_INET, socket.SOCK_STREAM)
                self._resolved = found[0][4]
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        except OSError as error:
            self._close(f"cannot reach {self.address[0]}: {error.strerror}", now)
            return
        self._socket.setblocking(False)
        configure_stream(self._socket)
        self._deadline = now + CONNECT_TIMEOUT_S
        code = self._socket.connect_ex(self._resolved)
        if code == 0:
            self._become_open()
        elif code not in (errno.EINPROGRESS, errno.EAGAIN):
            self._close(errno.errorcode.get(code, str(code)), now)

    def _finish(self, now: float) -> None:
        assert self._socket is not None
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._close(_words(code), now)
            return
        try:
            self._socket.getpeername()
        except OSError:
            if now >= self._deadline:
                self._close("no answer", now)
            return
        self._become_open()

    def _become_open(self) -> None:
        self._is_connected = True
        self._retry_s = RETRY_S
        self._decoder = FrameDecoder(UPDATE_BYTES_MAX)
        self._outgoing.clear()
        self._events.append(ControlOpened())

    def _flush(self) -> None:
        assert self._socket is not None
        while self._outgoing:
            try:
                sent = self._socket.send(self._outgoing)
            except BlockingIOError:
                return
            del self._outgoing[:sent]

    def _read(self, now: float) -> None:
        assert self._socket is not None
        for _ in range(16):
            try:
                data = self._socket.recv(1 << 18)
            except BlockingIOError:
                return
            if not data:
                self._close("the GMS closed the connection", now)
                return
            self._events.extend(map(ControlFrame, self._decoder.feed(data)))

    def _close(self, reason: str, now: float) -> None:
        self.last_error = reason
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._is_connected = False
        self._retry_at = now + self._retry_s
        self._retry_s = min(self._retry_s * 2, RETRY_S_MAX)
        self._events.append(ControlClosed(reason))

    def close(self) -> None:
        """Send what waits, if the socket takes it at once, and end."""
        if self._socket is not None:
            if self._is_connected:
                try:
                    self._flush()
                    self._socket.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # it was ending anyway
            self._socket.close()
            self._socket = None
        self._is_connected = False


def _words(code: int) -> str:
    if code == errno.ECONNREFUSED:
        return "connection refused"
    return OSError(code, errno.errorcode.get(code, str(code))).strerror or str(code)
