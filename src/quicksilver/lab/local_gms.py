"""A GMS of this machine that keeps its state in a file and can be killed and started again."""

from __future__ import annotations

from pathlib import Path

from quicksilver.lab.processes import Child, Children, GmsReady, free_udp_port

READY_S = 90.0
"""A machine with fewer cores than processes starts them slowly."""
HOST = "127.0.0.1"


class LocalGms:
    """One GMS after another, on the same port and file."""

    def __init__(self, children: Children, state: Path, *options: str) -> None:
        self.child: Child | None = None
        """None while it is down."""
        self.lives = 0
        self._children = children
        self._state = state
        self._options = options
        self._port = 0
        # A multicast port of its own keeps other clusters' packets away.
        self._multicast_port = free_udp_port()

    @property
    def address(self) -> tuple[str, int]:
        return HOST, self._port

    def start(self) -> None:
        """Start it; returns when it listens."""
        assert self.child is None
        ports = ("--port", str(self._port), "--multicast-port", str(self._multicast_port))
        where = ("--host", HOST, "--state", str(self._state), "--json")
        child = self._children.start_python(
            "gms", "quicksilver.cli.main", "gms", *ports, *where, *self._options
        )
        self._port = int(child.expect(GmsReady, READY_S).address.rpartition(":")[2])
        self.child = child
        self.lives += 1

    def kill(self) -> None:
        """End it at once, as a crash would."""
        child, self.child = self.child, None
        assert child is not None
        child.kill()
        self._children.release(child)
