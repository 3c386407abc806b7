"""What of a scope manager survives it.

A manager asks its members and owners for almost everything, and so does one that starts again.
What they cannot tell is how far the numbers of its views and domains went: each start takes a
block of numbers of its own, which is on the disk before the first of them is used.
"""

from __future__ import annotations

from pathlib import Path

from quicksilver.membership.state_file import StateFile, StoreError

OWNER = "scope manager"

SCHEMA_VERSION = 1001
"""Those of a GMS are below 1000: neither takes the other's file for its own."""

NUMBERS_PER_START = 1 << 32
"""Numbers of one start: a thousand a second for a month and a half."""

STARTS_MAX = 1 << 30

_SCHEMA = "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID"


class ScopeStore(StateFile):
    """The state of one scope."""

    def __init__(self, path: str | Path, scope: str) -> None:
        """Open the file of a scope, or make it. Raises ``StoreError``."""
        super().__init__(path, owner=OWNER, schema=_SCHEMA, version=SCHEMA_VERSION)
        self.scope = scope

    def begin(self) -> int:
        """Note one more start; return how many there were before.

        Raises:
            StoreError: the file is another scope's, or is damaged.
        """
        with self.reading():
            meta = dict(self.db.execute("SELECT key, value FROM meta"))
            scope, starts = (meta["scope"], meta["starts"]) if meta else (self.scope, 0)
        if not isinstance(scope, str) or not isinstance(starts, int):
            raise self.damaged("scope and starts are of other types")
        if not 0 <= starts < STARTS_MAX:
            raise self.damaged(f"{starts:,} starts")
        if scope != self.scope:
            problem = f"it is of the scope {scope!r}, not of {self.scope!r}: choose another file"
            raise StoreError(self.path, problem, OWNER)
        with self.writing():
            rows = [("scope", scope), ("starts", starts + 1)]
            self.db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", rows)
        return starts


def first_number(starts: int) -> int:
    """Return the number above which views and domains are numbered after so many starts."""
    return starts * NUMBERS_PER_START
