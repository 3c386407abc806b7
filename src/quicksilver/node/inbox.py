"""The receive queue of a group: batches and views, between core and application.

Byte counts are split in two, one written by each side, so that no lock is
needed. Only groups that were joined have one.
"""

from __future__ import annotations

from collections import deque

from quicksilver.node.messages import Batch, View
from quicksilver.node.options import Overflow
from quicksilver.wire.envelope import distinct, envelope_bytes
from quicksilver.wire.packets import Messages

PER_MESSAGE_BYTES = 64
"""What a queued message costs besides its payload, roughly."""

VIEWS_KEPT_MAX = 1024
"""Views of one group that wait to be taken."""

VIEWS_BYTES_MAX = 4 << 20
"""What views that wait take in all groups of a node, besides the newest one of each."""

PER_VIEW_BYTES = 256
PER_MEMBER_BYTES = 24
"""What a view that waits takes, roughly: itself, and its lists of numbers and names."""


class Views(deque[View]):
    """The views of one group that wait to be taken."""

    __slots__ = ("noted",)

    def __init__(self) -> None:
        super().__init__(maxlen=VIEWS_KEPT_MAX)
        self.noted = 0
        """How many of the views that ``KeptViews`` remembers are of this group, taken or not."""


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
        self.views = Views()
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
        size += sum(map(envelope_bytes, distinct(batch.envelopes)))
    return size


class KeptViews:
    """Keeps the views of all groups of a node until they are taken, the newest ones.

    Most applications never take any. With thousands of groups, a limit for each alone would
    let the views of one node grow to hundreds of megabytes as others come and go. Core thread.
    """

    def __init__(self, bytes_max: int = VIEWS_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._noted: deque[tuple[Views, int]] = deque()
        """The newest views, oldest first: among which they wait, and what each takes."""

    def put(self, views: Views, view: View) -> None:
        """Queue a view, and drop the oldest ones if that is too much."""
        size = PER_VIEW_BYTES + PER_MEMBER_BYTES * len(view.members)
        views.append(view)
        views.noted += 1
        self._noted.append((views, size))
        self._bytes += size
        while self._bytes > self._bytes_max:
            oldest, size = self._noted.popleft()
            self._bytes -= size
            oldest.noted -= 1
            _drop_unnoted(oldest)
        _drop_unnoted(views)


def _drop_unnoted(views: Views) -> None:
    """Drop views that are too old; the newest one stays, which its group has anyway."""
    while len(views) > max(1, views.noted):
        try:
            view = views.popleft()
        except IndexError:
            return  # the application has taken them meanwhile
        if not views:
            views.append(view)  # it has taken all the others
