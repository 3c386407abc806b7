"""What the connections of one node are for: the manager's, links, or not known yet.

A node listens at one port. Who connects is a stranger until its first frame tells what the
connection is for; strangers that say nothing, or are too many, are sent away. Where the node
connects itself, the purposes of connections to one address are kept in the order in which they
were asked for. Those that are links are in ``links``.
"""

from __future__ import annotations

from collections import deque

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.frames import FRAME_BYTES_MAX
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.events import Dial

STRANGERS_MAX = 256
"""Connections that have not said what they are for; past it the oldest is ended."""

STRANGER_BYTES_MAX = 64 << 10
"""The longest first frame."""


class Connections:
    """The connections of one node that are no links, and those that are to be made."""

    def __init__(self) -> None:
        self.strangers: dict[int, float] = {}
        """Connections that have not said what they are for, and when they were made."""
        self.of_manager: dict[int, None] = {}
        self.closes: deque[int] = deque()
        """Connections to end."""
        self.dials: deque[str] = deque()
        """Addresses to connect to."""
        self._wanted: dict[str, deque[Dial | Link]] = {}
        """What connections to an address are for, in the order in which they were asked for."""

    def handle_accepted(self, conn: int, now: float) -> None:
        """Somebody has connected."""
        self.strangers[conn] = now
        if len(self.strangers) > STRANGERS_MAX:
            self._send_away(next(iter(self.strangers)))

    def frame_bytes_max(self, conn: int) -> int:
        """Return how long a frame of a connection may be; one not known here is a link."""
        if conn in self.strangers:
            return STRANGER_BYTES_MAX
        return say.FRAME_BYTES_MAX if conn in self.of_manager else FRAME_BYTES_MAX

    def dial(self, address: str, purpose: Dial | Link) -> None:
        """Have a connection made."""
        self._wanted.setdefault(address, deque()).append(purpose)
        self.dials.append(address)

    def take_purpose(self, address: str) -> Dial | Link:
        """Return what a connection to an address is for that was made, or could not be."""
        waiting = self._wanted[address]
        purpose = waiting.popleft()
        if not waiting:
            del self._wanted[address]
        return purpose

    def check(self, now: float, silent_s: float) -> None:
        """Send strangers away who have said nothing for so long."""
        for conn, since in list(self.strangers.items()):
            if now - since > silent_s:
                self._send_away(conn)

    def _send_away(self, conn: int) -> None:
        del self.strangers[conn]
        self.closes.append(conn)
