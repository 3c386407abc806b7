"""What every replica must know at the same index of the log: members, and updates by author."""

from __future__ import annotations

from quicksilver.live.components.infrastructure.ordering.messages import (
    JOIN,
    LEAVE,
    Author,
    Entry,
    Epoch,
    Member,
    Snapshot,
)

GONE_MAX = 1000
"""Authors that are remembered after they have gone, for those who come back."""


class Table:
    """The members in the order they came, and how many updates of each author are in the log."""

    __slots__ = ("authors", "last", "passive", "roster")

    def __init__(self) -> None:
        self.roster: dict[Member, Author] = {}
        self.last: dict[Author, int] = {}
        """Authors gone longest come first."""
        self.authors: set[Author] = set()
        """Those of the members."""
        self.passive: set[Member] = set()
        """Members without a user."""

    @staticmethod
    def of(snapshot: Snapshot) -> Table:
        """Return the table at a snapshot."""
        table = Table()
        table.roster = {member: author for member, author, _ in snapshot.roster}
        table.passive = {member for member, _, is_passive in snapshot.roster if is_passive}
        table.last = dict(snapshot.last)
        table.authors = set(table.roster.values())
        return table

    def copy(self) -> Table:
        """Return another table with the same in it."""
        table = Table()
        table.roster = dict(self.roster)
        table.last = dict(self.last)
        table.authors = set(self.authors)
        table.passive = set(self.passive)
        return table

    def snapshot(
        self, epoch: Epoch, index: int, state: bytes | None, tail: list[bytes]
    ) -> Snapshot:
        """Return what is here as a snapshot, with the user's state."""
        roster = [(one, author, one in self.passive) for one, author in self.roster.items()]
        return Snapshot(epoch, index, roster, list(self.last.items()), state, tail)

    def take(self, entry: Entry) -> None:
        """Apply the next entry of the log."""
        if entry.kind == JOIN:
            self.roster[entry.who] = entry.author
            self.authors.add(entry.author)
            if entry.number:
                self.passive.add(entry.who)
            self.last.setdefault(entry.author, 0)
        elif entry.kind == LEAVE:
            author = self.roster.pop(entry.who, None)
            self.passive.discard(entry.who)
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
