"""The links of one node: connections over which frames of channels and of agents go.

A node makes one link to each node that it has something to say to, and takes those that
others make. Whoever makes a link asks now and then whether the other end is still there. A
link that takes no more is full until enough of it has left, so that little waits in it: what
is sent later goes by the newest state.

Whoever cannot be dialled makes the link itself, and what is to be said to it goes over that.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.frames import Probe, encode

LINK_BYTES_MAX = 256 << 10
"""What may wait in a link before it counts as full."""

OUTPUT_BYTES_MAX = 32 << 20
"""What may wait in a link in the end: whoever takes nothing is cut off."""

LINKS_MAX = 10_000
"""Links that others have made."""

SILENT_S = 10.0
"""A link over which nothing has passed for so long, though it was asked, is lost."""

IDLE_S = 60.0
"""A link that was not needed for so long is ended."""

_PROBE = encode(Probe())


@dataclass(slots=True)
class _Conn:
    """A connection that is a link."""

    is_ours: bool
    heard_at: float
    """When something came, or some of much that waited has left."""
    unsent: int = 0
    where: Link | None = None
    """Which link it is to this node, if this node says things over it first."""
    names: dict[str, None] = field(default_factory=dict)
    """The nodes that have named themselves on it."""


@dataclass(slots=True)
class _Way:
    """A link that this node uses."""

    used_at: float
    conn: int | None = None
    """None while the connection is made."""
    waiting: list[bytes] = field(default_factory=list)
    """What is to be said then."""
    waiting_bytes: int = 0


class Links:
    """All links of one node. Lost ones are told by return values."""

    def __init__(self, counters: Counter[str]) -> None:
        self.dials: deque[Link] = deque()
        """Links that are to be made."""
        self.closes: deque[int] = deque()
        self.out: deque[tuple[int, bytes]] = deque()
        self._counters = counters
        self._conns: dict[int, _Conn] = {}
        self._ways: dict[Link, _Way] = {}
        self._names: dict[str, int] = {}
        """Links that others have made, by the nodes that have named themselves there."""

    def __contains__(self, conn: int) -> bool:
        return conn in self._conns

    def __bool__(self) -> bool:
        return bool(self._conns)

    # Connections

    def handle_accepted(self, conn: int, now: float) -> bool:
        """A connection that another node made is a link; False: there are too many."""
        if sum(not each.is_ours for each in self._conns.values()) >= LINKS_MAX:
            self._counters["links_refused"] += 1
            return False
        self._conns[conn] = _Conn(is_ours=False, heard_at=now)
        return True

    def handle_made(self, where: Link, conn: int | None, now: float) -> bool:
        """A link is there, or could not be made (None); return whether it can be used."""
        way = self._ways.get(where)
        if conn is None:
            self._ways.pop(where, None)
            return False
        if way is None or way.conn is not None:
            self.closes.append(conn)
            return False
        way.conn = conn
        self._conns[conn] = _Conn(is_ours=True, heard_at=now, where=where)
        for data in way.waiting:
            self.put(conn, data)
        way.waiting.clear()
        return True

    def attach(self, conn: int, node: str) -> Link:
        """Whoever made a link wants to be sent something over it; return the link to it."""
        state = self._conns[conn]
        if state.where is None:
            state.where = Link("tcp", f"connection {conn}", node)
            self._ways[state.where] = _Way(state.heard_at, conn)
        return state.where

    def handle_closed(self, conn: int) -> Link | None:
        """A connection has ended; return the link that is lost with it."""
        state = self._conns.pop(conn)
        for name in state.names:
            del self._names[name]
        if state.where is not None:
            self._ways.pop(state.where, None)
        return state.where

    def handle_heard(self, conn: int, now: float) -> None:
        self._conns[conn].heard_at = now

    def handle_named(self, conn: int, node: str) -> None:
        """A node has said its name on a link that it made: the newest one counts."""
        state = self._conns[conn]
        if state.is_ours or self._names.get(node) == conn:
            return
        if node in self._names:
            del self._conns[self._names[node]].names[node]
        self._names[node] = conn
        state.names[node] = None

    def handle_sent(self, conn: int, size: int, now: float) -> Link | None:
        """So much of what waited has left; return the link if it is not full any more."""
        state = self._conns.get(conn)
        if state is None:
            return None
        was_full = state.unsent > LINK_BYTES_MAX // 2
        state.unsent = max(0, state.unsent - size)
        if not was_full:
            return None  # A little is taken even if the other end is gone: nothing follows.
        state.heard_at = now
        return state.where if state.unsent <= LINK_BYTES_MAX // 2 else None

    def find(self, conn: int) -> Link | None:
        """Return which link of this node a connection is."""
        return self._conns[conn].where

    # Saying things

    def send(self, where: Link, data: bytes, now: float) -> None:
        """Say something to a node; a link to it is made if there is none."""
        if where not in self._ways and not where.address:
            conn = self._names.get(where.node)
            if conn is None:
                self._counters["unreachable"] += 1
            else:
                self.put(conn, data)
            return
        way = self._ways.get(where)
        if way is None:
            way = self._ways[where] = _Way(now)
            self.dials.append(where)
        way.used_at = now
        if way.conn is not None:
            self.put(way.conn, data)
        elif way.waiting_bytes + len(data) > LINK_BYTES_MAX and way.waiting:
            self._counters["link_dropped"] += 1
        else:
            way.waiting.append(data)
            way.waiting_bytes += len(data)

    def put(self, conn: int, data: bytes) -> None:
        """Say something over a connection; whoever takes nothing is cut off."""
        state = self._conns.get(conn)
        if state is None:
            return
        if state.unsent > OUTPUT_BYTES_MAX:
            self._counters["link_dropped"] += 1
            return
        state.unsent += len(data)
        self.out.append((conn, data))

    def is_full(self, where: Link) -> bool:
        """Whether a link takes nothing for now: it is not there yet, or much waits in it."""
        way = self._ways.get(where)
        if way is None:
            return False
        return way.conn is None or self._conns[way.conn].unsent > LINK_BYTES_MAX

    # Health

    def check(self, now: float, is_needed: dict[Link, bool]) -> list[int]:
        """Ask whether others are still there; return links to end: silent ones and idle ones.

        ``is_needed``: whether a link is needed, of those that this node uses.
        """
        ended = []
        for conn, state in self._conns.items():
            patience_s = SILENT_S if state.is_ours else 3.0 * SILENT_S
            if now - state.heard_at > patience_s or state.unsent > OUTPUT_BYTES_MAX:
                self._counters["links_silent"] += 1
                ended.append(conn)
            elif not state.is_ours:
                continue
            elif state.where is not None and self._is_idle(state.where, now, is_needed):
                ended.append(conn)
            elif state.unsent <= LINK_BYTES_MAX // 2:
                self.put(conn, _PROBE)
        return ended

    def used(self) -> list[Link]:
        """Return the links that this node uses."""
        return list(self._ways)

    def answer_probe(self, conn: int) -> None:
        """Say that this node is there, to who asked; who made the link has asked itself."""
        if not self._conns[conn].is_ours:
            self.put(conn, _PROBE)

    def _is_idle(self, where: Link, now: float, is_needed: dict[Link, bool]) -> bool:
        return not is_needed.get(where, False) and now - self._ways[where].used_at > IDLE_S
