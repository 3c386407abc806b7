"""The states of a replica, as types.

    Outsider ── view ──▶ Newcomer ── state ──▶ Follower ── its turn ──▶ Candidate
                          │    ▲                 │  ▲                       │
                          │    └── left behind ──┘  └─ a later epoch ───────┤
                          └── nobody has a state ──▶ Leader ◀── all told ───┘

Each state has what only it needs, and does what only it does, with the replica's ledger,
attendance and outbox. What leads from one state to another is decided in ``succession``.
A leader, too, follows a later epoch that asks it, and is a newcomer again when its
node was counted out or an epoch began without it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from quicksilver.live.components.infrastructure.ordering.attendance import Attendance
from quicksilver.live.components.infrastructure.ordering.leader import Leader
from quicksilver.live.components.infrastructure.ordering.ledger import Former, Ledger, Saved
from quicksilver.live.components.infrastructure.ordering.messages import (
    UPDATE,
    Entry,
    Epoch,
    Member,
    Need,
    Query,
    Report,
)
from quicksilver.live.components.infrastructure.ordering.outbox import RETRY_S, Outbox

ACK_S: Final = 0.05
"""How long a member may take to say how far it is …"""
ACK_ENTRIES: Final = 256
"""… or how many entries it may add."""


@dataclass(slots=True)
class LeaderWatch:
    """What a replica knows of the leader, or of who should become it."""

    heard_at: float
    leaderless_since: float | None = None
    """Since when nobody is there who leads, or is about to."""

    def is_leaderless(self, since: float) -> bool:
        """Whether nobody has led, or was about to, from then on."""
        return self.leaderless_since is not None and self.leaderless_since <= since

    def restart_patience(self, now: float) -> None:
        """Blame nobody for the time until now."""
        self.heard_at = now
        if self.leaderless_since is not None:
            self.leaderless_since = now


@dataclass(slots=True)
class _Question:
    """Something that all others are asked again and again: whether we may lead, or found."""

    epoch: Epoch
    began_at: float
    asked_at: float

    def is_overdue(self, now: float, silent_since: float | None) -> bool:
        """Whether all had time to answer; then waiting begins anew. None: nobody is blamed."""
        if silent_since is None or self.began_at > silent_since:
            return False
        self.began_at = now
        return True

    def may_ask(self, now: float) -> bool:
        """Whether it is time to ask again; if so, it counts as done."""
        if now - self.asked_at < RETRY_S:
            return False
        self.asked_at = now
        return True

    def restart_patience(self, now: float) -> None:
        """Blame nobody for the time until now."""
        self.began_at = now


@dataclass(slots=True)
class Outsider:
    """Has no view of the group yet: hears nothing, says nothing."""


@dataclass(slots=True)
class Bid(_Question):
    """A newcomer asks every node of the view whether it may found the log."""

    answered: set[int] = field(default_factory=set)
    """Nodes that have no state either, or were silent for too long."""


@dataclass(slots=True)
class Newcomer:
    """Has no state: says hello until the leader sends one, or it may found the log."""

    attendance: Attendance
    outbox: Outbox
    kept: Former | Saved | None
    """An old state that it could found the log with."""
    watch: LeaderWatch
    greeted_at: float | None = None
    bid: Bid | None = None

    def greet(self, now: float, *, at_once: bool = False) -> None:
        """Say hello, unless we just did."""
        if self.greeted_at is None or now - self.greeted_at >= 2 * RETRY_S or at_once:
            self.greeted_at = now
            hello = self.outbox.say_hello(self.kept)
            self.attendance.hellos[hello.who] = hello

    def make_bid(self, epoch: Epoch, now: float) -> None:
        """Ask every node of the view whether we may found the log."""
        self.bid = Bid(epoch, now, now)
        self.outbox.say(Query(epoch, True))

    def handle_timeout(self, now: float, silent_since: float | None) -> None:
        """Ask again; a node that is silent for too long has no say in who founds."""
        self.greet(now)
        if self.bid is None:
            return
        if self.bid.is_overdue(now, silent_since):
            self.bid.answered |= self.attendance.nodes
        elif self.bid.may_ask(now):
            self.outbox.say(Query(self.bid.epoch, True))

    def restart_patience(self, now: float) -> None:
        """Blame nobody for the time until now."""
        self.watch.restart_patience(now)
        if self.bid is not None:
            self.bid.restart_patience(now)


@dataclass(slots=True)
class Missing:
    """Something was ordered that is not here."""

    since: float
    ask_at: float


@dataclass(slots=True)
class Follower:
    """Has a state, and takes what the leader orders."""

    ledger: Ledger
    outbox: Outbox
    watch: LeaderWatch
    acked: int
    """How far it last said that it is."""
    ack_at: float | None = None
    missing: Missing | None = None

    def ack(self) -> None:
        """Say how far we are."""
        self.ack_at = None
        self.acked = self.outbox.say_ack()

    def note_missing(self, now: float, wait_s: float = ACK_S) -> None:
        """Remember that something is missing; it may be asked for after some seconds."""
        if self.missing is None:
            self.missing = Missing(now, now + wait_s)

    def ask_missing(self, now: float) -> None:
        """Ask the leader for what is ordered and has not come for a while."""
        if self.missing is not None and now >= self.missing.ask_at:
            self.missing.ask_at = now + RETRY_S
            self.outbox.ask_missing()

    def is_stuck(self, now: float) -> bool:
        """Whether only a state can help: what is missing was asked for and does not come."""
        return self.missing is not None and now - self.missing.since >= 2 * RETRY_S

    def handle_added(self, added: list[Entry], now: float) -> None:
        """Say soon that entries were added, or at once if others wait for it."""
        log = self.ledger.log
        if log.ahead:
            self.note_missing(now)
        else:
            self.missing = None
        if not added:
            return
        is_urgent = self.ledger.is_safe or any(entry.kind != UPDATE for entry in added)
        if is_urgent or log.top - self.acked >= ACK_ENTRIES:
            self.ack()
        elif self.ack_at is None:
            self.ack_at = now + ACK_S

    def handle_timeout(self, now: float) -> None:
        """Say how far we are; send and ask again what has not arrived."""
        if self.ack_at is not None and now >= self.ack_at:
            self.ack()
        if self.outbox.is_own_overdue(now):
            self.outbox.send_own(now)
            self.ack()
        self.ask_missing(now)

    def restart_patience(self, now: float) -> None:
        """Blame nobody for the time until now."""
        self.watch.restart_patience(now)


@dataclass(slots=True)
class Candidate(_Question):
    """Has a state, and asks all members how far they are, to lead the next epoch.

    Who is silent for too long counts as gone. Of two candidates the one with the
    higher epoch goes on.
    """

    ledger: Ledger
    attendance: Attendance
    outbox: Outbox
    fetched_at: float | None = None
    """When it last asked for what a member has and it lacks."""
    reports: dict[Member, Report] = field(default_factory=dict)

    def unheard(self, members: Collection[Member]) -> list[Member]:
        """Return those of some members that have not reported."""
        return [one for one in members if one not in self.reports]

    def check(self, now: float) -> dict[Member, int] | None:
        """Return how far the members are that we may lead from now on; None: not yet.

        All members must have reported. If one has more of the log, it is asked for it.
        """
        ledger, attendance = self.ledger, self.attendance
        if self.unheard(attendance.others(ledger.table.roster)):
            return None
        reports = [
            report
            for who, report in sorted(self.reports.items())
            if report.has_state and attendance.is_there(who)
        ]
        best = max(reports, key=lambda report: report.top, default=None)
        if best is None or best.top <= ledger.log.top:
            return {report.who: report.top for report in reports}
        if self.fetched_at is None or now - self.fetched_at >= RETRY_S:
            self.fetched_at = now
            self.outbox.say(Need(ledger.me, best.who, ledger.log.top + 1, best.top))
        return None

    def handle_timeout(self, now: float, silent_since: float | None) -> None:
        """Ask again; give up members that are silent for too long."""
        if self.outbox.is_own_overdue(now):
            self.outbox.send_own(now)
        if self.is_overdue(now, silent_since):
            members = self.attendance.others(self.ledger.table.roster)
            self.attendance.gone.update(self.unheard(members))
        elif self.may_ask(now):
            self.outbox.say(Query(self.epoch, False))


State: TypeAlias = Outsider | Newcomer | Follower | Candidate | Leader
