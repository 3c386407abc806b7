"""What every replica must know at the same index of the log: members, and updates by author."""

from __future__ import annotations

from quicksilver.live.components.infrastructure.ordering.messages import (
    JOIN,
    LEAVE,
    Author,
    Entry,
    Member,
    Snapshot,
)

GONE_MAX = 1000
"""Authors that are remembered after they have gone, for those who come back."""


class Table:
    """The members in the order they came, and how many updates of each author are in the log."""

    __slots__ = ("authors", "last", "roster")

    def __init__(self) -> None:
        self.roster: dict[Member, Author] = {}
        self.last: dict[Author, int] = {}
        """Authors gone longest come first."""
        self.authors: set[Author] = set()
        """Those of the members."""

    @staticmethod
    def of(snapshot: Snapshot) -> Table:
        """Return the table at a snapshot."""
        table = Table()
        table.roster = dict(snapshot.roster)
        table.last = dict(snapshot.last)
        table.authors = set(table.roster.values())
        return table

    def take(self, entry: Entry) -> None:
        """Apply the next entry of the log."""
        if entry.kind == JOIN:
            self.roster[entry.who] = entry.author
            self.authors.add(entry.author)
            self.last.setdefault(entry.author, 0)
        elif entry.kind == LEAVE:
            author = self.roster.pop(entry.who, None)
            if author is not None and author in self.last:
                self.authors.discard(author)
                self.last[author] = self.last.pop(author)  # to the end: gone last
                self._forget()
        else:
            self.last[entry.who] = entry.number

    def _forget(self) -> None:
        excess = len(self.last) - len(self.authors) - GONE_MAX
        if excess > 0:
            gone = [author for author in self.last if author not in self.authors]
            for author in gone[:excess]:
                del self.last[author]
