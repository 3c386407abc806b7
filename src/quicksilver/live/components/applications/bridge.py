"""Between a shared table and something that keeps rows itself: a database, a file.

Both sides change. What changed below is found by looking from time to time and
sent; what comes from the channel is written below. Of two changes of one row the
later in the channel's order counts, on both sides alike.

There is no echo. What the bridge writes below it knows, and does not find again.
A row that was changed below and is on its way is not written until it comes back:
until then what lies below is ahead of the channel, and what comes before it in
the order would be replaced by it anyway.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from quicksilver.live.components.applications.codec import BadMessageError
from quicksilver.live.components.applications.table import (
    Row,
    RowPut,
    RowRemoved,
    TableReplica,
    Update,
    row_size,
)
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.types.declare import Given
from quicksilver.live.types.reflect import Ref

POLL_S_MIN: Final = 0.01
ON_ITS_WAY_MAX: Final = 500
"""Rows that are sent before the first of them has come back."""


class TableBridge(TableReplica):
    """A table replica with something below it; subclasses look there and write there."""

    def __init__(self, channel: Given[Ref[CheckpointedChannel]], poll_s: float) -> None:
        if poll_s < POLL_S_MIN:
            raise ValueError(f"poll_s is {poll_s}: give at least {POLL_S_MIN}")
        super().__init__(channel)
        self._poll_s = poll_s
        self.on_its_way: dict[str, int] = {}
        """Rows that were changed below and sent, by the last number they were sent with."""
        self.dirty: set[str] = set()
        """Rows that may have to be written below."""
        self._is_flush_due = False
        self._is_polling = False

    # What subclasses do

    @abstractmethod
    def look(self) -> None:
        """Find what changed below, and ``send_local`` it."""

    @abstractmethod
    def write(self, keys: list[str]) -> None:
        """Write rows below, after looking; what cannot be written now is put back."""

    @abstractmethod
    def begin(self, is_new: bool) -> None:
        """Compare all that is below with all rows."""

    # What they use

    @property
    def may_send(self) -> bool:
        """Whether another row may be sent."""
        return len(self.on_its_way) < ON_ITS_WAY_MAX

    def send_local(self, key: str, row: Row | None, number: int) -> bool:
        """Send a row that changed below; None: it was removed. Returns whether it was sent."""
        if key not in self.on_its_way and self.rows.get(key) == row:
            return False
        if row is not None:
            try:
                row_size(key, row)
            except BadMessageError as error:
                self.table.problem(f"{error}: it is not shared")
                return False
        self.on_its_way[key] = number
        if row is None:
            self.submit(RowRemoved(self.me, number, key))
        else:
            self.submit(RowPut(self.me, number, key, row))
        return True

    def flush_soon(self) -> None:
        """Write what is dirty, after what is under way."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self.context.post(self._flush)

    # The channel

    def handle_initialized(self, is_new: bool) -> None:
        """Begin, or begin again: what was on its way is looked for again."""
        self.on_its_way.clear()
        self.dirty.clear()
        self.begin(is_new)
        if not self._is_polling:
            self._is_polling = True
            self.context.call_later(self._poll_s, self._poll)

    def handle_update(self, update: Update, problem: str | None) -> None:
        """Write what came, unless something later is on its way from here."""
        key = update.key
        if update.origin == self.me and update.number:
            self.handle_returned(update.number)
            if self.on_its_way.get(key) == update.number:
                del self.on_its_way[key]
            if problem is not None:
                self.table.problem(f"row {key} is not shared: {problem}")
        if problem is None:
            self.dirty.add(key)
        self.flush_soon()

    def handle_returned(self, number: int) -> None:
        """Take note that a row that was sent came back: it will not be lost any more."""

    def _poll(self) -> None:
        self.look()
        if self.dirty:
            self._flush()
        self.context.call_later(self._poll_s, self._poll)

    def _flush(self) -> None:
        self._is_flush_due = False
        keys = sorted(self.dirty)
        self.dirty.clear()
        if keys:
            self.write(keys)
