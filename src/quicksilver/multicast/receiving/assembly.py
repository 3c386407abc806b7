"""Large messages, put together from the packets that carry their pieces.

A sender has at most one of them under way in a stream. It is let in with all that it will
take: whoever is in can become whole, and two that are halfway never wait for each other.
Who finds no room waits, first come, first served, and its stream with it: packets that
follow are held, and when there is no room for these either, the sender is not told that
they have come, and stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quicksilver.multicast.receiving.memory import Budget
from quicksilver.wire.packets import MESSAGE_BYTES_MAX, Fragment

if TYPE_CHECKING:
    from quicksilver.multicast.receiving.stream import ReceiveStream

ROOM = b"room"
"""The barrier of a stream whose next message waits for room; no stream has such a key."""

PER_MESSAGE_BYTES = 1024
"""What a message takes besides its bytes until it is whole, tables included."""

LOOK_S = 1.0
"""How often it is looked for room while anybody waits for it."""


def bytes_for(total: int) -> int:
    """Return what a message of a length is charged: buffers grow by an eighth at a time."""
    return total + total // 8 + PER_MESSAGE_BYTES


BYTES_MAX_LEAST = bytes_for(MESSAGE_BYTES_MAX)
"""With less room a longest message would wait for ever."""


class Assembly:
    """A large message that is not whole yet."""

    __slots__ = ("_buffer", "_group", "_sequence", "total")

    def __init__(self, first: Fragment) -> None:
        self.total = first.total
        self._group = first.group
        self._sequence = first.sequence
        # One buffer, not a list of pieces: a liar's have one byte each.
        self._buffer = bytearray()

    def __len__(self) -> int:
        """Return how many bytes have come."""
        return len(self._buffer)

    def add(self, piece: Fragment) -> bool:
        """Take the next piece; False for one that no honest sender sends."""
        name = (piece.group, piece.sequence, piece.total, piece.offset)
        if name != (self._group, self._sequence, self.total, len(self._buffer)):
            return False
        self._buffer += piece.chunk
        return True

    def is_whole(self) -> bool:
        return len(self._buffer) >= self.total

    def payload(self) -> bytes:
        return bytes(self._buffer)


class AssemblyRoom(Budget):
    """The room for large messages that are not whole yet, of all streams of a node."""

    __slots__ = ("_holders", "_look_at", "_seen", "_served", "_waiting")

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._holders: dict[ReceiveStream, int] = {}
        """What each stream is charged."""
        self._waiting: dict[ReceiveStream, int] = {}
        """What streams wait for, in the order in which they came."""
        self._seen: dict[ReceiveStream, tuple[int, float]] = {}
        """How much of each message had come, and since when it is no more."""
        self._look_at: float | None = None
        self._served: ReceiveStream | None = None
        """Whose turn it is: it need not wait behind the others."""

    # Streams

    def admits(self, stream: ReceiveStream, total: int) -> bool:
        """Reserve what a message takes; False: the stream is called when there is room."""
        size = bytes_for(total)
        is_next = not self._waiting or stream is self._served
        if is_next and self.used + size <= self.limit:
            self._holders[stream] = size
            self.used += size
            return True
        self._waiting[stream] = size
        return False

    def release(self, stream: ReceiveStream) -> None:
        """A stream has no large message under way any more: others may have."""
        self.used -= self._holders.pop(stream, 0)
        self._seen.pop(stream, None)
        self._resume()

    def forget(self, stream: ReceiveStream) -> None:
        """A stream is over: it neither holds nor waits for anything."""
        self._waiting.pop(stream, None)
        self.release(stream)

    def _resume(self) -> None:
        """Let those go on who find room now, in their order."""
        if self._served is not None:
            return
        try:
            while self._waiting:
                stream, size = next(iter(self._waiting.items()))
                if self.used + size > self.limit:
                    break
                del self._waiting[stream]
                self._served = stream
                stream.handle_room()
        finally:
            self._served = None

    def clear(self) -> None:
        """The incarnation is over: nothing that waits is delivered any more."""
        self._waiting.clear()
        self._seen.clear()
        self._look_at = None

    # Time

    def next_timeout(self) -> float | None:
        """When to look whether those who hold room still need it; None while nobody waits."""
        if not self._waiting:
            return None
        return 0.0 if self._look_at is None else self._look_at

    def handle_timeout(self, now: float, patience_s: float) -> int | None:
        """Take room back from the dead; return the sender of what does not grow for too long."""
        due = self.next_timeout()
        if due is None or now < due:
            return None
        self._look_at = now + LOOK_S
        for stream in list(self._holders):
            if stream.sender_failed and (stream.is_over() or stream.is_settled()):
                stream.drop_assembly()
        for stream in self._holders:
            size = stream.assembled_bytes()
            before, since = self._seen.get(stream, (-1, now))
            if size != before:
                self._seen[stream] = (size, now)
            elif self._waiting and now - since >= patience_s:
                return stream.sender
        return None
