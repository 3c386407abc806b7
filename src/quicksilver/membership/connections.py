"""Connections of a membership service: what each is for, and its output.

Output waits here, not in the host: the host takes a frame when the connection
can carry it, and the service sees who falls behind.
"""

from __future__ import annotations

from collections import Counter, deque
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
    addresses: frozenset[str]
    """Those that the other side is known to have."""
    role: Role = field(default_factory=Greeting)
    frames: deque[Frame] = field(default_factory=deque)
    waiting_bytes: int = 0
    taken_bytes: int = 0
    """Length of the frame that the host took last: what it may hold while it is blocked."""
    is_blocked: bool = False
    """The host cannot send more at the moment."""
    charged_bytes: int = 0
    """Its part of the table's ``blocked_bytes``."""

    @property
    def is_clear(self) -> bool:
        """True when nothing waits to be sent."""
        return not self.is_blocked and not self.frames


class ConnectionTable:
    """All connections, and in which order their output leaves."""

    def __init__(self) -> None:
        self._connections: dict[int, Connection] = {}
        self._ready: deque[int] = deque()
        """Connections to look at for output; may hold some that have none."""
        self._closing: deque[int] = deque()
        self._aborted: set[int] = set()
        """Connections among those that close whose last frames are not waited for."""
        self._roles: Counter[type[Role]] = Counter()
        self._strangers: dict[int, None] = {}
        """Connections that have said nothing yet, oldest first."""
        self.blocked_bytes = 0
        """What waits for connections that cannot take it, in all."""

    def __len__(self) -> int:
        return len(self._connections)

    def get(self, conn: int) -> Connection | None:
        """Return a connection that has not been closed, or None."""
        return self._connections.get(conn)

    def count(self, role: type[Role]) -> int:
        """Return how many connections are in a role."""
        return self._roles[role]

    def oldest_stranger(self) -> Connection | None:
        """Return the connection that has said nothing for the longest time."""
        return self._connections[next(iter(self._strangers))] if self._strangers else None

    def furthest_behind(self) -> Connection | None:
        """Return the blocked connection for which most is waiting."""
        behind = [c for c in self._connections.values() if c.charged_bytes]
        return max(behind, key=lambda c: (c.charged_bytes, -c.id), default=None)

    def add(self, conn: int, addresses: frozenset[str]) -> Connection:
        """Note a new connection."""
        assert conn not in self._connections
        connection = Connection(conn, addresses)
        self._connections[conn] = connection
        self._roles[Greeting] += 1
        self._strangers[conn] = None
        return connection

    def set_role(self, connection: Connection, role: Role) -> None:
        """A connection is for something else from now on."""
        self._roles[type(connection.role)] -= 1
        self._roles[type(role)] += 1
        self._strangers.pop(connection.id, None)
        connection.role = role

    def remove(self, conn: int) -> Connection | None:
        """Forget a connection that the host lost, with all its output."""
        connection = self._connections.pop(conn, None)
        if connection is not None:
            self._roles[type(connection.role)] -= 1
            self._strangers.pop(conn, None)
            self._aborted.discard(conn)
            self.blocked_bytes -= connection.charged_bytes
            connection.charged_bytes = 0
        return connection

    def send(self, connection: Connection, frame: Frame) -> None:
        """Queue a frame."""
        assert not isinstance(connection.role, Closing)
        connection.frames.append(frame)
        connection.waiting_bytes += size_of(frame)
        if not connection.is_blocked:
            self._ready.append(connection.id)
        self._charge(connection)

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
            self._charge(connection)
        if frame is not None:
            self.send(connection, frame)
        self.set_role(connection, Closing())
        self._closing.append(connection.id)

    def abort(self, connection: Connection) -> None:
        """Close at once, with all that waits here and in the host."""
        self.close(connection)
        connection.frames.clear()
        connection.waiting_bytes = 0
        self._aborted.add(connection.id)

    def set_blocked(self, conn: int, *, blocked: bool) -> None:
        """Note whether the host can take output."""
        connection = self._connections.get(conn)
        if connection is None or isinstance(connection.role, Closing):
            return
        connection.is_blocked = blocked
        self._charge(connection)
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
            connection.taken_bytes = size_of(frame)
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
            at_once = conn in self._aborted
            self.remove(conn)
            return ConnectionFinished(conn, at_once)
        return None

    def _charge(self, connection: Connection) -> None:
        held = 0
        if connection.is_blocked:
            held = connection.waiting_bytes + connection.taken_bytes
        self.blocked_bytes += held - connection.charged_bytes
        connection.charged_bytes = held


def size_of(frame: Frame) -> int:
    """Return how many bytes a frame takes on its connection, at most."""
    return len(frame) if isinstance(frame, bytes) else frame.size
