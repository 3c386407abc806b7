"""The states of a replica, as types.

    Outsider ── view ──▶ Newcomer ── state ──▶ Follower ── its turn ──▶ Candidate
                          │    ▲                 │  ▲                       │
                          │    └── left behind ──┘  └─ a later epoch ───────┤
                          └── nobody has a state ──▶ Leader ◀── all told ───┘

A leader, too, follows a later epoch that asks it, and is a newcomer again when its
node was counted out or an epoch began without it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from quicksilver.live.components.infrastructure.ordering.attendance import Attendance
from quicksilver.live.components.infrastructure.ordering.leading import Leader
from quicksilver.live.components.infrastructure.ordering.messages import Epoch, Member, Report
from quicksilver.live.components.infrastructure.ordering.outbox import RETRY_S

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

    def restart_patience(self, now: float) -> None:
        """Blame nobody for the time until now."""
        self.heard_at = now
        if self.leaderless_since is not None:
            self.leaderless_since = now


@dataclass(slots=True)
class _Asking:
    """Somebody asks all others, again and again, to lead or to found an epoch."""

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
class Bid(_Asking):
    """A newcomer asks every node of the view whether it may found the log."""

    answered: set[int] = field(default_factory=set)
    """Nodes that have no state either, or were silent for too long."""


@dataclass(slots=True)
class Missing:
    """Something was ordered that is not here."""

    since: float
    ask_at: float

    def may_ask(self, now: float) -> bool:
        """Whether it is time to ask for it; if so, it counts as done."""
        if now < self.ask_at:
            return False
        self.ask_at = now + RETRY_S
        return True


@dataclass(slots=True)
class Outsider:
    """Has no view of the group yet: hears nothing, says nothing."""


@dataclass(slots=True)
class Newcomer:
    """Has no state: says hello until the leader sends one, or it may found the log."""

    watch: LeaderWatch
    greeted_at: float | None = None
    bid: Bid | None = None

    def restart_patience(self, now: float) -> None:
        """Blame nobody for the time until now."""
        self.watch.restart_patience(now)
        if self.bid is not None:
            self.bid.restart_patience(now)


@dataclass(slots=True)
class Follower:
    """Has a state, and takes what the leader orders."""

    watch: LeaderWatch
    acked: int
    """How far it last said that it is."""
    ack_at: float | None = None
    missing: Missing | None = None

    def is_ack_due(self, top: int) -> bool:
        """Whether the log has grown so much that the leader should know."""
        return top - self.acked >= ACK_ENTRIES

    def plan_ack(self, now: float) -> None:
        """Say soon how far it is."""
        if self.ack_at is None:
            self.ack_at = now + ACK_S

    def note_missing(self, now: float, wait_s: float = ACK_S) -> None:
        """Remember that something is missing; it may be asked for after some seconds."""
        if self.missing is None:
            self.missing = Missing(now, now + wait_s)

    def is_stuck(self, now: float) -> bool:
        """Whether only a state can help: what is missing was asked for and does not come."""
        return self.missing is not None and now - self.missing.since >= 2 * RETRY_S

    def restart_patience(self, now: float) -> None:
        """Blame nobody for the time until now."""
        self.watch.restart_patience(now)


@dataclass(slots=True)
class Candidate(_Asking):
    """Has a state, and asks all members how far they are, to lead the next epoch.

    Who is silent for too long counts as gone. Of two candidates the one with the
    higher epoch goes on.
    """

    fetched_at: float | None = None
    """When it last asked for what a member has and it lacks."""
    reports: dict[Member, Report] = field(default_factory=dict)

    def unheard(self, members: Collection[Member]) -> list[Member]:
        """Return those of some members that have not reported."""
        return [one for one in members if one not in self.reports]

    def reports_of(self, attendance: Attendance) -> list[Report]:
        """Return the reports of those who have a state and are there."""
        return [
            report
            for who, report in sorted(self.reports.items())
            if report.has_state and attendance.is_there(who)
        ]

    def may_fetch(self, now: float) -> bool:
        """Whether it is time to ask for a piece of the log; if so, it counts as done."""
        if self.fetched_at is not None and now - self.fetched_at < RETRY_S:
            return False
        self.fetched_at = now
        return True


State: TypeAlias = Outsider | Newcomer | Follower | Candidate | Leader
