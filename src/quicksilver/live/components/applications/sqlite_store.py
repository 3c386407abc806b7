"""One table of an SQLite database, with a journal of what others change in it.

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

from quicksilver.live.components.applications.codec import BadMessageError
from quicksilver.live.components.applications.table import COLUMNS_MAX, Row

BUSY_S: Final = 0.05
"""How long to wait for another writer before trying again later."""

JOURNAL_READ_MAX: Final = 1000
"""Entries of the journal read at a time."""


class StoreBusyError(Exception):
    """Somebody else writes; try again later."""


class StoreError(Exception):
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
