"""A table that many people change: rows by key, and the protocol that bridges share.

A plain table, an SQLite table and a range of a spreadsheet can be participants of
one object: all speak of rows, and of two changes of one row the later one in the
channel's order counts, whole.

A bridge stands between a shared table and something that keeps rows itself, a database or
a file. Both sides change. What changed below is found by looking from time to time and
sent; what comes from the channel is written below. Of two changes of one row the
later in the channel's order counts, on both sides alike.

There is no echo. What the bridge writes below it knows, and does not find again.
A row that was changed below and is on its way is not written until it comes back:
until then what lies below is ahead of the channel, and what comes before it in
the order would be replaced by it anyway.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Final, Protocol, TypeAlias

import msgspec

from quicksilver.live.codec import (
    STATE_BYTES_MAX,
    UPDATE_BYTES_MAX,
    BadMessageError,
    Codec,
    Packed,
)
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.components.shared_object import SharedObject
from quicksilver.live.runtime.components import component
from quicksilver.live.services.identity import unique_number
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

ROWS_MAX: Final = 100_000
ROWS_BYTES_MAX: Final = 8 << 20
ROW_BYTES_MAX: Final = UPDATE_BYTES_MAX - 2048
COLUMNS_MAX: Final = 256
KEY_CHARACTERS_MAX: Final = 1000

Cell: TypeAlias = bool | int | float | str | bytes | None
Row: TypeAlias = dict[str, Cell]


class TableRequests(Protocol):
    """Events that users send to a table."""

    def put(self, key: str, row: Row) -> None:
        """Set a row, whole."""

    def remove(self, key: str) -> None:
        """Remove a row; nothing happens if it is not there."""


class TableChanges(Protocol):
    """Events that a table sends to its users."""

    def snapshot(self, rows: dict[str, Row]) -> None:
        """Take everything: at the beginning, and when the channel starts anew."""

    def changed(self, key: str, row: Row) -> None:
        """Hear that a row was set."""

    def removed(self, key: str) -> None:
        """Hear that a row was removed."""

    def refused(self, reason: str) -> None:
        """Hear that a request was not carried out."""

    def problem(self, text: str) -> None:
        """Hear that what lies below, a database or a file, could not follow."""


class RowPut(Packed, frozen=True, tag="put"):
    """Set a row."""

    origin: int
    number: int
    """The origin's own count of what it sends, or 0."""
    key: str
    row: dict[str, Any]
    """A row, once its cells are checked: msgspec cannot tell text from bytes in a union."""


class RowRemoved(Packed, frozen=True, tag="remove"):
    """Remove a row."""

    origin: int
    number: int
    key: str


Update: TypeAlias = RowPut | RowRemoved


def row_size(key: str, row: dict[str, Any]) -> int:
    """Return what a row takes of a table's room; raises BadMessageError if it cannot be one."""
    if not key or len(key) > KEY_CHARACTERS_MAX:
        raise BadMessageError("a key", f"has 1 to {KEY_CHARACTERS_MAX} characters")
    if len(row) > COLUMNS_MAX:
        raise BadMessageError(f"row {key}", f"has more than {COLUMNS_MAX} columns")
    for column, cell in row.items():
        if not isinstance(cell, bool | int | float | str | bytes | None):
            problem = f"is a {type(cell).__name__} in column {column!r:.40}"
            raise BadMessageError(f"row {key}", problem)
    try:
        size = len(msgspec.msgpack.encode((key, row)))
    except (TypeError, ValueError, OverflowError) as error:
        raise BadMessageError(f"row {key}", f"cannot be sent: {error}") from error
    if size > ROW_BYTES_MAX:
        raise BadMessageError(f"row {key}", f"has {size} bytes of at most {ROW_BYTES_MAX}")
    return size


class SharedTable(SharedObject[Update, dict[str, Row]]):
    """What a table and the bridges to one share."""

    updates: ClassVar = Codec[Update](Update, "a row", UPDATE_BYTES_MAX)
    states: ClassVar = Codec[dict[str, Row]](dict[str, dict[str, Any]], "a table", STATE_BYTES_MAX)

    table = endpoint(TableRequests, TableChanges, provides=[("delivery", "total")], name="Table")

    def __init__(self, channel: Given[Ref[CheckpointedChannel]]) -> None:
        super().__init__(channel)
        self.me = unique_number(self.context)
        self.rows: dict[str, Row] = {}
        """All rows, after all updates that came so far."""
        self._sizes: dict[str, int] = {}
        self._bytes = 0

    # What a bridge does besides

    def handle_update(self, update: Update, problem: str | None) -> None:
        """Take note of an update, and whether it was refused."""

    def check_request(self, key: str, row: Row) -> None:
        """Refuse a row that the user wants; raises BadMessageError."""

    # The user

    def table_put(self, key: str, row: Row) -> None:
        """Set a row for everybody."""
        try:
            row_size(key, row)
            self.check_request(key, row)
        except BadMessageError as error:
            self.refuse(str(error))
            return
        self.submit(RowPut(self.me, 0, key, row))

    def table_remove(self, key: str) -> None:
        """Remove a row for everybody."""
        self.submit(RowRemoved(self.me, 0, key))

    def table_connected(self) -> None:
        """Begin with all that is there."""
        if self.is_ready:
            self.announce()

    # The state

    def load(self, state: dict[str, Row] | None) -> None:
        self.rows, self._sizes, self._bytes = {}, {}, 0
        for key, row in (state or {}).items():
            self._set(key, row)

    def save(self) -> dict[str, Row]:
        return self.rows

    def apply(self, update: Update) -> None:
        key = update.key
        try:
            if isinstance(update, RowPut):
                self._set(key, update.row)
        except BadMessageError as error:
            self.handle_update(update, str(error))
            raise
        if isinstance(update, RowPut):
            self.table.changed(key, update.row)
        elif key in self.rows:
            del self.rows[key]
            self._bytes -= self._sizes.pop(key)
            self.table.removed(key)
        self.handle_update(update, None)

    def announce(self) -> None:
        self.table.snapshot(dict(self.rows))

    def refuse(self, reason: str) -> None:
        self.table.refused(reason)

    def _set(self, key: str, row: Row) -> None:
        size = row_size(key, row)
        grown = self._bytes + size - self._sizes.get(key, 0)
        if grown > ROWS_BYTES_MAX or (len(self.rows) >= ROWS_MAX and key not in self.rows):
            raise BadMessageError("the table", "is full")
        self._bytes = grown
        self._sizes[key] = size
        self.rows[key] = row


@component("quicksilver.table", type_name="Table")
@live_object(title="Table")
class Table(SharedTable):
    """a table that many people change, of any columns

    At most 100,000 rows and 8 MiB, 62 KiB a row; the later of two changes counts.
    """

    def __init__(self, channel: Given[Ref[CheckpointedChannel]]) -> None:
        super().__init__(channel)


POLL_S_MIN: Final = 0.01
ON_ITS_WAY_MAX: Final = 500
"""Rows that are sent before the first of them has come back."""


class TableBridge(SharedTable):
    """A shared table with something below it; subclasses look there and write there."""

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
