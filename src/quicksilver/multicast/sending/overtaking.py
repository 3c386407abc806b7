"""Which member a sender waits for, and when to go on without it.

For streams whose groups do not wait for slow members (``behind.py``). A sender whose window is
full, again and again, for the sake of always the same member tells that member that it is
overtaken. The member then reports itself as not waited for, until it has caught up.
"""

from __future__ import annotations

HELD_UP_S = 0.1
"""A member that alone keeps a window full for so long is slow. Shorter pauses (a collection of
garbage, a turn of another process) happen to everybody."""

AGAIN_S = 0.05
"""How often a member is told while it still holds the stream up: the word may get lost."""


class HoldUp:
    """Who has kept a stream's window full lately."""

    __slots__ = ("_node", "_since", "_told_at", "overtaken")

    def __init__(self) -> None:
        self._node = 0
        self._since = 0.0
        self._told_at = -1.0
        self.overtaken: set[int] = set()
        """Who was told. Where one member is slow with tokens, others of its ring seem to hold the
        stream up now and then and are told as well: rounds go on to say nothing of the network."""

    def handle_ack(self, holds_up: int, now: float) -> int:
        """Take an acknowledgement; return the member to overtake, 0 for nobody.

        ``holds_up`` is the member for whose sake alone messages wait; 0: there is none.
        """
        if holds_up != self._node:
            self._node = holds_up
            self._since = now
        if not holds_up or now - self._since < HELD_UP_S or now < self._told_at + AGAIN_S:
            return 0
        self._told_at = now
        self.overtaken.add(holds_up)
        return holds_up
