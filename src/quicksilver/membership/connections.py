"""Connections of a membership service: what each is for, and its output.

Output waits here, not in the host: the host takes a frame when the connection
can carry it, and the service sees who falls behind.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from quicksilver.core.ports import ConnectionFinished, FrameTransmit
from quicksilver.membership.publication import PreparedUpdate
from quicksilver.wire.ids import NodeId

Frame = bytes | PreparedUpdate


@dataclass(frozen=True, slots=True)
class Greeting:
    """Neither a Hello nor an Inspect has come yet."""


@dataclass(frozen=True, slots=True)
class Inspecting:
    """A tool such as ``quicksilver top``, which asks for snapshots."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A node's connection."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class Closing:
    """The last frame is queued; whatever arrives is ignored."""


Role = Greeting | Inspecting | Serving | Closing


@dataclass(slots=True)
class Connection:
    """One stream, by the number that the host gave it."""

    id: int
    role: Role = field(default_factory=Greeting)
    frames: deque[Frame] = field(default_factory=deque)
    waiting_bytes: int = 0
    is_blocked: bool = False
    """The host cannot send more at the moment."""


class ConnectionTable:
    """All connections, and in which order their output leaves."""

    def __init__(self) -> None:
        self._connections: dict[int, Connection] = {}
        self._ready: deque[int] = deque()
        """Connections to look at for output; may hold some that have none."""
        self._closing: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._connections)

    def get(self, conn: int) -> Connection | None:
        """Return a connection that has not been closed, or None."""
        return self._connections.get(conn)

    def add(self, conn: int) -> Connection:
        """Note a new connection."""
        assert conn not in self._connections
        connection = Connection(conn)
        self._connections[conn] = connection
        return connection

    def remove(self, conn: int) -> Connection | None:
        """Forget a connection that the host lost, with all its output."""
        return self._connections.pop(conn, None)

    def send(self, connection: Connection, frame: Frame) -> None:
        """Queue a frame."""
        assert not isinstance(connection.role, Closing)
        connection.frames.append(frame)
        connection.waiting_bytes += size_of(frame)
        if not connection.is_blocked:
            self._ready.append(connection.id)

    def close(self, connection: Connection, frame: bytes | None = None) -> None:
        """Close after everything queued, and after ``frame``, has been taken.

        On a blocked connection what waits is dropped: only the last frame,
        which says why it is closed, is still tried.
        """
        if isinstance(connection.role, Closing):
            return
        if connection.is_blocked:
            connection.frames.clear()
            connection.waiting_bytes = 0
            connection.is_blocked = False
        if frame is not None:
            self.send(connection, frame)
        connection.role = Closing()
        self._closing.append(connection.id)

    def set_blocked(self, conn: int, *, blocked: bool) -> None:
        """Note whether the host can take output."""
        connection = self._connections.get(conn)
        if connection is None or isinstance(connection.role, Closing):
            return
        connection.is_blocked = blocked
        if not blocked and connection.frames:
            self._ready.append(conn)

    def poll_transmit(self) -> FrameTransmit | None:
        """Return the next frame that the host can send."""
        while self._ready:
            connection = self._connections.get(self._ready[0])
            if connection is None or connection.is_blocked or not connection.frames:
                self._ready.popleft()
                continue
            frame = connection.frames.popleft()
            connection.waiting_bytes -= size_of(frame)
            encoded = frame if isinstance(frame, bytes) else frame.encode()
            return FrameTransmit(connection.id, encoded)
        return None

    def poll_event(self) -> ConnectionFinished | None:
        """Return a connection whose output has been taken and that ends now."""
        for _ in range(len(self._closing)):
            conn = self._closing.popleft()
            connection = self._connections.get(conn)
            if connection is None:
                continue
            if connection.frames:
                self._closing.append(conn)
                continue
            del self._connections[conn]
            return ConnectionFinished(conn)
        return None


def size_of(frame: Frame) -> int:
    """Return how many bytes a frame takes on its connection, at most."""
    return len(frame) if isinstance(frame, bytes) else frame.size
