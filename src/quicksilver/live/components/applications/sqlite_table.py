"""A table of an SQLite database as a live object: its changes go out, others' come in.

Types: NULL, INTEGER (64 bits), REAL, TEXT and BLOB are nothing, whole numbers,
numbers, text and bytes; there are no truth values. A row's key is its primary key,
as a JSON list.

When a bridge starts, rows that were changed while none ran are sent, and rows that
the channel never had. For all others the channel is right: its rows are written
here, and those that it had and has no more are removed. If the channel has no
state at all, everything is sent.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from quicksilver.live.components.applications.bridge import TableBridge
from quicksilver.live.components.applications.codec import BadMessageError
from quicksilver.live.components.applications.files import SharedFiles
from quicksilver.live.components.applications.sqlite_store import (
    SqliteStore,
    StoreBusyError,
    encode_key,
)
from quicksilver.live.components.applications.table import Row
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.runtime.components import component
from quicksilver.live.types.declare import Given, live_object
from quicksilver.live.types.reflect import Ref


@component("quicksilver.sqlite", type_name="SqliteTable")
@live_object(title="SqliteTable")
class SqliteTable(TableBridge):
    """a table of an SQLite database, whose changes are shared and which applies others'

    The table needs a primary key; all participants have the same columns. It is looked
    at every ``poll_s`` seconds.
    """

    def __init__(
        self,
        channel: Given[Ref[CheckpointedChannel]],
        path: Given[str],
        table: Given[str],
        poll_s: Given[float] = 0.5,
    ) -> None:
        super().__init__(channel, poll_s)
        self._store = SqliteStore(self.context.service(SharedFiles).find(path), table)
        self._sent = 0
        """The last entry of the journal that was sent."""
        self._returned = 0

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    # Beginning

    def begin(self, is_new: bool) -> None:
        """Compare the table with the channel's rows."""
        store = self._store
        self._sent = self._returned = 0
        store.forget_version()
        try:
            with store.writing():
                changed = {key for _, key in self._all_journal()}
                shared = set() if is_new else store.shared_keys()
                here: set[str] = set()
                for values, row in list(store.scan()):
                    key = self._key(values)
                    if key is None:
                        continue
                    here.add(key)
                    if key not in self.rows and key not in shared and values not in changed:
                        store.note(values)
                    elif self.rows.get(key) != row:
                        self.dirty.add(key)
                self.dirty |= self.rows.keys() - here
        except (StoreBusyError, sqlite3.Error) as error:
            self.table.problem(f"the database is busy, trying again: {error}")
            self.context.call_later(self._poll_s, lambda: self.begin(is_new))
            return
        self._send_journal()
        self.flush_soon()

    def _all_journal(self) -> list[tuple[int, tuple[Any, ...]]]:
        found: list[tuple[int, tuple[Any, ...]]] = []
        while more := self._store.read_journal(found[-1][0] if found else 0):
            found += more
        return found

    # From the database

    def look(self) -> None:
        """Send what others changed in the table."""
        try:
            if self._store.has_changed():
                self._send_journal()
                self._send_unnoted()
            self._forget()
        except (StoreBusyError, sqlite3.Error) as error:
            self._store.forget_version()
            self.table.problem(f"the database could not be read: {error}")

    def _send_journal(self) -> bool:
        """Send rows in the journal; return whether that was all."""
        while entries := self._store.read_journal(self._sent):
            last = {key: number for number, key in entries}
            for number, values in entries:
                if not self.may_send:
                    return False
                self._sent = number
                if last[values] == number:
                    self._send_row(values, number)
        return True

    def _send_row(self, values: tuple[Any, ...], number: int) -> None:
        key = self._key(values)
        is_sent = key is not None and self.send_local(key, self._store.find(values), number)
        if not is_sent and not self.on_its_way:
            self._returned = number  # nothing to wait for

    def _send_unnoted(self) -> None:
        """Find rows that vanished without a trigger: INSERT OR REPLACE can do that."""
        if not self._store.has_other_keys:
            return
        expected = self.rows.keys() - self.dirty - self.on_its_way.keys()
        missing = sorted(expected - {self._key(values) for values in self._store.scan_keys()})
        if missing:
            with self._store.writing():
                for key in missing:
                    self._store.note(self._values(key))
            self._send_journal()

    # From the channel

    def handle_returned(self, number: int) -> None:
        """An entry of the journal is with everybody: it need not be kept."""
        self._returned = max(self._returned, number)

    def _forget(self) -> None:
        if self._returned:
            with self._store.writing():
                self._store.forget_journal(self._returned)
            self._returned = 0

    def write(self, keys: list[str]) -> None:
        """Write rows into the table."""
        store = self._store
        try:
            with store.writing():
                # What others changed until now goes first, or it would be overwritten unseen.
                if not self._send_journal():
                    self.dirty.update(keys)
                    return
                for key in keys:
                    if key not in self.on_its_way:
                        self._write_row(key)
        except (StoreBusyError, sqlite3.Error):
            self.dirty.update(keys)  # looked at again at the next poll

    def _write_row(self, key: str) -> None:
        try:
            values = self._values(key)
            row = self.rows.get(key)
            self._store.note_shared(key, row is not None)
            if row is None:
                self._store.remove(values)
                return
            self.check_request(key, row)
            if self._store.find(values) != row:
                self._store.put(row)
        except BadMessageError as error:
            self.table.problem(f"row {key} is not in the database: {error}")

    # Keys

    def check_request(self, key: str, row: Row) -> None:
        """Refuse rows of other columns or another key."""
        if row.keys() != set(self._store.columns):
            columns = ", ".join(self._store.columns)
            raise BadMessageError(f"row {key}", f"must have the columns {columns}")
        if encode_key(tuple(row[name] for name in self._store.key_columns)) != key:
            raise BadMessageError(f"row {key}", "is not of that key")

    def _key(self, values: tuple[Any, ...]) -> str | None:
        try:
            return encode_key(values)
        except BadMessageError as error:
            self.table.problem(f"{error}: the row is not shared")
            return None

    def _values(self, key: str) -> tuple[Any, ...]:
        try:
            values = msgspec.json.decode(key, type=list[int | float | str | None])
        except (msgspec.MsgspecError, ValueError) as error:
            raise BadMessageError("its key", f"is no JSON list: {error}") from error
        if len(values) != len(self._store.key_columns):
            raise BadMessageError("its key", "has another number of columns")
        return tuple(values)
