"""Frames over TCP, on asyncio: connections that others make, and those that this side makes.

``serve_frames`` drives a handler that knows nothing of sockets: it hands in frames, the time and
what becomes of connections, and takes out frames as far as each connection can carry them.
``net.frames`` has their form. A handler that also wants to connect to others is a
``FrameDialler``; once a connection is there it does not matter who made it.

What strangers can make the server hold is bounded: the handler says how long a
frame each connection may bring, frames that have not arrived completely share a
budget, and output waits in the handler, where it is counted. A process that is
out of descriptors lets new connections wait and serves those it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable
from typing import Protocol, assert_never, runtime_checkable

from quicksilver.core.ports import (
    ConnectionFinished,
    DialWanted,
    FrameTransmit,
    Noted,
    Reported,
    ServerEvent,
)
from quicksilver.net.frames import FrameDecoder, FrameError, configure_stream, encode_frame
from quicksilver.net.interfaces import list_interfaces
from quicksilver.net.listening import ListenError, open_listener

__all__ = [
    "FrameDialler",
    "FrameHandler",
    "FrameServer",
    "ListenError",
    "open_listener",
    "serve_frames",
]

LINGER_S = 5.0
"""A connection that is being closed has this long to take its last frames."""

DIAL_S = 3.0
"""How long the other side may take to accept a connection."""

_WRITE_BUFFER_BYTES = 64 << 10
"""What a connection may leave unsent here, besides one frame, before it counts as blocked."""

_ACCEPTS_MAX = 64
"""Connections accepted before others are served."""

_ACCEPT_PAUSE_S = 1.0
"""How long new connections wait when there is no descriptor for them."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_UNHEARD = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN})
"""How the kernel says that it gave a connection up, and not that the other side did."""

_OWN_ADDRESSES_S = 5.0
"""How long the list of this machine's addresses is believed."""


class FrameHandler(Protocol):
    """What ``serve_frames`` drives: a server without sockets, such as a GMS."""

    def handle_connected(self, conn: int, addresses: frozenset[str], now: float) -> None:
        """A connection was opened, under a number that is never used again.

        ``addresses`` are those that the other side is known to have: the one that it
        connects from, or all of this machine's if it is on this machine.
        """

    def frame_bytes_max(self, conn: int) -> int:
        """Return how long the next frame of a connection may be."""

    def handle_frame(self, conn: int, frame: bytes, now: float) -> None:
        """A frame arrived."""

    def handle_disconnected(self, conn: int, now: float, *, is_silent: bool) -> None:
        """A connection is gone; also called for those that it finished.

        ``is_silent``: the other side did not end it; nothing was heard of it for long.
        """

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

    def poll_event(self) -> ServerEvent | DialWanted | None:
        """Return a connection to close after its last frame, or a note for people.

        A ``FrameDialler`` also returns connections to make.
        """


@runtime_checkable
class FrameDialler(FrameHandler, Protocol):
    """A handler that also connects to others."""

    def handle_dialled(self, dial: object, conn: int | None, now: float) -> None:
        """A connection that was wanted is there, or could not be made (None)."""


