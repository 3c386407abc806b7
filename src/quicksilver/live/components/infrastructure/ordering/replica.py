"""One replica of a checkpointed channel: a sans-IO machine over messages, views and time.

The package's docstring says how the channel works; ``states`` draws the states.
"""

from __future__ import annotations

from typing import Final, assert_never

import msgspec

from quicksilver.live.codec import BadMessageError
from quicksilver.live.components.infrastructure.ordering.attendance import Attendance
from quicksilver.live.components.infrastructure.ordering.events import Event, Transmit
from quicksilver.live.components.infrastructure.ordering.leader import Leader
from quicksilver.live.components.infrastructure.ordering.ledger import Former, Ledger, Saved
from quicksilver.live.components.infrastructure.ordering.messages import (
    JOIN,
    LEAVE,
    NO_EPOCH,
    UPDATE,
    Ack,
    Bye,
    Chunk,
    Entries,
    Entry,
    Epoch,
    Hello,
    Lead,
    Member,
    MemberMessage,
    Need,
    Order,
    Query,
    Refresh,
    Report,
    Request,
    Snapshot,
    Yield,
    parse,
    speaker_of,
)
from quicksilver.live.components.infrastructure.ordering.outbox import RETRY_S, Outbox
from quicksilver.live.components.infrastructure.ordering.state_transfer import IncomingState
from quicksilver.live.components.infrastructure.ordering.states import (
    ACK_S,
    Bid,
    Candidate,
    Follower,
    LeaderWatch,
    Newcomer,
    Outsider,
    State,
)

STALL_S: Final = 2.0
"""The channel is stuck if what we said has not come back for this long."""


