"""What a replica holds: the log, the state, its own updates; and what follows from them.

Giving entries to the user, making checkpoints, starting from a state, saying how
far it is and asking for what is missing. Who leads, and what others say, is the
business of ``replica``.
"""

from __future__ import annotations

from collections import deque

import msgspec

from quicksilver.live.components.infrastructure.ordering.effects import (
    Applied,
    Capture,
    Captured,
    Effect,
    Initialize,
    Participants,
    Rebased,
    Receive,
    Saved,
    Send,
)
from quicksilver.live.components.infrastructure.ordering.electing import Election
from quicksilver.live.components.infrastructure.ordering.leading import Leadership
from quicksilver.live.components.infrastructure.ordering.log import Log
from quicksilver.live.components.infrastructure.ordering.messages import (
    JOIN,
    LEAVE,
    NO_EPOCH,
    UPDATE,
    Ack,
    Author,
    Entry,
    Epoch,
    Hello,
    Member,
    Message,
    Need,
    Refresh,
    Request,
    Snapshot,
    encode,
)
from quicksilver.live.components.infrastructure.ordering.own import Chunks, OwnUpdates
from quicksilver.live.components.infrastructure.ordering.table import Table

RETRY_S = 0.25
"""What was asked for and has not come is asked for again after this."""
ACK_S = 0.05
"""How long a member may take to say how far it is …"""
ACK_ENTRIES = 256
"""… or how many entries it may add."""


class Former(msgspec.Struct, frozen=True):
    """How far a user was when its node was counted out."""

    epoch: Epoch
    index: int
    shown: Table