class FrameServer:
    """A listening server. Use ``serve_frames`` to make one."""

    def __init__(
        self,
        handler: FrameHandler,
        input_bytes_max: int,
        on_note: Callable[[str], None] | None,
        logger: str,
    ) -> None:
        self._handler = handler
        self._input_bytes_max = input_bytes_max
        self._on_note = on_note
        self._log = logging.getLogger(logger)
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, _Stream] = {}
        self._own: frozenset[str] = frozenset()
        self._own_at = float("-inf")
        self.input_bytes = 0
        """Bytes of frames that have not arrived completely, over all connections."""
        self.overfed = 0
        """Connections that were closed because these were too many."""
        self.accept_pauses = 0
        """Times that there was no descriptor for a new connection."""
        self._next_conn = 1
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._listening: socket.socket | None = None
        self._accepting: asyncio.TimerHandle | None = None
        """Set while new connections have to wait."""
        self._opening: set[asyncio.Task[object]] = set()
        self._dialling: set[asyncio.Task[object]] = set()
        self._failed: asyncio.Future[None] = self._loop.create_future()
        self._is_empty = asyncio.Event()
        """Set when there is no connection any more."""
        self._is_pumping = False
        self.address: tuple[str, int] = ("", 0)
        """Where the server listens; set once it does."""

    def call(self, work: Callable[[], None]) -> None:
        """Run something that concerns the handler, then send what it has to say.

        An exception counts as one of the handler's.
        """
        self._guard(work)

    def set_reading(self, conn: int, *, reads: bool) -> None:
        """Let what a connection brings stay in the kernel, or read it again."""
        stream = self._streams.get(conn)
        if stream is not None:
            stream.set_reading(reads=reads)

    async def wait_failed(self) -> None:
        """Wait for an exception of the handler, and raise it: the server has stopped."""
        await asyncio.shield(self._failed)

    async def close(self, linger_s: float = 0.0) -> None:
        """Stop listening and end all connections.

        Those that the handler has finished have ``linger_s`` to take their last frames.
        """
        self._stop_listening()
        if linger_s and self._streams:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(linger_s):
                    await self._is_empty.wait()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for dialling in self._dialling:
            dialling.cancel()
        for stream in list(self._streams.values()):
            stream.end()
        self._streams.clear()
        if self._opening or self._dialling:
            await asyncio.wait(self._opening | self._dialling)
        await asyncio.sleep(0)  # aborted connections say so in the next round
        if self._failed.done() and not self._failed.cancelled():
            # The exception was for wait_failed; do not warn if nobody waited.
            self._failed.exception()

    def _listen(self, listening: socket.socket) -> None:
        self._listening = listening
        self.address = listening.getsockname()[:2]
        self._start_accepting()

    # -- new connections

    def _start_accepting(self) -> None:
        self._accepting = None
        assert self._listening is not None
        self._loop.add_reader(self._listening.fileno(), self._accept)

    def _stop_listening(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            self._accepting = None
        if self._listening is not None:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()
            self._listening = None

    def _accept(self) -> None:
        # asyncio's own server reports every failure of ``accept``, as often as its backlog
        # is long, with a traceback each.
        assert self._listening is not None
        for _ in range(_ACCEPTS_MAX):
            try:
                sock, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._pause_accepting(error)
                return
            sock.setblocking(False)
            opening = self._loop.create_task(self._open(sock))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _open(self, sock: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: _Stream(self), sock)
        except OSError:
            sock.close()  # it ended before it began

    def _pause_accepting(self, error: OSError) -> None:
        assert self._listening is not None
        self._loop.remove_reader(self._listening.fileno())
        self._accepting = self._loop.call_later(_ACCEPT_PAUSE_S, self._start_accepting)
        self.accept_pauses += 1
        if self.accept_pauses & (self.accept_pauses - 1) == 0:
            # The 1st, 2nd, 4th, 8th … time: it may last for days.
            self._note(
                f"new connections wait: {error.strerror} with {len(self._streams)} connections; "
                "raise the limit, for example: ulimit -n 65536"
            )

    # -- connections that this side makes

    async def _dial(self, wanted: DialWanted) -> None:
        stream = _Stream(self, wanted)
        try:
            host, port = _parse_address(wanted.address)
            async with asyncio.timeout(DIAL_S):
                await self._loop.create_connection(
                    lambda: stream, host, port, family=socket.AF_INET
                )
        except (OSError, ValueError) as error:  # a timeout and a strange name are such, too
            self._log.debug("cannot connect to %s: %s", wanted.address, error)
            if not stream.is_made:
                self._dialled(wanted, None)

    def _dialled(self, wanted: DialWanted, conn: int | None) -> None:
        dialler = self._handler
        assert isinstance(dialler, FrameDialler)
        self._guard(lambda: dialler.handle_dialled(wanted.dial, conn, self._loop.time()))

    def _note(self, text: str) -> None:
        if self._on_note is not None:
            self._on_note(text)
        else:
            self._log.warning("%s", text)

    def addresses_of(self, peer: str) -> frozenset[str]:
        """Return the addresses that the other side of a connection is known to have."""
        now = self._loop.time()
        if now - self._own_at > _OWN_ADDRESSES_S:
            self._own_at = now
            # To ask takes a descriptor; without one the old answer has to do.
            with contextlib.suppress(OSError):
                self._own = frozenset(some.address for some in list_interfaces())
        if peer in self._own or peer.startswith("127."):
            return self._own | {peer}
        return frozenset({peer})

    # -- what happens to streams

    def _admit(self, stream: _Stream) -> int:
        conn = self._next_conn
        self._next_conn += 1
        self._streams[conn] = stream
        self._is_empty.clear()
        return conn

    def _opened(self, conn: int, peer: str, wanted: DialWanted | None) -> None:
        if wanted is not None:
            self._dialled(wanted, conn)
            return
        addresses = self.addresses_of(peer)
        self._guard(lambda: self._handler.handle_connected(conn, addresses, self._loop.time()))

    def _received(self, conn: int, decoder: FrameDecoder) -> bool:
        """Hand in the frames that have arrived completely.

        Returns False if the next one is longer than the connection may bring. No exception:
        its traceback would keep what arrived until the collector comes by.
        """
        is_fit = True

        def hand_in() -> None:
            nonlocal is_fit
            now = self._loop.time()
            handler = self._handler
            try:
                while True:
                    # A greeting changes what may follow it.
                    decoder.bytes_max = handler.frame_bytes_max(conn)
                    frame = decoder.next_frame()
                    if frame is None:
                        return
                    handler.handle_frame(conn, frame, now)
            except FrameError:
                is_fit = False

        self._guard(hand_in)
        return is_fit

    def _keep_to_input_budget(self) -> None:
        """Close whoever holds most of the frames that are not complete."""
        while self.input_bytes > self._input_bytes_max:
            greediest = max(self._streams.values(), key=lambda stream: stream.input_bytes)
            self.overfed += 1
            greediest.end()

    def _lost(self, conn: int, error: Exception | None) -> None:
        if self._streams.pop(conn, None) is not None:
            if not self._streams:
                self._is_empty.set()
            is_silent = isinstance(error, OSError) and error.errno in _UNHEARD
            self._guard(
                lambda: self._handler.handle_disconnected(
                    conn, self._loop.time(), is_silent=is_silent
                )
            )

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
            while True:
                while (transmit := self._handler.poll_transmit()) is not None:
                    stream = self._streams.get(transmit.connection)
                    if stream is not None:
                        stream.send(transmit.frame)
                event = self._handler.poll_event()
                if event is None:
                    break
                self._handle_event(event)
        finally:
            self._is_pumping = False
        self._set_timer()

    def _handle_event(self, event: ServerEvent | DialWanted) -> None:
        match event:
            case DialWanted():
                dialling = self._loop.create_task(self._dial(event))
                self._dialling.add(dialling)
                dialling.add_done_callback(self._dialling.discard)
            case Noted(text):
                self._note(text)
            case Reported():
                level = logging.WARNING if event.is_warning else logging.INFO
                self._log.log(level, "%s", event.text)
            case ConnectionFinished(connection, at_once):
                stream = self._streams.get(connection)
                if stream is not None and at_once:
                    stream.end()
                elif stream is not None:
                    stream.finish()
            case _:
                assert_never(event)

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
    handler: FrameHandler,
    host: str | socket.socket | None,
    port: int = 0,
    *,
    input_bytes_max: int,
    on_note: Callable[[str], None] | None = None,
    logger: str = "quicksilver.server",
) -> FrameServer:
    """Serve a handler on a TCP port; port 0 takes a free one.

    Instead of a host it takes what ``open_listener`` returned. With None it does not listen:
    there are only the connections that it makes.
    Frames longer than the handler allows end their connection, and so do incomplete
    ones that take more than ``input_bytes_max`` together. ``on_note`` is told, in one
    line, what whoever runs the server should know; without it that is
    logged, as is what the handler reports, by the logger of the name given. All calls to
    the handler come from the running event loop.

    Raises:
        ListenError: the address is not this machine's, or the port is taken.
    """
    server = FrameServer(handler, input_bytes_max, on_note, logger)
    if host is not None:
        server._listen(open_listener(host, port) if isinstance(host, str) else host)
    server.call(lambda: None)  # it may have something to say at once
    return server


