"""One connection between two processes: a socket, a thread that reads, a thread that writes.

What comes is handed to the runtime's executor, one frame at a time. What goes
out waits in a queue that is bounded in bytes: whoever does not read while it
fills is parted from. Silence for too long is the end as well.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from quicksilver.live.runtime.executor import Executor
from quicksilver.live.runtime.remote.errors import FrameError
from quicksilver.live.runtime.remote.frames import (
    IDLE,
    Bye,
    Frame,
    encode,
    parse,
    parse_length,
    shorten,
)

UNHANDLED_MAX: Final = 1000
"""Frames that may wait for the executor; the socket waits with them."""


class LinkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How patient a connection is."""

    queue_bytes_max: int = 16 << 20
    """What may wait for the other side to read; more ends the connection."""

    idle_s: float = 5.0
    """How often to say that one is still here, if there is nothing else to say."""

    silence_s: float = 20.0
    """How long to hear nothing before the other side counts as lost."""

    handshake_s: float = 10.0
    """How long it may take until both sides are ready."""


class Link:
    """A socket with frames in both directions; all but the two threads is on the executor."""

    def __init__(
        self,
        executor: Executor,
        connected: socket.socket,
        settings: LinkSettings,
        on_frame: Callable[[Frame], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._executor = executor
        self._socket = connected
        self._settings = settings
        self._on_frame = on_frame
        self._on_end = on_end
        self.malformed = 0
        """Frames that were no messages, and were dropped."""
        self._is_over = False
        self._condition = threading.Condition()
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._is_closing = False
        """Under the condition: write what is queued, then close."""
        self._unhandled = threading.Semaphore(UNHANDLED_MAX)
        connected.settimeout(settings.silence_s)
        if connected.family != socket.AF_UNIX:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for target in (self._read, self._write):
            threading.Thread(target=target, name="live-link", daemon=True).start()

    def send(self, frame: Frame) -> None:
        """Send a frame soon; raises FrameError if it is none. After the end, nothing happens."""
        data = encode(frame)
        with self._condition:
            if self._is_closing:
                return
            is_full = self._queued_bytes + len(data) > self._settings.queue_bytes_max
            if not is_full:
                self._queue.append(data)
                self._queued_bytes += len(data)
                self._condition.notify()
        if is_full:
            limit = self._settings.queue_bytes_max
            self.close(f"the other side reads too slowly: {limit} bytes wait for it")

    def close(self, reason: str = "") -> None:
        """End the connection; the owner is told unless it gave no reason."""
        if self._is_over:
            return
        self._is_over = True
        with self._condition:
            if reason:
                self._queue.clear()  # it would not be read
            self._queue.append(encode(Bye(shorten(reason))))
            self._is_closing = True
            self._condition.notify()
        if reason:
            self._on_end(reason)

    # On the two threads

    def _end(self, reason: str) -> None:
        with self._condition:
            self._is_closing = True
            self._condition.notify()
        self._shut()

        def tell() -> None:
            if not self._is_over:
                self._is_over = True
                self._on_end(reason)

        self._executor.post(tell)

    def _shut(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()

    def _write(self) -> None:
        condition = self._condition
        while True:
            with condition:
                if not self._queue and not self._is_closing:
                    condition.wait(self._settings.idle_s)
                data = self._queue.popleft() if self._queue else IDLE
                self._queued_bytes -= len(data) if data is not IDLE else 0
                is_last = self._is_closing and not self._queue
            try:
                self._socket.sendall(data)
            except OSError as error:
                self._end(f"the connection was lost: {error}")
                return
            if is_last:
                self._shut()
                return

    def _read(self) -> None:
        try:
            while True:
                length = parse_length(self._receive(4))
                if length:
                    self._take(self._receive(length))
        except TimeoutError:
            self._end(f"nothing was heard for {self._settings.silence_s:g} s")
        except FrameError as error:
            self._end(str(error))
        except (OSError, EOFError) as error:
            self._end(f"the connection was lost: {str(error) or 'the other side ended it'}")

    def _receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = self._socket.recv(min(count - len(data), 1 << 16))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def _take(self, body: bytes) -> None:
        try:
            frame = parse(body)
        except FrameError:
            self.malformed += 1
            return
        if not self._unhandled.acquire(timeout=self._settings.silence_s):
            raise FrameError("this side did not handle what came in time")

        def handle() -> None:
            self._unhandled.release()
            if self._is_over:
                return
            if isinstance(frame, Bye):
                self._is_over = True
                self._on_end(f"the other side ended it: {frame.reason or 'it is done'}")
                with self._condition:
                    self._is_closing = True
                    self._condition.notify()
            else:
                self._on_frame(frame)

        self._executor.post(handle)
