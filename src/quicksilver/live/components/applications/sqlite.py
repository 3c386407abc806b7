"""A table of an SQLite database as a live object: its changes go out, others' come in.

Types: NULL, INTEGER (64 bits), REAL, TEXT and BLOB are nothing, whole numbers,
numbers, text and bytes; there are no truth values. A row's key is its primary key,
as a JSON list.

When a bridge starts, rows that were changed while none ran are sent, and rows that
the channel never had. For all others the channel is right: its rows are written
here, and those that it had and has no more are removed. If the channel has no
state at all, everything is sent.

Triggers write the keys of changed rows into a journal beside the table, also while
no bridge runs. They are silent while a bridge writes: a flag says so, set and
cleared within the bridge's own transaction, where nobody else sees it. Another
table remembers which rows the channel had, so that a row it no longer has can be
told from one that it never had.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from quicksilver.live.codec import BadMessageError
from quicksilver.live.components.applications.table import COLUMNS_MAX, Row, TableBridge
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.runtime.components import component
from quicksilver.live.services.storage import SharedFiles
from quicksilver.live.types.declare import Given, live_object
from quicksilver.live.types.reflect import Ref
from quicksilver.stdx.errors import QuicksilverError

BUSY_S: Final = 0.05
"""How long to wait for another writer before trying again later."""

JOURNAL_READ_MAX: Final = 1000
"""Entries of the journal read at a time."""


class StoreBusyError(QuicksilverError):
    """Somebody else writes; try again later."""


class StoreError(QuicksilverError):
    """A database or table that cannot be bridged, and what to do about it."""


def encode_key(values: tuple[Any, ...]) -> str:
    """Return a row's key as text: its primary key's values as a JSON list."""
    if any(isinstance(value, bytes) for value in values):
        raise BadMessageError("a key", "with a BLOB cannot be shared")
    try:
        return msgspec.json.encode(values).decode()
    except (ValueError, OverflowError) as error:
        raise BadMessageError("a key", f"cannot be shared: {error}") from error


class SqliteStore:
    """A table, its journal, and the triggers between them."""

    def __init__(self, path: Path, table: str) -> None:
        """Open; raises StoreError."""
        if not path.is_file():
            raise StoreError(f"there is no database {path}: create it first")
        self._table = table
        try:
            self._db = sqlite3.connect(
                path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise StoreError(f"{path}: {error}") from error
        try:
            # Bytes that are no UTF-8 must not stop a scan: the row alone cannot be shared.
            self._db.text_factory = lambda data: data.decode(errors="surrogateescape")
            self._read_columns()
            self._name = _quote(table)
            self._journal = _quote(f"_live_{table}_journal")
            self._flags = _quote(f"_live_{table}_flags")
            self._shared = _quote(f"_live_{table}_shared")
            with self.writing():
                self._install()
        except BaseException as error:
            self._db.close()
            if isinstance(error, sqlite3.Error | StoreBusyError):
                raise StoreError(f"{path}: {error}") from error
            raise
        self._version = -1

    def close(self) -> None:
        """Close the database; the journal stays."""
        self._db.close()

    # What the table is

    def _read_columns(self) -> None:
        found = self._db.execute(f"PRAGMA table_info({_quote(self._table)})").fetchall()
        if not found:
            raise StoreError(f"there is no table {self._table!r} in the database")
        self.columns = tuple(str(row[1]) for row in found)
        keyed = sorted((row[5], str(row[1])) for row in found if row[5])
        self.key_columns = tuple(name for _, name in keyed)
        if not self.key_columns:
            raise StoreError(f"the table {self._table!r} has no PRIMARY KEY: give it one")
        if len(self.columns) > COLUMNS_MAX:
            raise StoreError(f"the table {self._table!r} has more than {COLUMNS_MAX} columns")
        indices = self._db.execute(f"PRAGMA index_list({_quote(self._table)})").fetchall()
        self.has_other_keys = any(row[2] and row[3] != "pk" for row in indices)
        """Whether INSERT OR REPLACE may remove rows of another key, which no trigger tells."""

    def _install(self) -> None:
        """Make the journal and the triggers, unless they are there."""
        db = self._db
        parts = [f"k{index}" for index in range(len(self.key_columns))]
        db.execute(
            f"CREATE TABLE IF NOT EXISTS {self._journal} "
            f"(number INTEGER PRIMARY KEY AUTOINCREMENT, {', '.join(parts)})"
        )
        db.execute(
            f"CREATE TABLE IF NOT EXISTS {self._flags} "
            "(one INTEGER PRIMARY KEY CHECK (one = 1), writing INTEGER)"
        )
        db.execute(f"INSERT OR IGNORE INTO {self._flags} VALUES (1, 0)")
        db.execute(
            f"CREATE TABLE IF NOT EXISTS {self._shared} (key TEXT PRIMARY KEY) WITHOUT ROWID"
        )
        for event, sides in (("INSERT", "NEW"), ("UPDATE", "OLD NEW"), ("DELETE", "OLD")):
            notes = "".join(
                f"INSERT INTO {self._journal} ({', '.join(parts)}) VALUES "
                f"({', '.join(f'{side}.{_quote(name)}' for name in self.key_columns)}); "
                for side in sides.split()
            )
            name = _quote(f"_live_{self._table}_{event.lower()}")
            db.execute(
                f"CREATE TRIGGER IF NOT EXISTS {name} AFTER {event} ON {self._name} "
                f"WHEN (SELECT writing FROM {self._flags}) = 0 BEGIN {notes}END"
            )

    # Reading

    def has_changed(self) -> bool:
        """Whether another connection has changed the database since this was last asked."""
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        before, self._version = self._version, version
        return bool(before != version)

    def forget_version(self) -> None:
        """Have the database looked at next time, whether it changed or not."""
        self._version = -1

    def shared_keys(self) -> set[str]:
        """Return the keys of rows that the channel had when it was last heard of here."""
        found = self._db.execute(f"SELECT key FROM {self._shared}")
        return {str(key) for (key,) in found}

    def scan_keys(self) -> Iterator[tuple[Any, ...]]:
        """Yield the values of all keys."""
        keys = ", ".join(map(_quote, self.key_columns))
        yield from self._db.execute(f"SELECT {keys} FROM {self._name}")

    def scan(self) -> Iterator[tuple[tuple[Any, ...], Row]]:
        """Yield all rows with the values of their keys."""
        places = [self.columns.index(name) for name in self.key_columns]
        for values in self._db.execute(self._select()):
            yield (
                tuple(values[place] for place in places),
                dict(zip(self.columns, values, strict=True)),
            )

    def find(self, key: tuple[Any, ...]) -> Row | None:
        """Return a row by the values of its key."""
        values = self._db.execute(f"{self._select()} WHERE {self._where()}", key).fetchone()
        return None if values is None else dict(zip(self.columns, values, strict=True))

    def read_journal(self, after: int) -> list[tuple[int, tuple[Any, ...]]]:
        """Return the numbers and keys of changes after a number."""
        found = self._db.execute(
            f"SELECT * FROM {self._journal} WHERE number > ? ORDER BY number LIMIT ?",
            (after, JOURNAL_READ_MAX),
        )
        return [(number, tuple(key)) for number, *key in found]

    # Writing

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the database for a transaction; raises StoreBusyError."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            raise StoreBusyError(str(error)) from error
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def put(self, row: Row) -> None:
        """Set a row, unseen by the journal; within ``writing``. Raises BadMessageError."""
        names = ", ".join(map(_quote, self.columns))
        marks = ", ".join("?" * len(self.columns))
        others = [name for name in self.columns if name not in self.key_columns]
        updates = ", ".join(f"{_quote(name)} = excluded.{_quote(name)}" for name in others)
        keys = ", ".join(map(_quote, self.key_columns))
        action = f"UPDATE SET {updates}" if updates else "NOTHING"
        self._change(
            f"INSERT INTO {self._name} ({names}) VALUES ({marks}) ON CONFLICT ({keys}) DO {action}",
            tuple(row[name] for name in self.columns),
        )

    def remove(self, key: tuple[Any, ...]) -> None:
        """Remove a row, unseen by the journal; within ``writing``. Raises BadMessageError."""
        self._change(f"DELETE FROM {self._name} WHERE {self._where()}", key)

    def _change(self, statement: str, values: tuple[Any, ...]) -> None:
        db = self._db
        db.execute("SAVEPOINT one_row")
        try:
            db.execute(f"UPDATE {self._flags} SET writing = 1")
            db.execute(statement, values)
            db.execute(f"UPDATE {self._flags} SET writing = 0")
        except (sqlite3.Error, OverflowError, UnicodeEncodeError) as error:
            db.execute("ROLLBACK TO one_row")
            raise BadMessageError("the row", f"does not fit the table: {error}") from error
        finally:
            db.execute("RELEASE one_row")

    def note(self, key: tuple[Any, ...]) -> None:
        """Write a key into the journal as if its row had just been changed."""
        marks = ", ".join(["NULL", *("?" * len(key))])
        self._db.execute(f"INSERT INTO {self._journal} VALUES ({marks})", key)

    def forget_journal(self, until: int) -> None:
        """Forget entries up to a number: their rows were seen by all."""
        self._db.execute(f"DELETE FROM {self._journal} WHERE number <= ?", (until,))

    def note_shared(self, key: str, is_shared: bool) -> None:
        """Remember whether the channel has a row."""
        statement = (
            "INSERT OR IGNORE INTO {} VALUES (?)" if is_shared else "DELETE FROM {} WHERE key = ?"
        )
        self._db.execute(statement.format(self._shared), (key,))

    def _select(self) -> str:
        return f"SELECT {', '.join(map(_quote, self.columns))} FROM {self._name}"

    def _where(self) -> str:
        return " AND ".join(f"{_quote(name)} IS ?" for name in self.key_columns)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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
