"""The log of a replica, and what follows from its entries: members, and updates by author.

``Log`` has what is complete, what is ordered but not here, and what is not ordered.
``Table`` is what every replica must know at the same index.
"""

from __future__ import annotations

from quicksilver.live.components.infrastructure.ordering.messages import (
    ENTRIES_BYTES,
    ENTRIES_MAX,
    JOIN,
    LEAVE,
    UPDATE,
    Author,
    Entry,
    Epoch,
    Member,
    Snapshot,
)

AHEAD_MAX = 100_000
"""Orders kept for which something earlier is missing; more are asked for later."""
POOL_BYTES_MAX = 64 << 20
"""Updates kept that are not ordered; their authors send what is dropped again."""
GONE_MAX = 1000
"""Authors that are remembered after they have gone, for those who come back."""


class Log:
    """Entries from ``trimmed + 1`` to ``top``, complete; and pieces of what comes next."""

    def __init__(self) -> None:
        self.trimmed = 0
        """Entries up to here are on every member, and forgotten."""
        self.top = 0
        self.bytes = 0
        self._entries: dict[int, Entry] = {}
        self.ahead: dict[int, Entry] = {}
        """Orders past ``top``; an update's payload is in the pool, if it is here."""
        self._pool: dict[Author, dict[int, bytes]] = {}
        self._pool_bytes = 0
        self._floors: dict[Author, int] = {}
        """Updates before this number are not waited for."""

    def restart(self, index: int) -> None:
        """Begin after a state; orders and updates that came early stay."""
        self._entries.clear()
        self.bytes = 0
        self.trimmed = self.top = index
        for early in [i for i in self.ahead if i <= index]:
            del self.ahead[early]

    def __getitem__(self, index: int) -> Entry:
        return self._entries[index]

    def append(self, entry: Entry) -> None:
        """Add the next entry, complete."""
        self.top += 1
        self._entries[self.top] = entry
        self.bytes += len(entry.payload)

    def trim(self, index: int) -> None:
        """Forget entries up to here."""
        while self.trimmed < min(index, self.top):
            self.trimmed += 1
            self.bytes -= len(self._entries.pop(self.trimmed).payload)

    def piece(self, first: int, last: int) -> list[Entry]:
        """Return entries from ``first`` on, as many as one message carries."""
        found: list[Entry] = []
        size = 0
        for index in range(first, min(last, self.top) + 1):
            entry = self._entries[index]
            size += len(entry.payload)
            if found and (size > ENTRIES_BYTES or len(found) >= ENTRIES_MAX):
                break
            found.append(entry)
        return found

    # What comes next

    def note_order(self, index: int, entry: Entry) -> None:
        """Keep an order past the end."""
        if index > self.top and len(self.ahead) < AHEAD_MAX:
            self.ahead[index] = entry

    def note_piece(self, first: int, entries: list[Entry]) -> None:
        """Keep a piece of the log that came with its updates' payloads."""
        for index, entry in enumerate(entries, first):
            if index > self.top:
                if entry.kind == UPDATE:
                    self.put(entry.who, entry.number, entry.payload)
                self.note_order(index, entry)

    def next_complete(self) -> Entry | None:
        """Return and remove the entry after ``top``, if all of it is here."""
        entry = self.ahead.get(self.top + 1)
        if entry is None:
            return None
        if entry.kind == UPDATE:
            payload = self.take(entry.who, entry.number)
            if payload is None:
                return None
            entry = Entry(UPDATE, entry.who, entry.number, payload=payload)
        del self.ahead[self.top + 1]
        return entry

    # The pool

    def put(self, author: Author, number: int, payload: bytes, floor: int = 0) -> bool:
        """Keep an update until it is ordered; False if there is no room."""
        kept = self._pool.setdefault(author, {})
        if floor > self._floors.get(author, 0):
            self._floors[author] = floor
        if number in kept:
            return True
        if self._pool_bytes + len(payload) > POOL_BYTES_MAX:
            return False
        kept[number] = payload
        self._pool_bytes += len(payload)
        return True

    def take(self, author: Author, number: int) -> bytes | None:
        """Return and remove an update that is not ordered yet."""
        kept = self._pool.get(author)
        payload = None if kept is None else kept.pop(number, None)
        if payload is not None:
            self._pool_bytes -= len(payload)
            if not kept:
                del self._pool[author]
        return payload

    def next_number(self, author: Author, last: int) -> int:
        """Return the number of an author's update that comes after the last in the log."""
        return max(last + 1, self._floors.get(author, 0))

    def drop_author(self, author: Author) -> None:
        """Forget all that an author sent and nobody ordered."""
        self._floors.pop(author, None)
        for payload in self._pool.pop(author, {}).values():
            self._pool_bytes -= len(payload)

    def authors(self) -> list[Author]:
        """Return who has updates in the pool."""
        return sorted(self._pool)


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
