"""Frames over TCP: a 32-bit little-endian length, then that many bytes."""

from __future__ import annotations

import socket

from quicksilver.stdx.errors import QuicksilverError

LENGTH_BYTES = 4

_KEEPALIVE_IDLE_S = 10
_KEEPALIVE_INTERVAL_S = 5
_KEEPALIVE_PROBES = 3
_USER_TIMEOUT_MS = 30_000
"""How long what was sent may stay without the other side's acknowledgement."""


class FrameError(QuicksilverError):
    """A peer announced a frame that is longer than allowed."""

    def __init__(self, length: int, length_max: int) -> None:
        super().__init__(length, length_max)
        self.length = length
        self.length_max = length_max

    def __str__(self) -> str:
        return f"a frame of {self.length} bytes, the limit is {self.length_max}"


def encode_frame(body: bytes) -> bytes:
    """Return ``body`` with its length in front."""
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


class FrameDecoder:
    """Cuts a stream of bytes into frames, whatever the sizes it arrives in."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        """The longest frame; may be changed between two frames."""
        self._partial = bytearray()
        """The beginning of a frame, if what arrived before ended in the middle of it."""
        self._chunk = b""
        """What arrived last, as it came: most frames are cut out of it, and copied once."""
        self._at = 0
        """How much of that has been taken."""
        self._error: FrameError | None = None

    @property
    def waiting_bytes(self) -> int:
        """Bytes that have not been taken as frames."""
        return len(self._partial) + len(self._chunk) - self._at

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Return the frames that ``data`` completes.

        Raises:
            FrameError: for a frame that is too long, once the frames before it
                have been returned; the stream cannot be used any further.
        """
        if self._error is not None:
            raise self._error
        self.push(data)
        frames: list[bytes] = []
        try:
            while (frame := self.next_frame()) is not None:
                frames.append(frame)
        except FrameError:
            if not frames:
                raise
        return frames

    def push(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes as they arrived; ``next_frame`` has what they complete."""
        rest = self._chunk[self._at :]
        self._chunk = rest + bytes(data) if rest else bytes(data)
        self._at = 0

    def next_frame(self) -> bytes | None:
        """Return the next complete frame, or None.

        Raises:
            FrameError: it is too long; the stream cannot be used any further.
        """
        if self._error is not None:
            raise self._error
        partial = self._partial
        if partial:
            return self._next_of_partial(partial)
        chunk, at = self._chunk, self._at
        body = at + LENGTH_BYTES
        if len(chunk) >= body:
            length = self._check(chunk[at:body])
            if len(chunk) >= body + length:
                self._at = body + length
                return chunk[body : body + length]
        self._fill(len(chunk) - at)
        return None

    def _next_of_partial(self, partial: bytearray) -> bytes | None:
        if not self._fill(LENGTH_BYTES):
            return None
        length = self._check(partial[:LENGTH_BYTES])
        if not self._fill(LENGTH_BYTES + length):
            return None
        # A new one: what a long frame needed is given back.
        self._partial = bytearray()
        with memoryview(partial) as view:
            return bytes(view[LENGTH_BYTES:])

    def _fill(self, size: int) -> bool:
        """Let the partial frame have so many bytes, if they are there."""
        partial, chunk, at = self._partial, self._chunk, self._at
        need = size - len(partial)
        if need > 0:
            with memoryview(chunk) as view:
                partial += view[at : at + need]
            self._at = at = min(at + need, len(chunk))
        if at == len(chunk):
            self._chunk, self._at = b"", 0
        return len(partial) >= size

    def _check(self, head: bytes | bytearray) -> int:
        """Return how long a frame is; raises FrameError."""
        length = int.from_bytes(head, "little")
        if length > self.bytes_max:
            self._error = FrameError(length, self.bytes_max)
            # In place: the error's traceback keeps what it names alive for a while.
            self._partial.clear()
            self._chunk, self._at = b"", 0
            raise self._error
        return length


def configure_stream(sock: socket.socket) -> None:
    """Send small frames at once, and notice a peer that vanished."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Not every system has these; the defaults are slower, not wrong.
    for option, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
        ("TCP_USER_TIMEOUT", _USER_TIMEOUT_MS),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
