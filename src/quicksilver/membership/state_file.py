"""A SQLite file that keeps the state of one process, which uses it alone.

It is for its owner's eyes (mode 0600), in WAL mode, and every commit is on the disk when it
returns. What is wrong with a file is said in one line.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec

from quicksilver.stdx.errors import QuicksilverError


class StoreError(QuicksilverError):
    """The state cannot be read or written; whoever needs it must stop."""

    def __init__(self, path: str, problem: str, owner: str = "GMS") -> None:
        super().__init__(path, problem, owner)
        self.path = path
        self.problem = problem
        self.owner = owner
        """Whose state it is."""

    def __str__(self) -> str:
        return f"{self.owner} state {self.path}: {self.problem}"


class StoreLockedError(StoreError):
    """Another process uses the file."""

    def __init__(self, path: str, owner: str = "GMS") -> None:
        problem = f"another {owner} uses this file: stop it or choose another file"
        super().__init__(path, problem, owner)


class StoreVersionError(StoreError):
    """The file was written by another version, or by another program."""

    def __init__(self, path: str, found: int, version: int, owner: str = "GMS") -> None:
        super().__init__(
            path,
            f"the file has schema version {found}, this {owner} reads {version}: "
            "use the quicksilver version that wrote it, or start with a new file",
            owner,
        )
        self.found = found


class StateFile:
    """An open file; ``db`` is its connection."""

    def __init__(self, path: str | Path, *, owner: str, schema: str, version: int) -> None:
        """``schema``: statements that make the tables of a new file, separated by semicolons."""
        self.path = str(path)
        self.owner = owner
        # SQLite gives the files beside it the same mode.
        with contextlib.suppress(OSError):  # it is there, or SQLite says what is wrong
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        try:
            self.db = sqlite3.connect(self.path, isolation_level=None, timeout=0.0)
        except sqlite3.Error as error:
            raise StoreError(self.path, f"cannot open the file ({error})", owner) from None
        try:
            self._prepare(schema, version)
        except BaseException as error:
            self.db.close()
            if isinstance(error, sqlite3.Error):
                raise self._explain(error, "cannot open the file") from None
            raise

    def _prepare(self, schema: str, version: int) -> None:
        # Exclusive mode keeps the lock for as long as the connection lives, and
        # the kernel drops it when the process dies, however it dies.
        self.db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.execute("BEGIN IMMEDIATE")
        found = self.db.execute("PRAGMA user_version").fetchone()[0]
        empty = self.db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if found == 0 and empty:
            for statement in schema.split(";"):
                self.db.execute(statement)
            self.db.execute(f"PRAGMA user_version = {version}")
        elif found != version:
            self.db.execute("ROLLBACK")
            raise StoreVersionError(self.path, found, version, self.owner)
        self.db.execute("COMMIT")

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Read in the block; what is wrong with the file comes out as a ``StoreError``."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._explain(error, "cannot read the file") from None
        except (msgspec.MsgspecError, KeyError, TypeError) as error:
            raise self.damaged(repr(error)) from None

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Make what the block writes durable, all or nothing."""
        try:
            self.db.execute("BEGIN IMMEDIATE")
            yield
            self.db.execute("COMMIT")
        except sqlite3.Error as error:
            with contextlib.suppress(sqlite3.Error):
                self.db.execute("ROLLBACK")
            raise self._explain(error, "cannot write the file") from None

    def close(self) -> None:
        """Let another process use the file."""
        self.db.close()

    def damaged(self, problem: str) -> StoreError:
        """Return the error of a file whose content makes no sense."""
        problem = f"the file is damaged ({problem}): restore a copy or start anew"
        return StoreError(self.path, problem, self.owner)

    def _explain(self, error: sqlite3.Error, doing: str) -> StoreError:
        if "locked" in str(error):
            return StoreLockedError(self.path, self.owner)
        return StoreError(self.path, f"{doing} ({error})", self.owner)