class Holding:
    """The part of a replica that is the same whoever leads."""

    def __init__(
        self,
        number: int,
        *,
        safe: bool = False,
        founders: int = 1,
        patience_s: float = 10.0,
        saved: Saved | None = None,
        passive: bool = False,
        refresh_updates: int = 1000,
        refresh_bytes: int = 8 << 20,
    ) -> None:
        """``number`` is unique among all replicas that the node ever has in this group.

        A ``passive`` replica has no user: it keeps the state it was given and the
        updates after it, and asks for a newer one when they are many.
        """
        self._number = number
        self.is_passive = passive
        self._refresh_updates = refresh_updates
        self._refresh_bytes = refresh_bytes
        self._base: Snapshot | None = None
        self._tail: list[tuple[int, bytes]] = []
        """The index and payload of updates after the base; for a passive replica."""
        self._refresh_at: float | None = None
        self.is_safe = safe
        self.founders = founders
        self.patience_s = patience_s
        self.saved = saved
        self.former: Former | None = None
        """Where the user is, if this node was counted out."""
        self.effects: deque[Effect] = deque()
        self.now = 0.0
        self.rejected = 0
        """Messages that made no sense."""
        self.me: Member = (0, 0)
        self.author: Author | None = None
        self.nodes: frozenset[int] = frozenset()
        """The nodes of the view."""
        self.viewed_at = 0.0
        self.has_state = False
        self.epoch: Epoch = NO_EPOCH
        self.promised: Epoch = NO_EPOCH
        self.founding: Epoch = NO_EPOCH
        """The founder that was promised to be let go first."""
        self.log = Log()
        self.table = Table()
        """Members and authors at the end of the log …"""
        self.shown = Table()
        """… and where the user is."""
        self.applied = 0
        self.stable = 0
        self.gone: set[Member] = set()
        """Members that said goodbye or were silent for too long."""
        self.hellos: dict[Member, Hello] = {}
        """Newcomers that were heard."""
        self.leadership: Leadership | None = None
        self.election: Election | None = None
        self._leaderless_since: float | None = None
        self._leader_heard_at = 0.0
        self._echoed_at = -1e9
        self._own = OwnUpdates()
        self._hello_at = -1.0
        self._acked = -1
        self._is_ack_urgent = False
        self._ack_due_at: float | None = None
        self._missing_since: float | None = None
        self._missing_from = 0.0
        self._sent_at = 0.0
        self._chunks = Chunks()
        self._ticket: int | None = None
        self._tickets = 0
        self._capture_wanted = False
        self._is_capture_own = False

    # Who

    @property
    def leader(self) -> Member:
        """Who leads the present epoch."""
        return self.epoch[1:]

    @property
    def name(self) -> Author:
        """Under which our updates are ordered."""
        assert self.author is not None
        return self.author

    @property
    def is_settled(self) -> bool:
        """Whether all members have what was sent here."""
        return not self._own

    def _is_leading(self) -> bool:
        return self.leadership is not None

    # The log

    def append(self, entry: Entry) -> None:
        """Add a complete entry to the log, and give it to the user when it may have it."""
        log = self.log
        author = self.table.roster.get(entry.who) if entry.kind == LEAVE else None
        log.append(entry)
        self.table.take(entry)
        if entry.kind == UPDATE:
            if entry.who == self.author:
                self._own.note_index(log.top, entry.number)
        else:
            self._is_ack_urgent = True
            if entry.kind == JOIN:
                self.hellos.pop(entry.who, None)
                self.gone.discard(entry.who)
            elif author is not None:
                log.drop_author(author)
                self.gone.discard(entry.who)
        self._apply()

    def set_stable(self, index: int) -> None:
        """All members have the log up to here."""
        index = min(index, self.log.top)
        if index <= self.stable:
            return
        self.stable = index
        self._own.settle(index)
        if self.is_safe:
            self._apply()
        if self.leadership is None:
            self.log.trim(min(self.stable, self.applied))
        else:
            self.leadership.trim()

    def _advance(self) -> None:
        """Add what is complete."""
        log = self.log
        top = log.top
        while self.has_state and (entry := log.next_complete()) is not None:
            self.append(entry)
            if entry.kind == LEAVE and entry.who == self.me:
                self.become_newcomer()  # they took us for gone
                return
        if not self.has_state:
            return
        if log.ahead:
            self._note_missing()
        else:
            self._missing_since = None
        if log.top > top:
            self._plan_ack()

    def _apply(self) -> None:
        """Give the user what it may have, unless it is making a checkpoint."""
        limit = self.stable if self.is_safe else self.log.top
        effects = self.effects
        while self._ticket is None:
            if self._capture_wanted:
                self._capture_wanted = False
                if self.is_passive:
                    assert self._base is not None
                    self._take_state(self._base.state, [update for _, update in self._tail])
                    continue
                self._tickets += 1
                self._ticket = self._tickets
                effects.append(Capture(self._tickets))
                return
            if self.applied >= limit:
                return
            self.applied += 1
            entry = self.log[self.applied]
            self.shown.take(entry)
            if entry.kind == UPDATE:
                effects.append(Receive(entry.payload))
                if self.is_passive:
                    self._tail.append((self.applied, entry.payload))
            else:
                effects.append(Participants(tuple(self.shown.roster), self.me))
            effects.append(Applied(self.epoch, self.applied, entry))

    def _take_state(self, state: bytes | None, tail: list[bytes]) -> None:
        snapshot = self.shown.snapshot(self.epoch, self.applied, state, tail)
        if self._is_capture_own:
            self._is_capture_own = False
            self.effects.append(Captured(snapshot))
        if self.leadership is not None:
            self.leadership.handle_captured(snapshot)

    def want_capture(self) -> None:
        """Have the user make a checkpoint; one is made for all who want it."""
        self._capture_wanted = True
        self._apply()

    # Without a user

    def _rebase(self, snapshot: Snapshot) -> None:
        """Take a newer state in place of the old one and the updates that it has."""
        self._refresh_at = None
        if snapshot.index > self.applied or self._base is None:
            return  # it is installed as a whole
        self._base = snapshot
        tail = [(snapshot.index, update) for update in snapshot.tail]
        self._tail = tail + [one for one in self._tail if one[0] > snapshot.index]
        self.effects.append(Rebased(snapshot))

    def _refresh(self) -> None:
        """Ask for a newer state if ours has a long tail and somebody has a user."""
        if not self.is_passive or self.leadership is not None or not self.has_state:
            return
        size = sum(len(update) for _, update in self._tail)
        if len(self._tail) < self._refresh_updates and size < self._refresh_bytes:
            return
        is_old = self._refresh_at is None or self.now - self._refresh_at >= self.patience_s
        if is_old and self.leader not in self.table.passive:
            self._refresh_at = self.now
            self.emit(Refresh(self.me))

    # The state

    def become_newcomer(self) -> None:
        """Start over: without a state, and with our updates that may be in none."""
        self.has_state = False
        self.leadership = None
        self.election = None
        self._missing_since = None
        self._ack_due_at = None
        self._acked = -1
        self._leaderless_since = None
        self._chunks = Chunks()
        self._refresh_at = None
        self._ticket = None
        self._capture_wanted = False
        self._is_capture_own = False
        self.log = Log()
        self.table = Table()
        self._own.restart(0)
        self._hello_at = -1.0
        self._greet()

    def _install(self, snapshot: Snapshot) -> None:
        self._start_from(snapshot)
        self._advance()
        self._ack()
        self._send_own()

    def _resume(self, former: Former) -> None:
        """Go on with the state that the user has."""
        self.former = None
        self.has_state = True
        self.table = former.shown.copy()
        self.log.restart(former.index)
        self.stable = former.index
        self._own.restart(self.table.last.get(self.name, 0))

    def _start_from(self, snapshot: Snapshot) -> None:
        self.former = None
        self.has_state = True
        self.table = Table.of(snapshot)
        self.shown = Table.of(snapshot)
        self.log.restart(snapshot.index)
        self.applied = self.stable = snapshot.index
        self._ticket = None
        self._capture_wanted = False
        self._own.restart(self.table.last.get(self.name, 0))
        if self.is_passive:
            self._base = snapshot
            self._tail = [(snapshot.index, update) for update in snapshot.tail]
        self.effects.append(Initialize(snapshot))
        self.effects.append(Participants(tuple(self.shown.roster), self.me))

    # What is said

    def emit(self, message: Message, *, is_later: bool = False) -> None:
        """Send a message to everybody."""
        self.effects.append(Send(encode(message), is_later))

    def _greet(self) -> None:
        if self._hello_at >= 0 and self.now - self._hello_at < 2 * RETRY_S:
            return
        self._hello_at = self.now
        kept = self.former or self.saved
        epoch, index = (NO_EPOCH, 0) if kept is None else (kept.epoch, kept.index)
        hello = Hello(self.me, self.name, epoch, index, self.is_passive)
        self.hellos[self.me] = hello
        self.emit(hello)

    def _plan_ack(self) -> None:
        if self._is_ack_urgent or self.is_safe or self.log.top - self._acked >= ACK_ENTRIES:
            self._ack()
        elif self._ack_due_at is None:
            self._ack_due_at = self.now + ACK_S

    def _ack(self) -> None:
        self._ack_due_at = None
        self._is_ack_urgent = False
        if self.has_state and not self._is_leading():
            self._acked = self.log.top
            self.emit(Ack(self.epoch, self.me, self.log.top))

    def _send_own(self) -> None:
        """Send those of our updates again that are not in the log."""
        self._sent_at = self.now
        done = self.table.last.get(self.name, 0)
        for number, payload in self._own.after(done):
            self.emit(Request(self.name, number, payload, self._own.floor))

    def _resend_own(self) -> None:
        if self.now - self._sent_at >= 4 * RETRY_S:
            self._send_own()
            self._ack()

    def _is_stuck(self, index: int) -> bool:
        """Whether only a state can help: what we lack is asked for and does not come."""
        if self._missing_since is None or index <= self.log.top:
            return False
        return self.now - self._missing_from >= 2 * RETRY_S

    def _note_missing(self, *, at_once: bool = False) -> None:
        if self._missing_since is None:
            self._missing_since = self.now - (ACK_S if at_once else 0.0)
            self._missing_from = self.now
        if at_once:
            self._ask_missing()

    def _ask_missing(self) -> None:
        """Ask the leader for what is ordered and has not come for a while."""
        assert self._missing_since is not None
        if self.now - self._missing_since < ACK_S:
            return
        self._missing_since = self.now + RETRY_S - ACK_S
        last = max(self.log.ahead, default=self.log.top + 1)
        self.emit(Need(self.me, self.leader, self.log.top + 1, max(last, self.log.top + 1000)))
