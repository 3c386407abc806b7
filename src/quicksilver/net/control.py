"""The node's TCP connection to its GMS, without blocking.

Connects, reconnects with growing pauses, and moves whole frames in both
directions. The core thread watches its descriptor and takes what happened.

Once the failure timeout of the cluster is known, an attempt and the pause after
it take no longer than that together: a node that the network gave back finds out
within that time whether the GMS still counts it in.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from quicksilver.core.ports import ControlClosed, ControlEvent, ControlFrame, ControlOpened
from quicksilver.net.frames import FrameDecoder, FrameError, configure_stream, encode_frame
from quicksilver.stdx.backoff import Backoff
from quicksilver.wire.gms import UPDATE_BYTES_MAX
from quicksilver.wire.ids import Address

RETRY_S = 0.05
RETRY_S_MAX = 1.0
CONNECT_TIMEOUT_S = 5.0


class ControlStream:
    """One connection at a time; ``poll_event`` moves bytes and tells what came of it."""

    def __init__(self, address: Address, seed: int = 0) -> None:
        self.address = address
        self.last_error = ""
        self.waits_for = ""
        """What keeps the node from its GMS, and when it tries again; empty: nothing does."""
        self.on_lost: Callable[[str], None] = lambda _: None
        """Told why a connection that was up has ended."""
        self._socket: socket.socket | None = None
        self._is_connected = False
        self._decoder = FrameDecoder(UPDATE_BYTES_MAX)
        self._outgoing = bytearray()
        self._resolved: Any = None
        self._retry_at = 0.0
        self._backoff = Backoff(RETRY_S, RETRY_S_MAX, seed)
        self._connect_timeout_s = CONNECT_TIMEOUT_S
        self._user_timeout_ms = 0
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

    def set_failure_timeout(self, seconds: float) -> None:
        """Keep attempts and pauses within the time after which nodes count as failed."""
        self._connect_timeout_s = min(CONNECT_TIMEOUT_S, seconds / 2)
        self._backoff.last_s = min(RETRY_S_MAX, seconds / 4)
        self._user_timeout_ms = max(1, int(1000 * seconds))
        self._bound_silence()

    def _bound_silence(self) -> None:
        """Let the kernel give the connection up, too, when nothing is acknowledged."""
        if (
            self._socket is not None
            and self._user_timeout_ms
            and hasattr(socket, "TCP_USER_TIMEOUT")
        ):
            self._socket.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self._user_timeout_ms
            )

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
        self._bound_silence()
        self._deadline = now + self._connect_timeout_s
        code = self._socket.connect_ex(self._resolved)
        if code == 0:
            self._become_open()
        elif code not in (errno.EINPROGRESS, errno.EAGAIN):
            self._close(_words(code), now)

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
        self.waits_for = ""
        self._backoff.reset()
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
        if self._is_connected:
            self.on_lost(reason)
        if self._socket is not None:
            self._socket.close()
        self._socket = None
        self._is_connected = False
        wait_s = self._backoff.next_wait()
        self._retry_at = now + wait_s
        host, port = self.address
        self.waits_for = f"the GMS at {host}:{port} ({reason}), next attempt in {wait_s:.2f} s"
        self._events.append(ControlClosed(reason))

    def abandon(self, reason: str, now: float) -> None:
        """End a connection that is dead, whatever the kernel thinks; a new one follows."""
        if self._is_connected:
            self._close(reason, now)

    def local_address(self) -> str | None:
        """Return this machine's address on the connection, or None without one."""
        try:
            return None if self._socket is None else str(self._socket.getsockname()[0])
        except OSError:
            return None

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
    return os.strerror(code).lower()