class _Stream(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: FrameServer, wanted: DialWanted | None = None) -> None:
        """``wanted``: the dial that makes it; None: the other side made it."""
        self._server = server
        self._wanted = wanted
        self._decoder = FrameDecoder(0)  # the handler says more before each frame
        self._transport: asyncio.Transport | None = None
        self._conn = 0
        self._linger: asyncio.TimerHandle | None = None
        self.input_bytes = 0
        """Its part of the server's."""

    @property
    def is_made(self) -> bool:
        """Whether the handler was told of it."""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            configure_stream(sock)
        peer = transport.get_extra_info("peername")
        self._conn = self._server._admit(self)
        self._server._opened(self._conn, str(peer[0]) if peer else "", self._wanted)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return
        self._decoder.push(data)
        if not self._server._received(self._conn, self._decoder):
            self.end()
            return
        self._count(self._decoder.waiting_bytes)
        self._server._keep_to_input_budget()

    def _count(self, waiting_bytes: int) -> None:
        self._server.input_bytes += waiting_bytes - self.input_bytes
        self.input_bytes = waiting_bytes

    def pause_writing(self) -> None:
        self._server._set_blocked(self._conn, blocked=True)

    def resume_writing(self) -> None:
        self._server._set_blocked(self._conn, blocked=False)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._linger is not None:
            self._linger.cancel()
        self._forget_input()
        self._server._lost(self._conn, exc)

    def _forget_input(self) -> None:
        self._count(0)
        self._decoder = FrameDecoder(0)

    def send(self, frame: bytes) -> None:
        """Write a frame; it is counted as sent."""
        assert self._transport is not None
        # Not ``writelines``: in Python 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 it never says that a
        # reader has stopped, and buffers without bound (CVE-2024-12254).
        self._transport.write(encode_frame(frame))

    def set_reading(self, *, reads: bool) -> None:
        """Read, or leave what comes in the kernel; asking twice does no harm."""
        assert self._transport is not None
        if reads:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

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
        self._forget_input()
        self._transport.abort()


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) < 65536):
        raise ValueError(f"{text!r} is not host:port")
    return host, int(port)
