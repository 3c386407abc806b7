"""The receive queue of a group: batches and views, between core and application.

Byte counts are split in two, one written by each side, so that no lock is
needed. Only groups that were joined have one.
"""

from __future__ import annotations

from collections import deque

from quicksilver.node.messages import Batch, View
from quicksilver.node.options import Overflow
from quicksilver.wire.envelope import envelope_bytes
from quicksilver.wire.packets import Messages

PER_MESSAGE_BYTES = 64
"""What a queued message costs besides its payload, roughly."""

VIEWS_KEPT_MAX = 1024


class Inbox:
    """Bounded by bytes; what happens at the bound is the overflow policy."""

    __slots__ = (
        "_batches",
        "_in_bytes",
        "_out_bytes",
        "bytes_max",
        "dropped",
        "is_pausing",
        "overflow",
        "views",
    )

    def __init__(self, bytes_max: int, overflow: Overflow) -> None:
        self.bytes_max = bytes_max
        self.overflow = overflow
        self.dropped = 0
        """Messages lost because the queue was full and the policy drops."""
        self.is_pausing = False
        """True while the node leaves data in the kernel because of this queue."""
        self.views: deque[View] = deque(maxlen=VIEWS_KEPT_MAX)
        self._batches: deque[Batch] = deque()
        self._in_bytes = 0
        self._out_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def bytes(self) -> int:
        """Bytes received and not yet taken."""
        return self._in_bytes - self._out_bytes

    def put(self, batch: Batch) -> bool:
        """Queue a batch (core thread); True when the senders must be held back."""
        size = cost(batch)
        if self.bytes + size > self.bytes_max and self.overflow != "block":
            if self.overflow == "drop_newest":
                self.dropped += len(batch)
                return False
            self._drop_oldest(size)
        self._in_bytes += size
        self._batches.append(batch)
        return self.overflow == "block" and self.bytes > self.bytes_max

    def _drop_oldest(self, size: int) -> None:
        while self.bytes + size > self.bytes_max:
            try:
                old = self._batches.popleft()
            except IndexError:
                return
            self.dropped += len(old)
            self._in_bytes -= cost(old)

    def take(self) -> Batch | None:
        """Remove the next batch (application's thread)."""
        try:
            batch = self._batches.popleft()
        except IndexError:
            return None
        size = cost(batch)
        self._out_bytes += size
        return batch

    def has_room(self) -> bool:
        """True when a held-back node may go on."""
        return self.bytes <= self.bytes_max // 2


def cost(batch: Batch | Messages) -> int:
    """Return what a batch counts for in a queue."""
    size = sum(map(len, batch.payloads)) + PER_MESSAGE_BYTES * len(batch.payloads)
    if type(batch) is Batch and batch.envelopes is not None:
        size += sum(map(envelope_bytes, batch.envelopes))
    return size
