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
        self._buffer = bytearray()
        self._at = 0
        """How much of the buffer has been taken."""
        self._error: FrameError | None = None

    @property
    def waiting_bytes(self) -> int:
        """Bytes that have not been taken as frames."""
        return len(self._buffer) - self._at

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
        self._drop_taken()
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """Return the next complete frame, or None.

        Raises:
            FrameError: it is too long; the stream cannot be used any further.
        """
        if self._error is not None:
            raise self._error
        buffer, at = self._buffer, self._at
        if len(buffer) - at < LENGTH_BYTES:
            self._drop_taken()
            return None
        length = int.from_bytes(buffer[at : at + LENGTH_BYTES], "little")
        if length > self.bytes_max:
            self._error = FrameError(length, self.bytes_max)
            # In place: the error's traceback keeps the name ``buffer`` alive for a while.
            buffer.clear()
            self._at = 0
            raise self._error
        stop = at + LENGTH_BYTES + length
        if stop > len(buffer):
            self._drop_taken()
            return None
        self._at = stop
        with memoryview(buffer) as view:
            return bytes(view[at + LENGTH_BYTES : stop])

    def _drop_taken(self) -> None:
        if self._at:
            # A new one: what a long frame needed is given back.
            self._buffer = self._buffer[self._at :]
            self._at = 0


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
