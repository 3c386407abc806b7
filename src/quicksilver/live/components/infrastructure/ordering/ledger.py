"""A replica's copy of the log, and how far its user has been given it.

The ledger adds entries, gives them to the user in order, has the user make
checkpoints, and starts from a state. Who leads, and what is said to others, is the
business of ``replica``.
"""

from __future__ import annotations

from collections import deque

import msgspec

from quicksilver.live.components.infrastructure.ordering.events import (
    Applied,
    Capture,
    Captured,
    Event,
    Initialize,
    Participants,
    Rebased,
    Receive,
)
from quicksilver.live.components.infrastructure.ordering.log import Log, Table
from quicksilver.live.components.infrastructure.ordering.messages import (
    LEAVE,
    NO_EPOCH,
    UPDATE,
    Author,
    Entry,
    Epoch,
    Member,
    Snapshot,
)
from quicksilver.live.components.infrastructure.ordering.own_updates import OwnUpdates


class Saved(msgspec.Struct, frozen=True):
    """What a disk has: a state, and entries after it."""

    snapshot: Snapshot
    entries: tuple[Entry, ...]
    epoch: Epoch

    @property
    def index(self) -> int:
        """How far it goes."""
        return self.snapshot.index + len(self.entries)


class Former(msgspec.Struct, frozen=True):
    """How far a user was when its node was counted out."""

    epoch: Epoch
    index: int
    shown: Table


