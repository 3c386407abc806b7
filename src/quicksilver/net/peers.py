"""Machines that talk to others of their kind, as handlers of frames.

A machine without sockets says and is told frames over numbered connections, whoever made
them (``PeerMachine``; a scope's manager is one, and a node of a scope). What a connection
cannot carry yet waits, up to a limit: whoever does not read is cut off, so that nobody who is
slow costs more than that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from quicksilver.core.ports import ConnectionFinished, DialWanted, FrameTransmit

OUTPUT_BYTES_MAX = 8 << 20
"""What may wait for one connection that does not take it."""


class Addressed(Protocol):
    """A wish for a connection."""

    @property
    def address(self) -> str: ...


D = TypeVar("D", bound=Addressed | str)


class PeerMachine(Protocol[D]):
    """What ``PeerFrames`` drives; a connection that it closes itself is not told to it again."""

    def handle_accepted(self, conn: int, now: float) -> None: ...

    def handle_dialled(self, dial: D, conn: int | None, now: float) -> None: ...

    def handle_closed(self, conn: int, now: float) -> None: ...

    def handle_frame(self, conn: int, data: bytes, now: float) -> None: ...

    def handle_sent(self, conn: int, size: int, now: float) -> None:
        """A frame of this size has left, or nearly so: its connection was not full."""
        ...

    def handle_timeout(self, now: float) -> None: ...

    def frame_bytes_max(self, conn: int) -> int: ...

    def next_timeout(self) -> float | None: ...

    def poll_transmit(self) -> tuple[int, bytes] | None: ...

    def poll_close(self) -> int | None: ...

    def poll_dial(self) -> D | None: ...


class PeerFrames(Generic[D]):
    """Drives a machine as ``serve_frames`` wants it."""

    def __init__(
        self,
        machine: PeerMachine[D],
        *,
        on_events: Callable[[], None] = lambda: None,
        output_bytes_max: int = OUTPUT_BYTES_MAX,
    ) -> None:
        """``on_events`` is called before frames are taken, to take the machine's events."""
        self._machine = machine
        self._on_events = on_events
        self._output_bytes_max = output_bytes_max
        self._open: set[int] = set()
        """Connections that the machine knows."""
        self._blocked: set[int] = set()
        self._waiting: dict[int, deque[bytes]] = {}
        """Frames for connections that cannot take them now …"""
        self._waiting_bytes: dict[int, int] = {}
        """… and their sizes."""
        self._ready: deque[FrameTransmit] = deque()
        self._finished: deque[ConnectionFinished] = deque()
        self._now = 0.0
        """Of the last input."""
        self.cut_off = 0
        """Connections that were ended because too much waited for them."""

    # Inputs

    def handle_connected(self, conn: int, addresses: frozenset[str], now: float) -> None:
        self._now = now
        self._open.add(conn)
        self._machine.handle_accepted(conn, now)

    def handle_dialled(self, dial: D, conn: int | None, now: float) -> None:
        self._now = now
        if conn is not None:
            self._open.add(conn)
        self._machine.handle_dialled(dial, conn, now)

    def frame_bytes_max(self, conn: int) -> int:
        return self._machine.frame_bytes_max(conn)

    def handle_frame(self, conn: int, frame: bytes, now: float) -> None:
        self._now = now
        if conn in self._open:  # else it is being closed
            self._machine.handle_frame(conn, frame, now)

    def handle_disconnected(self, conn: int, now: float, *, is_silent: bool) -> None:
        self._blocked.discard(conn)
        self._forget_output(conn)
        if conn in self._open:
            self._open.discard(conn)
            self._machine.handle_closed(conn, now)

    def handle_blocked(self, conn: int, now: float) -> None:
        self._blocked.add(conn)

    def handle_unblocked(self, conn: int, now: float) -> None:
        self._blocked.discard(conn)

    def handle_timeout(self, now: float) -> None:
        self._now = now
        self._machine.handle_timeout(now)

    # Outputs

    def next_timeout(self) -> float | None:
        return self._machine.next_timeout()

    def poll_transmit(self) -> FrameTransmit | None:
        self._on_events()
        if self._ready:
            return self._ready.popleft()
        for conn in self._waiting:
            if conn not in self._blocked:
                return self._take_waiting(conn)
        while (said := self._machine.poll_transmit()) is not None:
            conn, frame = said
            if conn not in self._open:
                continue
            if conn in self._blocked:
                self._keep(conn, frame)
                continue
            self._machine.handle_sent(conn, len(frame), self._now)
            return FrameTransmit(conn, frame)
        self._take_closes()
        return self._ready.popleft() if self._ready else None

    def poll_event(self) -> ConnectionFinished | DialWanted | None:
        """Return a connection to close or to make; its last frame was given out before."""
        if self._finished:
            return self._finished.popleft()
        dial = self._machine.poll_dial()
        if dial is None:
            return None
        return DialWanted(dial if isinstance(dial, str) else dial.address, dial)

    def finish(self) -> None:
        """End all connections, after what waits for them; the machine is told nothing any more."""
        for conn in list(self._open):
            self._finish(conn)

    def _take_closes(self) -> None:
        """Note what the machine has closed, after all that it had to say."""
        while (conn := self._machine.poll_close()) is not None:
            if conn in self._open:
                self._finish(conn)

    def _finish(self, conn: int) -> None:
        self._open.discard(conn)
        # The host gives what is left a while to leave.
        self._ready.extend(FrameTransmit(conn, each) for each in self._waiting.get(conn, ()))
        self._forget_output(conn)
        self._finished.append(ConnectionFinished(conn))

    # Output that waits

    def _keep(self, conn: int, frame: bytes) -> None:
        """Keep a frame until its connection can take it; cut off whoever lets too many wait."""
        size = self._waiting_bytes.get(conn, 0) + len(frame)
        if size <= self._output_bytes_max:
            self._waiting.setdefault(conn, deque()).append(frame)
            self._waiting_bytes[conn] = size
            return
        self.cut_off += 1
        self._open.discard(conn)
        self._forget_output(conn)
        self._finished.append(ConnectionFinished(conn, at_once=True))
        self._machine.handle_closed(conn, self._now)

    def _take_waiting(self, conn: int) -> FrameTransmit:
        frames = self._waiting[conn]
        frame = frames.popleft()
        self._waiting_bytes[conn] -= len(frame)
        if not frames:
            self._forget_output(conn)
        self._machine.handle_sent(conn, len(frame), self._now)
        return FrameTransmit(conn, frame)

    def _forget_output(self, conn: int) -> None:
        self._waiting.pop(conn, None)
        self._waiting_bytes.pop(conn, None)
