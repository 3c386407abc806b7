"""Messages that application threads have queued: what they see of a lane."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from quicksilver.multicast.sending.outbox import Outbox


class SendQueue:
    """A queue with a limit, in the order in which messages were sent.

    Application threads append to ``outbox`` and lower ``room`` by what they
    added; the core thread takes from it and raises ``room``. No lock guards the
    two: CPython switches threads only after calls and at backward jumps, and
    between reading and writing ``room`` there is neither (the length is known
    before), so none gets lost. Taking and giving a lock costs 150 ns.
    """

    def __init__(self, room_max: int) -> None:
        self.outbox: Outbox[Any] = Outbox()
        self.room_max = room_max
        self.room = room_max
        """Bytes that may still be queued; senders wait while it is negative."""
        self.is_blocked = False
        """True while its next message has to wait: to wake the core would not help."""
        self.on_room: deque[Callable[[], None]] = deque()
        """Called, each once, when the queue has room again."""

    def queued_bytes(self) -> int:
        """Return how much waits here."""
        return self.room_max - self.room

    def tell_room(self) -> None:
        """Call whoever waits for room, if half of it is free (core thread)."""
        if self.room < self.room_max // 2:
            return
        for _ in range(len(self.on_room)):  # whoever uses the room up waits for it again
            if self.on_room:
                self.on_room.popleft()()
