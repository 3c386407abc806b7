"""Where a scope manager keeps what must survive it: small records, by name.

The manager says which record is to be written (``management.saving``); whoever runs it writes it
before anything is sent that follows from it. So no number is used again, however it ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from quicksilver.membership.state_file import StateFile, StoreError

OWNER = "scope manager"

SCHEMA_VERSION = 1001
"""Those of a GMS are below 1000: neither takes the other's file for its own."""

_SCHEMA = """
CREATE TABLE meta (scope TEXT NOT NULL);
CREATE TABLE records (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID
"""


class ScopeStore(StateFile):
    """The records of one scope."""

    def __init__(self, path: str | Path, scope: str) -> None:
        """Open the file of a scope, or make it.

        Raises:
            StoreError: it cannot be used, or is another scope's.
        """
        super().__init__(path, owner=OWNER, schema=_SCHEMA, version=SCHEMA_VERSION)
        try:
            self._check_scope(scope)
        except BaseException:
            self.close()
            raise

    def _check_scope(self, scope: str) -> None:
        with self.reading():
            scopes = [name for (name,) in self.db.execute("SELECT scope FROM meta")]
        if not scopes:
            with self.writing():
                self.db.execute("INSERT INTO meta VALUES (?)", (scope,))
        elif scopes != [scope]:
            problem = f"it is of the scope {scopes[0]!r}, not of {scope!r}: choose another file"
            raise StoreError(self.path, problem, OWNER)

    def load(self) -> dict[str, bytes]:
        """Return all records, by name. Raises ``StoreError``."""
        with self.reading():
            rows = list(self.db.execute("SELECT name, value FROM records ORDER BY name"))
        for name, value in rows:
            if not isinstance(name, str) or not isinstance(value, bytes):
                raise self.damaged("a record is not made of text and bytes")
        return dict(rows)

    def save(self, records: Iterable[tuple[str, bytes | None]]) -> None:
        """Make records durable, all or none, before returning; None deletes one.

        Raises:
            StoreError: they may or may not be durable; the manager must stop.
        """
        with self.writing():
            for name, value in records:
                if value is None:
                    self.db.execute("DELETE FROM records WHERE name = ?", (name,))
                else:
                    row = (name, value)
                    self.db.execute("INSERT OR REPLACE INTO records VALUES (?, ?)", row)
