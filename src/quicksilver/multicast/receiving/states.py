"""What becomes of a stream's packets that arrive."""

from __future__ import annotations

from collections import deque

import msgspec

from quicksilver.wire.packets import Body

NEWS = b"news"
"""A barrier: the GMS has yet to say which views this node was in."""


class InOrder:
    """Packets are delivered as soon as all earlier ones are."""

    __slots__ = ()


class Holding(msgspec.Struct):
    """Packets are held: older streams must be delivered first, or a large message has no room."""

    barriers: set[bytes] = msgspec.field(default_factory=set)
    """The keys of those streams, ``ROOM`` and ``NEWS``; never empty between two inputs."""
    held: deque[tuple[Body, int]] = msgspec.field(default_factory=deque)
    """Packets whose turn it would be, and what each is charged in the waiting room."""
    end: int = -1
    """Where the stream ends, if that is known; else -1."""


class Ending(msgspec.Struct, frozen=True):
    """Packets are delivered until the stream ends: its sender is dead, and a packet is lost
    for good. What lies before may still be repaired."""

    end: int


class Over(msgspec.Struct, frozen=True):
    """Packets are dropped: everything that was to come has come."""

    end: int
    is_broken: bool = False
    """True when packets that were held will never be delivered."""


State = InOrder | Holding | Ending | Over
IN_ORDER = InOrder()
