"""Frames over TCP: a 32-bit little-endian length, then that many bytes.

``FrameDecoder`` is the bytes-to-frames half, for any host. ``serve_frames``
drives a handler that knows nothing of sockets from an asyncio server: it hands
in frames, the time and what becomes of connections, and takes out frames as far
as each connection can carry them.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Protocol

from quicksilver.core.ports import ConnectionFinished, FrameTransmit

LENGTH_BYTES = 4

LINGER_S = 5.0
"""A connection that is being closed has this long to take its last frames."""

_KEEPALIVE_IDLE_S = 10
_KEEPALIVE_INTERVAL_S = 5
_KEEPALIVE_PROBES = 3
_WRITE_BUFFER_BYTES = 1 << 20
_BACKLOG = 1024


class FrameError(Exception):
    """A peer announced a frame that is longer than allowed."""

    def __init__(self, length: int, length_max: int) -> None:
        super().__init__(length, length_max)
        self.length = length
        self.length_max = length_max

    def __str__(self) -> str:
        return f"a frame of {self.length} bytes, the limit is {self.length_max}"


class ListenError(Exception):
    """The server cannot listen where it was told to."""

    def __init__(self, host: str, port: int, problem: str) -> None:
        super().__init__(host, port, problem)
        self.host = host
        self.port = port
        self.problem = problem

    def __str__(self) -> str:
        return f"cannot listen on {self.host}:{self.port}: {self.problem}"


def encode_frame(body: bytes) -> bytes:
    """Return ``body`` with its length in front."""
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


class FrameDecoder:
    """Cuts a stream of bytes into frames, whatever the sizes it arrives in."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._buffer = bytearray()
        self._error: FrameError | None = None

    @property
    def waiting_bytes(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Return the frames that ``data`` completes.

        Raises:
            FrameError: for a frame that is too long, once the frames before it
                have been returned; the stream cannot be used any further.
        """
        if self._error is not None:
            raise self._error
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        at, end = 0, len(buffer)
        while end - at >= LENGTH_BYTES:
            length = int.from_bytes(buffer[at : at + LENGTH_BYTES], "little")
            if length > self._bytes_max:
                self._error = FrameError(length, self._bytes_max)
                buffer.clear()
                if not frames:
                    raise self._error
                return frames
            stop = at + LENGTH_BYTES + length
            if stop > end:
                break
            frames.append(bytes(buffer[at + LENGTH_BYTES : stop]))
            at = stop
        del buffer[:at]
        return frames


class FrameHandler(Protocol):
    """What ``serve_frames`` drives: a server without sockets, such as a GMS."""

    def handle_connected(self, conn: int, now: float) -> None:
        """A connection was opened, under a number that is never used again."""

    def handle_frame(self, conn: int, frame: bytes, now: float) -> None:
        """A frame arrived."""

    def handle_disconnected(self, conn: int, now: float) -> None:
        """A connection is gone; also called for those that it finished."""

    def handle_blocked(self, conn: int, now: float) -> None:
        """A connection cannot take more output for now."""

    def handle_unblocked(self, conn: int, now: float) -> None:
        """A connection can take output again."""

    def handle_timeout(self, now: float) -> None:
        """The time of ``next_timeout`` has come."""

    def next_timeout(self) -> float | None:
        """Return when to call ``handle_timeout``."""

    def poll_transmit(self) -> FrameTransmit | None:
        """Return a frame for one of the connections."""

    def poll_event(self) -> ConnectionFinished | None:
        """Return a connection to close after its last frame."""


def configure_stream(sock: socket.socket) -> None:
    """Send small frames at once, and notice a peer that vanished."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Not every system has these; the defaults are slower, not wrong.
    for option, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
    ):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class FrameServer:
    """A listening server. Use ``serve_frames`` to make one."""

    def __init__(self, handler: FrameHandler, frame_bytes_max: int) -> None:
        self._handler = handler
        self._frame_bytes_max = frame_bytes_max
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, _Stream] = {}
        self._next_conn = 1
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._server: asyncio.Server | None = None
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._is_pumping = False
        self.address: tuple[str, int] = ("", 0)
        """Where the server listens; set once it does."""

    async def wait_failed(self) -> None:
        """Wait for an exception of the handler, and raise it: the server has stopped."""
        await asyncio.shield(self._failed)

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for stream in list(self._streams.values()):
            stream.end()
        self._streams.clear()
        if self._server is not None:
            await self._server.wait_closed()
        if self._failed.done() and not self._failed.cancelled():
            # The exception was for wait_failed; do not warn if nobody waited.
            self._failed.exception()

    async def _listen(self, host: str, port: int) -> None:
        try:
            self._server = await self._loop.create_server(
                lambda: _Stream(self), host, port, family=socket.AF_INET, backlog=_BACKLOG
            )
        except (OSError, OverflowError) as error:
            raise ListenError(host, port, _explain(error)) from None
        bound = self._server.sockets[0].getsockname()
        self.address = (bound[0], bound[1])
        self._guard(lambda: None)

    # -- what happens to streams

    def _opened(self, stream: _Stream) -> int:
        conn = self._next_conn
        self._next_conn += 1
        self._streams[conn] = stream
        self._guard(lambda: self._handler.handle_connected(conn, self._loop.time()))
        return conn

    def _received(self, conn: int, frames: list[bytes]) -> None:
        def hand_in() -> None:
            now = self._loop.time()
            for frame in frames:
                self._handler.handle_frame(conn, frame, now)

        self._guard(hand_in)

    def _lost(self, conn: int) -> None:
        if self._streams.pop(conn, None) is not None:
            self._guard(lambda: self._handler.handle_disconnected(conn, self._loop.time()))

    def _set_blocked(self, conn: int, *, blocked: bool) -> None:
        now = self._loop.time()
        if blocked:
            self._guard(lambda: self._handler.handle_blocked(conn, now))
        else:
            self._guard(lambda: self._handler.handle_unblocked(conn, now))

    # -- driving the handler

    def _guard(self, call: Callable[[], None]) -> None:
        """Call the handler, then send its frames and close what it finished."""
        if self._failed.done():
            return
        try:
            call()
            self._pump()
        except Exception as error:  # noqa: BLE001  # handed on by wait_failed
            self._fail(error)

    def _pump(self) -> None:
        # Writing may block or unblock a stream, which calls back here.
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            while (transmit := self._handler.poll_transmit()) is not None:
                stream = self._streams.get(transmit.connection)
                if stream is not None:
                    stream.send(transmit.frame)
            while (finished := self._handler.poll_event()) is not None:
                stream = self._streams.get(finished.connection)
                if stream is not None:
                    stream.finish()
        finally:
            self._is_pumping = False
        self._set_timer()

    def _set_timer(self) -> None:
        when = self._handler.next_timeout()
        if when == self._timer_at and self._timer is not None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = when
        if when is not None:
            self._timer = self._loop.call_at(max(when, self._loop.time()), self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._loop.time()
        # The loop may fire a clock tick early: no earlier than what was asked.
        if self._timer_at is not None and now < self._timer_at:
            now = self._timer_at
        self._guard(lambda: self._handler.handle_timeout(now))

    def _fail(self, error: Exception) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def serve_frames(
    handler: FrameHandler, host: str, port: int, *, frame_bytes_max: int
) -> FrameServer:
    """Serve a handler on a TCP port; port 0 takes a free one.

    Frames longer than ``frame_bytes_max`` end their connection. All calls to the
    handler come from the running event loop.

    Raises:
        ListenError: the address is not this machine's, or the port is taken.
    """
    server = FrameServer(handler, frame_bytes_max)
    await server._listen(host, port)
    return server


class _Stream(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: FrameServer) -> None:
        self._server = server
        self._decoder = FrameDecoder(server._frame_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._conn = 0
        self._linger: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            configure_stream(sock)
        self._conn = self._server._opened(self)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return
        try:
            frames = self._decoder.feed(data)
        except FrameError:
            self._transport.abort()
            return
        if frames:
            self._server._received(self._conn, frames)

    def pause_writing(self) -> None:
        self._server._set_blocked(self._conn, blocked=True)

    def resume_writing(self) -> None:
        self._server._set_blocked(self._conn, blocked=False)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._linger is not None:
            self._linger.cancel()
        self._server._lost(self._conn)

    def send(self, frame: bytes) -> None:
        """Write a frame; it is counted as sent."""
        assert self._transport is not None
        # Not ``writelines``: in Python 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 it never says that a
        # reader has stopped, and buffers without bound (CVE-2024-12254).
        self._transport.write(len(frame).to_bytes(LENGTH_BYTES, "little") + frame)

    def finish(self) -> None:
        """Close once the last frames are out, or after a while."""
        assert self._transport is not None
        if self._linger is None:
            self._transport.close()
            loop = asyncio.get_running_loop()
            self._linger = loop.call_later(LINGER_S, self._transport.abort)

    def end(self) -> None:
        """Close at once."""
        assert self._transport is not None
        self._transport.abort()


def _explain(error: OSError | OverflowError) -> str:
    if isinstance(error, OverflowError):
        return "ports go from 0 to 65535"
    match error.errno:
        case errno.EADDRINUSE:
            return "the port is in use: stop what uses it or choose another port"
        case errno.EADDRNOTAVAIL:
            return "this machine does not have that address: choose one that it has, or 0.0.0.0"
        case errno.EACCES:
            return "not permitted: choose a port above 1023"
        case _ if isinstance(error, socket.gaierror):
            return "the name cannot be resolved: give an address of this machine"
        case None:
            # From Python 3.13 on asyncio passes over addresses that the machine does not
            # have, and then says without a number that none was left.
            return _explain(OSError(errno.EADDRNOTAVAIL, ""))
        case _:
            return error.strerror or str(error)
