"""One connection between two processes: a socket, a thread that reads, a thread that writes.

What comes is handed to the runtime's executor, one frame at a time. What goes
out waits in a queue that is bounded in bytes: whoever does not read while it
fills is parted from. Silence for too long is the end as well.

A mirror joins an endpoint of this process to a link: it is attached to the endpoint
like an application, what the endpoint says becomes frames, and frames become what is
said to it. When the link ends, the endpoint's owner is told that the other side parted.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from quicksilver.live.codec import BadMessageError
from quicksilver.live.runtime.blueprints import signatures_of_type
from quicksilver.live.runtime.connections import Attachment, attach
from quicksilver.live.runtime.endpoints import EndpointReference
from quicksilver.live.runtime.executors import Executor
from quicksilver.live.runtime.remote.frames import (
    FRAME_BYTES_MAX,
    IDLE,
    Bye,
    Event,
    Frame,
    check_wire,
    encode,
    from_wire,
    is_carried_as_is,
    parse,
    shorten,
    to_wire,
)
from quicksilver.net.frames import FrameDecoder, FrameError

if TYPE_CHECKING:
    from quicksilver.live.runtime.runtime import Runtime


READ_BYTES: Final = 1 << 16
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
        """Send a frame soon, unless the link has ended; raises BadMessageError."""
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
        decoder = FrameDecoder(FRAME_BYTES_MAX)
        try:
            while data := self._socket.recv(READ_BYTES):
                for body in decoder.feed(data):
                    if body and not self._take(body):
                        self._end("this side did not handle what came in time")
                        return
            self._end("the connection was lost: the other side ended it")
        except TimeoutError:
            self._end(f"nothing was heard for {self._settings.silence_s:g} s")
        except FrameError as error:
            self._end(str(error))
        except OSError as error:
            self._end(f"the connection was lost: {error}")

    def _take(self, body: bytes) -> bool:
        """Hand a frame to the executor; False if that is too far behind."""
        try:
            frame = parse(body)
        except BadMessageError:
            self.malformed += 1
            return True
        if not self._unhandled.acquire(timeout=self._settings.silence_s):
            return False

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
        return True


class Mirror:
    """One endpoint of this process, joined to one of another by a link."""

    def __init__(self, runtime: Runtime, endpoint: EndpointReference, link: Link) -> None:
        self._link = link
        self._inputs = signatures_of_type(endpoint.type).inputs
        self._outputs = signatures_of_type(endpoint.type).outputs
        self._as_is = {
            one.event.value.digest: is_carried_as_is(one.event.value)
            for one in (*self._inputs.values(), *self._outputs.values())
        }
        self.misfits = 0
        """Events that came with a name or a value that the endpoint does not have."""
        self._attachment: Attachment = attach(
            runtime,
            endpoint,
            self._send,
            name=f"{endpoint.end}.elsewhere",
            on_disconnected=link.close,
        )

    @property
    def is_connected(self) -> bool:
        """Whether events pass."""
        return self._attachment.is_connected

    def close(self) -> None:
        """Part from the endpoint; its owner is told."""
        self._attachment.close()
        self._link.close()

    def take(self, frame: Event) -> None:
        """Say to the endpoint what came for it; what is not of its type is counted and dropped."""
        try:
            name, values = self._read(frame)
        except BadMessageError:
            self.misfits += 1
            return
        getattr(self._attachment.port, name)(*values)

    def _read(self, frame: Event) -> tuple[str, list[Any]]:
        signature = self._inputs.get(frame.name)
        if signature is None:
            raise BadMessageError("an event", "has a name that the endpoint does not have")
        type_ = signature.event.value
        check_wire(frame.value, type_)
        value = frame.value if self._as_is[type_.digest] else from_wire(frame.value, type_)
        arguments = signature.arguments
        if not arguments:
            return frame.name, []
        if len(arguments) == 1:
            return frame.name, [value]
        given = [value[one.name] for one in arguments if one.name in value]
        if any(one.name not in value for one in arguments[: len(given)]):
            raise BadMessageError("an event", "leaves out an argument before one that it has")
        return frame.name, given

    def _send(self, event: str, *values: Any) -> None:
        signature = self._outputs[event]
        arguments = signature.arguments
        value: Any
        if not arguments:
            value = None
        elif len(arguments) == 1:
            value = values[0]
        else:
            value = dict(zip((one.name for one in arguments), values, strict=False))
        if not self._as_is[signature.event.value.digest]:
            value = to_wire(value)
        try:
            self._link.send(Event(event, value))
        except BadMessageError as error:
            # Leaving it out would break what the endpoint promises.
            self._link.close(f"the event {event}: {error}")