class Ledger:
    """The log as far as it is here. ``poll_event`` gives what it has for the user."""

    def __init__(self, *, is_safe: bool, is_passive: bool) -> None:
        """``is_safe``: the user is given only what all members have.

        A passive ledger has no user: it keeps the state that it was given and the
        updates after it.
        """
        self.is_safe = is_safe
        self.is_passive = is_passive
        self.me: Member = (0, 0)
        self.author: Author = (0, 0)
        """Under which our updates are ordered: what ``me`` was first."""
        self.epoch: Epoch = NO_EPOCH
        """The newest epoch that this replica took part in."""
        self.log = Log()
        self.table = Table()
        """Members and authors at the end of the log …"""
        self.shown = Table()
        """… and where the user is."""
        self.applied = 0
        """The last entry that the user was given."""
        self.stable = 0
        """All members have the log up to here."""
        self.own = OwnUpdates()
        self._events: deque[Event] = deque()
        self._ticket: int | None = None
        """The checkpoint that the user is making; it is given nothing until it has."""
        self._tickets = 0
        self._is_capture_wanted = False
        self._is_capture_announced = False
        self._base: Snapshot | None = None
        self._tail: list[tuple[int, bytes]] = []
        """The index and payload of updates after the base; for a passive ledger."""

    def poll_event(self) -> Event | None:
        """Return the next event for the user, if there is one."""
        return self._events.popleft() if self._events else None

    def drop_events(self) -> None:
        """Forget events that nobody wants any more."""
        self._events.clear()

    @property
    def own_done(self) -> int:
        """The number of the user's last update that is in the log."""
        return self.table.last.get(self.author, 0)

    # Entries

    def append(self, entry: Entry) -> None:
        """Add a complete entry to the log, and give it to the user when it may have it."""
        author = self.table.roster.get(entry.who) if entry.kind == LEAVE else None
        self.log.append(entry)
        self.table.take(entry)
        if entry.kind == UPDATE and entry.who == self.author:
            self.own.note_index(self.log.top, entry.number)
        elif author is not None:
            self.log.drop_author(author)
        self._apply()

    def advance(self) -> list[Entry]:
        """Add what is complete, up to our own leaving, and return it."""
        added: list[Entry] = []
        while (entry := self.log.next_complete()) is not None:
            self.append(entry)
            added.append(entry)
            if entry.kind == LEAVE and entry.who == self.me:
                break
        return added

    def set_stable(self, index: int) -> None:
        """Take note that all members have the log up to here."""
        index = min(index, self.log.top)
        if index <= self.stable:
            return
        self.stable = index
        self.own.forget_stable(index)
        if self.is_safe:
            self._apply()
        self.log.trim(min(self.stable, self.applied))

    def _apply(self) -> None:
        """Give the user what it may have, unless it is making a checkpoint."""
        limit = self.stable if self.is_safe else self.log.top
        events = self._events
        while self._ticket is None:
            if self._is_capture_wanted:
                self._is_capture_wanted = False
                self._ticket = self._tickets = self._tickets + 1
                events.append(Capture(self._tickets))
                return
            if self.applied >= limit:
                return
            self.applied += 1
            entry = self.log[self.applied]
            self.shown.take(entry)
            if entry.kind == UPDATE:
                events.append(Receive(entry.payload))
                if self.is_passive:
                    self._tail.append((self.applied, entry.payload))
            else:
                events.append(Participants(tuple(self.shown.roster), self.me))
            events.append(Applied(self.epoch, self.applied, entry))

    # Checkpoints

    def capture(self, *, announce: bool = False) -> Snapshot | None:
        """Have a checkpoint made; one is made for all who want it.

        Returns it if there is no user to ask; otherwise ``handle_checkpoint`` does,
        later. ``announce``: ``Captured`` is to tell it too.
        """
        self._is_capture_announced |= announce
        if self.is_passive:
            assert self._base is not None
            return self._snapshot(self._base.state, [update for _, update in self._tail])
        self._is_capture_wanted = True
        self._apply()
        return None

    def handle_checkpoint(self, ticket: int, state: bytes) -> Snapshot | None:
        """Take the state that the user was asked for; raises ValueError for one it was not.

        Returns None for one that was asked for before we had to start over.
        """
        if ticket != self._ticket:
            if 0 < ticket <= self._tickets:
                return None
            raise ValueError(f"nobody asked for checkpoint {ticket}")
        self._ticket = None
        snapshot = self._snapshot(state, [])
        self._apply()
        return snapshot

    def _snapshot(self, state: bytes | None, tail: list[bytes]) -> Snapshot:
        snapshot = self.shown.snapshot(self.epoch, self.applied, state, tail)
        if self._is_capture_announced:
            self._is_capture_announced = False
            self._events.append(Captured(snapshot))
        return snapshot

    # Starting

    def become_empty(self) -> None:
        """Start over without a state; our own updates stay, as they may be in none."""
        self.log = Log()
        self.table = Table()
        self.own.restart(0)
        self._ticket = None
        self._is_capture_wanted = False
        self._is_capture_announced = False

    def start_from(self, snapshot: Snapshot) -> None:
        """Begin with a state; orders and updates that came early stay."""
        self.table = Table.of(snapshot)
        self.shown = Table.of(snapshot)
        self.applied = snapshot.index
        self._ticket = None
        self._is_capture_wanted = False
        self._restart_log(snapshot.index)
        if self.is_passive:
            self._base = snapshot
            self._tail = [(snapshot.index, update) for update in snapshot.tail]
        self._events.append(Initialize(snapshot))
        self._events.append(Participants(tuple(self.shown.roster), self.me))

    def former(self) -> Former:
        """Return where the user is, so that ``resume`` can go on from there."""
        return Former(self.epoch, self.applied, self.shown)

    def resume(self, former: Former) -> None:
        """Go on with the state that the user has."""
        self.table = former.shown.copy()
        self._restart_log(former.index)

    def _restart_log(self, index: int) -> None:
        self.log.restart(index)
        self.stable = index
        self.own.restart(self.own_done)

    # Without a user

    def is_tail_long(self, updates: int, size: int) -> bool:
        """Whether so many updates, or so many bytes of them, came after the base."""
        tail = self._tail
        return len(tail) >= updates or sum(len(update) for _, update in tail) >= size

    def rebase(self, snapshot: Snapshot) -> None:
        """Take a newer state in place of the old one and the updates that it has."""
        if snapshot.index > self.applied or self._base is None:
            return  # it is installed as a whole
        self._base = snapshot
        tail = [(snapshot.index, update) for update in snapshot.tail]
        self._tail = tail + [one for one in self._tail if one[0] > snapshot.index]
        self._events.append(Rebased(snapshot))