class Replica:
    """The machine: ``handle_*`` and plain verbs in, ``poll_event`` and ``poll_transmit`` out.

    Both must be polled until they give nothing, after every input, events first.
    """

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
        self._founders = founders
        self._patience_s = patience_s
        self._saved = saved
        self._former: Former | None = None
        """Where the user is, if this node was counted out."""
        self._refresh_updates = refresh_updates
        self._refresh_bytes = refresh_bytes
        self._refresh_at: float | None = None
        """When a passive replica last asked for a newer state, until it comes."""
        self._state: State = Outsider()
        self._ledger = Ledger(is_safe=safe, is_passive=passive)
        self._attendance = Attendance()
        self._outbox = Outbox(self._ledger)
        self._promised: Epoch = NO_EPOCH
        """Leaders and candidates of earlier epochs are not followed any more."""
        self._founding: Epoch = NO_EPOCH
        """The founder that was promised precedence."""
        self._incoming = IncomingState()
        self._now = 0.0
        self._viewed_at = 0.0
        self._echoed_at = -1e9
        self.rejected = 0
        """Messages that made no sense."""

    # Outputs

    def poll_event(self) -> Event | None:
        """Return the next event for the user and the disk, if there is one."""
        return self._ledger.poll_event()

    def poll_transmit(self) -> Transmit | None:
        """Return the next message to send, if there is one."""
        return self._outbox.poll_transmit()

    @property
    def is_settled(self) -> bool:
        """Whether all members have what was sent here."""
        return not self._ledger.own

    @property
    def has_unsent(self) -> bool:
        """Whether ``flush`` is wanted, after the inputs that are at hand."""
        return isinstance(self._state, Leader) and self._state.has_unsent

    def next_delay(self) -> float | None:
        """Return how soon ``handle_timeout`` is wanted; None: nothing is under way."""
        is_busy = bool(self._ledger.own)
        match self._state:
            case Outsider():
                return None
            case Newcomer() | Candidate():
                is_busy = True
            case Follower() as follower:
                if follower.ack_at is not None or follower.missing is not None:
                    return ACK_S
                is_busy = is_busy or follower.watch.leaderless_since is not None
            case Leader() as leader:
                is_busy = is_busy or leader.is_busy
            case _:
                assert_never(self._state)
        return RETRY_S if is_busy else None

    # Inputs

    def handle_view(self, nodes: frozenset[int], me: int, now: float) -> None:
        """Take the view of the group that the membership service has."""
        self._now = self._viewed_at = now
        attendance, ledger = self._attendance, self._ledger
        attendance.set_view(nodes)
        if me != attendance.me[0]:
            attendance.me = ledger.me = (me, self._number)
            match self._state:
                case Outsider():
                    ledger.author = ledger.me
                case Newcomer():
                    pass
                case Follower() | Candidate() | Leader():
                    # If all were counted out at once, somebody goes on with what it has.
                    self._former = ledger.former()
                case _:
                    assert_never(self._state)
            ledger.epoch = self._promised = self._founding = NO_EPOCH
            attendance.gone.clear()
            self._become_newcomer()
        self._review_members()

    def handle_message(self, data: bytes, now: float) -> None:
        """Take a message of the channel, our own included."""
        self._now = now
        if isinstance(self._state, Outsider):
            return  # whoever wants something of us asks again
        try:
            message = parse(data)
        except BadMessageError:
            self.rejected += 1
            return
        ledger = self._ledger
        if isinstance(message, Request):
            if message.author == ledger.author:
                self._note_echo()
            self._take_request(message)
            return
        speaker = speaker_of(message)
        if speaker == ledger.me:
            self._note_echo()
        elif speaker is not None:
            self._attendance.gone.discard(speaker)  # nobody speaks after goodbye
        self._take(message)

    def handle_timeout(self, now: float) -> None:
        """Take note that time has passed."""
        self._now = now
        state = self._state
        silent_since = now - self._patience_s if self._hears_itself() else None
        match state:
            case Outsider():
                return
            case Newcomer() | Candidate():
                state.handle_timeout(now, silent_since)
            case Follower():
                state.handle_timeout(now)
            case Leader():
                state.handle_timeout(now, silent_since=silent_since)
            case _:
                assert_never(state)
        self._ask_refresh()
        if silent_since is not None:
            self._suspect_leader(silent_since)
        self._review_members()

    def handle_checkpoint(self, ticket: int, state: bytes, now: float) -> None:
        """Take the state that the user was asked for; raises ValueError for one it was not."""
        self._now = now
        snapshot = self._ledger.handle_checkpoint(ticket, state)
        if snapshot is not None and isinstance(self._state, Leader):
            self._state.handle_captured(snapshot, now)

    def send(self, payload: bytes, now: float) -> None:
        """Send an update; raises TooMuchError, UpdateSizeError."""
        self._now = now
        number = self._ledger.own.add(payload)
        match self._state:
            case Outsider() | Newcomer():
                pass  # it is sent when there is a log to put it in
            case Follower() | Candidate() | Leader():
                self._outbox.send_update(number, payload, now)
            case _:
                assert_never(self._state)

    def flush(self, now: float) -> None:
        """Send what was ordered since the last time, together."""
        self._now = now
        if isinstance(self._state, Leader):
            self._state.flush()

    def capture(self) -> None:
        """Ask the user for its state, for our own use; ``Captured`` has it."""
        if self._has_state:
            self._ledger.capture(announce=True)

    def leave(self) -> None:
        """Say goodbye, and nothing else; the replica is of no further use."""
        self._ledger.drop_events()
        self._outbox.clear()
        if not isinstance(self._state, Outsider):
            self._outbox.say(Bye(self._ledger.me))

    # Silence

    def _note_echo(self) -> None:
        """The channel carries what we say; if it has not for a while, nobody was silent."""
        if not self._hears_itself() and not isinstance(self._state, Outsider):
            self._state.restart_patience(self._now)
        self._echoed_at = self._now

    def _hears_itself(self) -> bool:
        """Whether the channel works: else the silence of others means nothing."""
        return self._now - self._echoed_at < STALL_S

    # Messages

    def _take(self, message: MemberMessage) -> None:
        state = self._state
        match message:
            case Order():
                self._take_order(message)
            case Entries():
                self._take_entries(message)
            case Need():
                self._take_need(message)
            case Ack(epoch, who, top):
                self._attendance.hellos.pop(who, None)  # what it said as a newcomer is answered
                if isinstance(state, Leader) and epoch == self._ledger.epoch:
                    state.handle_ack(who, top, self._now)
            case Hello():
                self._attendance.note_hello(message)
                if isinstance(state, Leader):
                    state.greet(message.who, self._now)
                else:
                    self._review_members()
            case Bye(who):
                self._take_bye(who)
            case Query():
                self._take_query(message)
            case Report():
                self._take_report(message)
            case Lead():
                self._take_lead(message)
            case Chunk():
                self._take_chunk(message)
            case Refresh(who):
                if isinstance(state, Leader):
                    state.refresh(who, self._now)
            case Yield(epoch, to):
                is_for_us = to == self._ledger.me and epoch == self._ledger.epoch
                if is_for_us and isinstance(state, Follower):
                    self._become_candidate()
            case _:
                assert_never(message)

    def _take_request(self, request: Request) -> None:
        ledger, state = self._ledger, self._state
        if request.number <= ledger.table.last.get(request.author, 0):
            return
        if not ledger.log.put(request.author, request.number, request.payload, request.floor):
            return  # it is sent again
        if isinstance(state, Leader):
            state.order_from(request.author)
        else:
            self._advance()

    def _take_order(self, order: Order) -> None:
        if not self._follow(order.epoch):
            return
        log = self._ledger.log
        for index, entry in enumerate(order.entries, order.first):
            log.note_order(index, entry)
        if not self._has_state:
            return
        self._ledger.set_stable(min(order.stable, order.top))
        self._advance()
        state = self._state
        if isinstance(state, Follower):
            if order.top > log.top:
                state.note_missing(self._now)
            if not order.entries and order.stable < order.top:
                state.ack()  # the leader asks
        self._ask_refresh()

    def _take_entries(self, entries: Entries) -> None:
        is_leading = isinstance(self._state, Leader)
        if entries.to != self._ledger.me or entries.epoch != self._promised or is_leading:
            return
        self._ledger.log.note_piece(entries.first, entries.entries)
        self._advance()
        if isinstance(self._state, Candidate):
            self._check_candidacy(self._state)

    def _take_need(self, need: Need) -> None:
        log, state = self._ledger.log, self._state
        if need.to != self._ledger.me or not self._has_state:
            return
        if need.first <= log.trimmed:
            if isinstance(state, Leader):
                state.restart_member(need.who, self._now)
            elif need.who == self._promised[1:] and isinstance(state, Follower):
                self._become_candidate()  # the candidate lacks what only a state can give it
            return
        piece = log.piece(need.first, need.last)
        if piece:
            self._outbox.say(Entries(self._promised, need.who, need.first, piece))

    def _take_bye(self, who: Member) -> None:
        attendance, ledger = self._attendance, self._ledger
        is_leader = who == ledger.epoch[1:]
        if who == ledger.me:
            return
        if who in ledger.table.roster or who in attendance.hellos or is_leader:
            attendance.gone.add(who)
            attendance.hellos.pop(who, None)
            self._review_members()

    def _take_query(self, query: Query) -> None:
        epoch = query.epoch
        ledger = self._ledger
        if query.is_founding:
            self._answer_founder(epoch)
            return
        if epoch[1:] == ledger.me or epoch[1] not in self._attendance.nodes:
            return
        if epoch < self._promised:
            return
        if epoch > self._promised:
            self._promise(epoch)
        if isinstance(self._state, Newcomer | Follower):
            self._state.watch.heard_at = self._now
        self._outbox.say(Report(epoch, ledger.me, self._has_state, ledger.log.top))

    def _answer_founder(self, epoch: Epoch) -> None:
        """Tell a newcomer whether it may found the log."""
        ledger, state = self._ledger, self._state
        if not isinstance(state, Newcomer):
            self._outbox.say(Report(epoch, ledger.me, True, ledger.log.top))
        elif epoch >= self._founding:
            self._founding = epoch
            if state.bid is not None and state.bid.epoch != epoch:
                state.bid = None
            # After everybody else on this node has spoken: the first answer of a node counts.
            self._outbox.say(Report(epoch, ledger.me, False, 0), is_later=True)

    def _take_report(self, report: Report) -> None:
        if report.has_state:
            self._attendance.hellos.pop(report.who, None)
        match self._state:
            case Newcomer(bid=Bid() as bid) as newcomer if bid.epoch == report.epoch:
                if report.has_state:
                    newcomer.bid = None  # its members will find a leader, and greet us
                else:
                    bid.answered.add(report.who[0])
                    self._check_bid(bid)
            case Candidate() as candidate if candidate.epoch == report.epoch:
                candidate.reports[report.who] = report
                self._check_candidacy(candidate)
            case _:
                pass

    def _take_lead(self, lead: Lead) -> None:
        if not self._follow(lead.epoch):
            return
        state, ledger = self._state, self._ledger
        match state:
            case Newcomer():
                state.greet(self._now, at_once=True)
            case Follower() if ledger.log.top > lead.top:
                self._become_newcomer()  # the others went on without us
            case Follower():
                ledger.set_stable(lead.stable)
                if lead.top > ledger.log.top:
                    state.note_missing(self._now, wait_s=0.0)
                    state.ask_missing(self._now)
                state.ack()
                self._outbox.send_own(self._now)
            case Outsider() | Candidate() | Leader():
                raise AssertionError(f"{state} follows nobody")
            case _:
                assert_never(state)

    def _take_chunk(self, chunk: Chunk) -> None:
        state, ledger = self._state, self._ledger
        if chunk.epoch[1:] == ledger.me and isinstance(state, Leader):
            state.handle_echo(chunk, self._now)
            return
        if ledger.me not in chunk.to or not self._follow(chunk.epoch):
            return
        state = self._state
        is_refresh = isinstance(state, Follower) and self._refresh_at is not None
        if isinstance(state, Follower) and not is_refresh:
            is_help = chunk.index > ledger.log.top and state.is_stuck(self._now)
            if not is_help:
                return  # meant for a time when we had none
        if isinstance(state, Newcomer):
            state.greeted_at = self._now  # no need to ask while it comes
        try:
            snapshot = self._incoming.take(chunk)
        except BadMessageError:
            self.rejected += 1
            return
        if snapshot is None:
            return
        if is_refresh:
            self._refresh_at = None
            ledger.rebase(snapshot)
        if snapshot.index > ledger.log.top or isinstance(state, Newcomer):
            self._install(snapshot)

    # Changes of state

    @property
    def _has_state(self) -> bool:
        """Whether this replica has a copy of the state that users share."""
        return isinstance(self._state, Follower | Candidate | Leader)

    def _become_newcomer(self) -> None:
        """Start over: without a state, and with our updates that may be in none."""
        self._ledger.become_empty()
        self._incoming = IncomingState()
        self._refresh_at = None
        kept = self._former or self._saved
        watch = LeaderWatch(self._now)
        newcomer = self._state = Newcomer(self._attendance, self._outbox, kept, watch)
        newcomer.greet(self._now)

    def _become_follower(self) -> None:
        watch = LeaderWatch(self._now)
        self._state = Follower(self._ledger, self._outbox, watch, acked=self._ledger.log.top)

    def _become_candidate(self) -> None:
        """Ask to lead the next epoch."""
        now = self._now
        self._promised = (self._promised[0] + 1, *self._ledger.me)
        self._ledger.log.ahead.clear()
        candidate = self._state = Candidate(
            self._promised, now, now, self._ledger, self._attendance, self._outbox
        )
        self._outbox.say(Query(candidate.epoch, False))
        self._check_candidacy(candidate)

    def _become_leader(self, epoch: Epoch, acks: dict[Member, int]) -> None:
        ledger = self._ledger
        ledger.epoch = self._promised = epoch
        ledger.log.ahead.clear()
        leader = self._state = Leader(ledger, self._attendance, self._outbox, acks, self._now)
        self._outbox.say(Lead(epoch, ledger.log.top, ledger.stable))
        leader.handle_members(self._now)
        self._outbox.send_own(self._now)

    def _install(self, snapshot: Snapshot) -> None:
        """Start from a state that the leader sent."""
        self._former = None
        self._ledger.start_from(snapshot)
        self._become_follower()
        self._advance()
        if isinstance(self._state, Follower):
            self._state.ack()
            self._outbox.send_own(self._now)

    def _follow(self, epoch: Epoch) -> bool:
        """Take note of a leader; False if it is one of the past, or this replica.

        A node that was counted out and does not know it yet may speak as who it was,
        and of epochs that are higher than ours: it is not in the view.
        """
        if epoch < self._promised or epoch[1] not in self._attendance.nodes:
            return False
        if epoch > self._promised:
            if self._has_state:
                # An epoch that did not ask us: the others take us for gone.
                self._become_newcomer()
            self._promise(epoch)
        state = self._state
        if not isinstance(state, Newcomer | Follower):
            return False
        if isinstance(state, Newcomer) and self._ledger.epoch != epoch:
            state.bid = None
        self._ledger.epoch = epoch
        state.watch.heard_at = self._now
        state.watch.leaderless_since = None
        return True

    def _promise(self, epoch: Epoch) -> None:
        """Follow no earlier epoch than this from now on."""
        self._promised = epoch
        self._ledger.log.ahead.clear()
        state = self._state
        match state:
            case Newcomer():
                state.bid = None
                state.watch.heard_at = self._now
            case Follower():
                state.watch.heard_at = self._now
            case Candidate() | Leader():
                self._become_follower()
            case Outsider():
                raise AssertionError("an outsider hears nothing")
            case _:
                assert_never(state)

    # Becoming the leader

    def _check_bid(self, bid: Bid) -> None:
        """Found the log if no node of the view has a state."""
        nodes = self._attendance.nodes
        if nodes <= bid.answered and len(nodes) >= self._founders:
            self._found(bid.epoch)

    def _found(self, epoch: Epoch) -> None:
        """Begin a log with what we had, or the disk has, or with nothing."""
        ledger = self._ledger
        ledger.epoch = self._promised = epoch
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
        self._become_leader(epoch, {})

    def _check_candidacy(self, candidate: Candidate) -> None:
        """Lead if all members have reported, and nobody has more of the log."""
        acks = candidate.check(self._now)
        if acks is not None:
            self._become_leader(candidate.epoch, acks)

    # Who is there

    def _review_members(self) -> None:
        """Act on who is there: lead, elect, or found."""
        state = self._state
        match state:
            case Outsider():
                pass
            case Leader():
                state.handle_members(self._now)
            case Candidate():
                self._check_candidacy(state)
            case Newcomer(bid=Bid() as bid):
                self._check_bid(bid)
            case Newcomer(watch=watch) | Follower(watch=watch):
                if self._promised != NO_EPOCH and self._attendance.is_there(self._promised[1:]):
                    watch.leaderless_since = None
                    return
                if watch.leaderless_since is None:
                    watch.leaderless_since = self._now
                self._stand_if_due(state)
            case _:
                assert_never(state)

    def _stand_if_due(self, state: Newcomer | Follower) -> None:
        """Ask to lead, or to found, if it is this replica's turn; nobody leads."""
        attendance, ledger = self._attendance, self._ledger
        if isinstance(state, Follower):
            if attendance.successor(ledger.table) == ledger.me:
                self._become_candidate()
            return
        is_patient = self._now - self._viewed_at >= self._patience_s
        is_enough = len(attendance.nodes) >= self._founders
        if is_enough and attendance.has_best_claim(is_patient=is_patient):
            before = 0 if state.kept is None else state.kept.epoch[0]
            number = max(self._promised[0], self._founding[0], before) + 1
            self._founding = (number, *ledger.me)
            state.make_bid(self._founding, self._now)

    def _suspect_leader(self, silent_since: float) -> None:
        """Give up a leader, or one who should become it, that is silent for too long."""
        state, attendance, ledger = self._state, self._attendance, self._ledger
        match state:
            case Newcomer(bid=bid):
                is_waiting = bid is None
            case Follower():
                is_waiting = bool(ledger.own)
            case Outsider() | Candidate() | Leader():
                return
            case _:
                assert_never(state)
        expected: Member = self._promised[1:]
        if is_waiting and self._promised != NO_EPOCH and state.watch.heard_at <= silent_since:
            attendance.gone.update(attendance.others([expected]))
        if state.watch.is_leaderless(silent_since):
            state.watch.leaderless_since = self._now
            successor = attendance.successor(ledger.table)
            attendance.gone.update(attendance.others([] if successor is None else [successor]))

    # The log

    def _append(self, entry: Entry) -> None:
        self._ledger.append(entry)
        self._attendance.note_entry(entry)

    def _advance(self) -> None:
        """Add what is complete."""
        if not self._has_state:
            return
        added = self._ledger.advance()
        for entry in added:
            if entry.kind != UPDATE:
                self._attendance.note_entry(entry)
        if added and added[-1].kind == LEAVE and added[-1].who == self._ledger.me:
            self._become_newcomer()  # they took us for gone
        elif isinstance(self._state, Follower):
            self._state.handle_added(added, self._now)

    def _ask_refresh(self) -> None:
        """Ask for a newer state if ours has a long tail and the leader has a user."""
        ledger = self._ledger
        if not ledger.is_passive or not isinstance(self._state, Follower | Candidate):
            return
        if not ledger.is_tail_long(self._refresh_updates, self._refresh_bytes):
            return
        asked_at = self._refresh_at
        is_old = asked_at is None or self._now - asked_at >= self._patience_s
        if is_old and ledger.epoch[1:] not in ledger.table.passive:
            self._refresh_at = self._now
            self._outbox.ask_refresh()
