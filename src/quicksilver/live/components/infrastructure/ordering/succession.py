"""Who leads: what brings a replica from one of its states to another.

All that changes a replica's state is here: views that it was counted out of, epochs that
others begin, leaders that leave or fall silent, elections, and the founding of a log.
``states`` draws the states. The log, and what members tell each other of it, is the
business of ``replica``.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from quicksilver.live.components.infrastructure.ordering.attendance import Attendance
from quicksilver.live.components.infrastructure.ordering.leader import Leader
from quicksilver.live.components.infrastructure.ordering.ledger import Former, Ledger, Saved
from quicksilver.live.components.infrastructure.ordering.messages import (
    JOIN,
    LEAVE,
    NO_EPOCH,
    UPDATE,
    Entry,
    Epoch,
    Lead,
    Member,
    Query,
    Report,
    Snapshot,
)
from quicksilver.live.components.infrastructure.ordering.outbox import Outbox
from quicksilver.live.components.infrastructure.ordering.state_transfer import IncomingState
from quicksilver.live.components.infrastructure.ordering.states import (
    Bid,
    Candidate,
    Follower,
    LeaderWatch,
    Newcomer,
    Outsider,
    State,
)


class Succession:
    """A replica's state, and the epochs that it follows."""

    def __init__(
        self,
        ledger: Ledger,
        attendance: Attendance,
        outbox: Outbox,
        incoming: IncomingState,
        *,
        founders: int,
        patience_s: float,
        saved: Saved | None,
    ) -> None:
        self.state: State = Outsider()
        self.promised: Epoch = NO_EPOCH
        """Leaders and candidates of earlier epochs are not followed any more."""
        self._founding: Epoch = NO_EPOCH
        """The founder that was promised precedence."""
        self._former: Former | None = None
        """Where the user is, if this node was counted out."""
        self._saved = saved
        self._founders = founders
        self._patience_s = patience_s
        self._viewed_at = 0.0
        self._ledger = ledger
        self._attendance = attendance
        self._outbox = outbox
        self._incoming = incoming

    @property
    def has_state(self) -> bool:
        """Whether this replica has a copy of the state that users share."""
        return isinstance(self.state, Follower | Candidate | Leader)

    # Inputs

    def handle_view(self, nodes: frozenset[int], me: Member, now: float) -> None:
        """Take a view; ``me`` has another node than before if this one was counted out."""
        self._viewed_at = now
        attendance, ledger = self._attendance, self._ledger
        attendance.set_view(nodes)
        if me[0] != attendance.me[0]:
            attendance.me = ledger.me = me
            match self.state:
                case Outsider():
                    ledger.author = ledger.me
                case Newcomer():
                    pass
                case Follower() | Candidate() | Leader():
                    # If all were counted out at once, somebody goes on with what it has.
                    self._former = ledger.former()
                case _:
                    assert_never(self.state)
            ledger.epoch = self.promised = self._founding = NO_EPOCH
            attendance.gone.clear()
            self.become_newcomer(now)
        self.review_members(now)

    def handle_query(self, query: Query, now: float) -> None:
        """Answer somebody who asks to lead, or to found the log."""
        epoch, ledger = query.epoch, self._ledger
        if query.is_founding:
            self._answer_founder(epoch)
            return
        if epoch[1:] == ledger.me or epoch[1] not in self._attendance.nodes:
            return
        if epoch < self.promised:
            return
        if epoch > self.promised:
            self._promise(epoch, now)
        if isinstance(self.state, Newcomer | Follower):
            self.state.watch.heard_at = now
        self._outbox.say(Report(epoch, ledger.me, self.has_state, ledger.log.top))

    def _answer_founder(self, epoch: Epoch) -> None:
        """Tell a newcomer whether it may found the log."""
        ledger, state = self._ledger, self.state
        if not isinstance(state, Newcomer):
            self._outbox.say(Report(epoch, ledger.me, True, ledger.log.top))
        elif epoch >= self._founding:
            self._founding = epoch
            if state.bid is not None and state.bid.epoch != epoch:
                state.bid = None
            # After everybody else on this node has spoken: the first answer of a node counts.
            self._outbox.say(Report(epoch, ledger.me, False, 0), is_later=True)

    def handle_report(self, report: Report, now: float) -> None:
        """Take an answer to our own question."""
        if report.has_state:
            self._attendance.hellos.pop(report.who, None)
        match self.state:
            case Newcomer(bid=Bid() as bid) as newcomer if bid.epoch == report.epoch:
                if report.has_state:
                    newcomer.bid = None  # its members will find a leader, and greet us
                else:
                    bid.answered.add(report.who[0])
                    self._check_bid(bid, now)
            case Candidate() as candidate if candidate.epoch == report.epoch:
                candidate.reports[report.who] = report
                self.check_candidacy(candidate, now)
            case _:
                pass

    def handle_lead(self, lead: Lead, now: float) -> None:
        """Take note that an epoch has begun."""
        if not self.follow(lead.epoch, now):
            return
        state, ledger = self.state, self._ledger
        match state:
            case Newcomer():
                state.greet(now, at_once=True)
            case Follower() if ledger.log.top > lead.top:
                self.become_newcomer(now)  # the others went on without us
            case Follower():
                ledger.set_stable(lead.stable)
                if lead.top > ledger.log.top:
                    state.note_missing(now, wait_s=0.0)
                    state.ask_missing(now)
                state.ack()
                self._outbox.send_own(now)
            case Outsider() | Candidate() | Leader():
                raise AssertionError(f"{state} follows nobody")
            case _:
                assert_never(state)

    # Changes of state

    def _become(self, state: State) -> None:
        self.state = state

    def become_newcomer(self, now: float) -> None:
        """Start over: without a state, and with our updates that may be in none."""
        self._ledger.become_empty()
        self._incoming.clear()
        kept = self._former or self._saved
        newcomer = Newcomer(self._attendance, self._outbox, kept, LeaderWatch(now))
        self._become(newcomer)
        newcomer.greet(now)

    def _become_follower(self, now: float) -> None:
        ledger = self._ledger
        self._become(Follower(ledger, self._outbox, LeaderWatch(now), acked=ledger.log.top))

    def become_candidate(self, now: float) -> None:
        """Ask to lead the next epoch."""
        ledger = self._ledger
        self.promised = (self.promised[0] + 1, *ledger.me)
        ledger.log.ahead.clear()
        candidate = Candidate(self.promised, now, now, ledger, self._attendance, self._outbox)
        self._become(candidate)
        self._outbox.say(Query(candidate.epoch, False))
        self.check_candidacy(candidate, now)

    def _become_leader(self, epoch: Epoch, acks: dict[Member, int], now: float) -> None:
        ledger = self._ledger
        ledger.epoch = self.promised = epoch
        ledger.log.ahead.clear()
        leader = Leader(ledger, self._attendance, self._outbox, acks, now)
        self._become(leader)
        self._outbox.say(Lead(epoch, ledger.log.top, ledger.stable))
        leader.handle_members(now)
        self._outbox.send_own(now)

    def install(self, snapshot: Snapshot, now: float) -> None:
        """Start from a state that the leader sent."""
        self._former = None
        self._ledger.start_from(snapshot)
        self._become_follower(now)
        self.advance(now)
        if isinstance(self.state, Follower):
            self.state.ack()
            self._outbox.send_own(now)

    def advance(self, now: float) -> None:
        """Add what is complete to the log; an entry may say that we were taken for gone."""
        if not self.has_state:
            return
        added = self._ledger.advance()
        for entry in added:
            if entry.kind != UPDATE:
                self._attendance.note_entry(entry)
        if added and added[-1].kind == LEAVE and added[-1].who == self._ledger.me:
            self.become_newcomer(now)
        elif isinstance(self.state, Follower):
            self.state.handle_added(added, now)

    def follow(self, epoch: Epoch, now: float) -> bool:
        """Take note of a leader; False if it is one of the past, or this replica.

        A node that was counted out and does not know it yet may speak as who it was,
        and of epochs that are higher than ours: it is not in the view.
        """
        if epoch < self.promised or epoch[1] not in self._attendance.nodes:
            return False
        if epoch > self.promised:
            if self.has_state:
                # An epoch that did not ask us: the others take us for gone.
                self.become_newcomer(now)
            self._promise(epoch, now)
        state = self.state
        if not isinstance(state, Newcomer | Follower):
            return False
        if isinstance(state, Newcomer) and self._ledger.epoch != epoch:
            state.bid = None
        self._ledger.epoch = epoch
        state.watch.heard_at = now
        state.watch.leaderless_since = None
        return True

    def _promise(self, epoch: Epoch, now: float) -> None:
        """Follow no earlier epoch than this from now on."""
        self.promised = epoch
        self._ledger.log.ahead.clear()
        state = self.state
        match state:
            case Newcomer():
                state.bid = None
                state.watch.heard_at = now
            case Follower():
                state.watch.heard_at = now
            case Candidate() | Leader():
                self._become_follower(now)
            case Outsider():
                raise AssertionError("an outsider hears nothing")
            case _:
                assert_never(state)

    # Becoming the leader

    def _check_bid(self, bid: Bid, now: float) -> None:
        """Found the log if no node of the view has a state."""
        nodes = self._attendance.nodes
        if nodes <= bid.answered and len(nodes) >= self._founders:
            self._found(bid.epoch, now)

    def _found(self, epoch: Epoch, now: float) -> None:
        """Begin a log with what we had, or the disk has, or with nothing."""
        ledger = self._ledger
        ledger.epoch = self.promised = epoch
        if self._former is not None:
            ledger.resume(self._former)
        elif self._saved is not None:
            # The members of those days are gone, and so are entries about them.
            ledger.start_from(msgspec.structs.replace(self._saved.snapshot, roster=[]))
            for entry in self._saved.entries:
                self._append(entry)
        else:
            ledger.start_from(Snapshot(epoch, 0, [], [], None))
        self._former = None
        for member in list(ledger.table.roster):
            self._append(Entry(LEAVE, member))
        self._append(Entry(JOIN, ledger.me, int(ledger.is_passive), ledger.author))
        self._become_leader(epoch, {}, now)

    def _append(self, entry: Entry) -> None:
        self._ledger.append(entry)
        self._attendance.note_entry(entry)

    def check_candidacy(self, candidate: Candidate, now: float) -> None:
        """Lead if all members have reported, and nobody has more of the log."""
        acks = candidate.check(now)
        if acks is not None:
            self._become_leader(candidate.epoch, acks, now)

    # Who is there

    def review_members(self, now: float) -> None:
        """Act on who is there: lead, elect, or found."""
        state = self.state
        match state:
            case Outsider():
                pass
            case Leader():
                state.handle_members(now)
            case Candidate():
                self.check_candidacy(state, now)
            case Newcomer(bid=Bid() as bid):
                self._check_bid(bid, now)
            case Newcomer(watch=watch) | Follower(watch=watch):
                if self.promised != NO_EPOCH and self._attendance.is_there(self.promised[1:]):
                    watch.leaderless_since = None
                    return
                if watch.leaderless_since is None:
                    watch.leaderless_since = now
                self._stand_if_due(state, now)
            case _:
                assert_never(state)

    def _stand_if_due(self, state: Newcomer | Follower, now: float) -> None:
        """Ask to lead, or to found, if it is this replica's turn; nobody leads."""
        attendance, ledger = self._attendance, self._ledger
        if isinstance(state, Follower):
            if attendance.successor(ledger.table) == ledger.me:
                self.become_candidate(now)
            return
        is_patient = now - self._viewed_at >= self._patience_s
        is_enough = len(attendance.nodes) >= self._founders
        if is_enough and attendance.has_best_claim(is_patient=is_patient):
            before = 0 if state.kept is None else state.kept.epoch[0]
            number = max(self.promised[0], self._founding[0], before) + 1
            self._founding = (number, *ledger.me)
            state.make_bid(self._founding, now)

    def suspect_leader(self, silent_since: float, now: float) -> None:
        """Give up a leader, or one who should become it, that is silent for too long."""
        state, attendance, ledger = self.state, self._attendance, self._ledger
        match state:
            case Newcomer(bid=bid):
                is_waiting = bid is None
            case Follower():
                is_waiting = bool(ledger.own)
            case Outsider() | Candidate() | Leader():
                return
            case _:
                assert_never(state)
        expected: Member = self.promised[1:]
        if is_waiting and self.promised != NO_EPOCH and state.watch.heard_at <= silent_since:
            attendance.gone.update(attendance.others([expected]))
        if state.watch.is_leaderless(silent_since):
            state.watch.leaderless_since = now
            successor = attendance.successor(ledger.table)
            attendance.gone.update(attendance.others([] if successor is None else [successor]))
