"""One replica of a checkpointed channel: a sans-IO machine over messages, views and time.

The package's docstring says how the channel works. Here inputs come to the parts: to
``succession``, which decides what state the replica is in, and to the state itself.
"""

from __future__ import annotations

from typing import Final, assert_never

from quicksilver.live.codec import BadMessageError
from quicksilver.live.components.infrastructure.ordering.attendance import Attendance
from quicksilver.live.components.infrastructure.ordering.events import Event, Transmit
from quicksilver.live.components.infrastructure.ordering.leader import Leader
from quicksilver.live.components.infrastructure.ordering.ledger import Ledger, Saved
from quicksilver.live.components.infrastructure.ordering.messages import (
    Ack,
    Bye,
    Chunk,
    Entries,
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
    Yield,
    parse,
    speaker_of,
)
from quicksilver.live.components.infrastructure.ordering.outbox import RETRY_S, Outbox
from quicksilver.live.components.infrastructure.ordering.state_transfer import IncomingState
from quicksilver.live.components.infrastructure.ordering.states import (
    ACK_S,
    Candidate,
    Follower,
    Newcomer,
    Outsider,
    State,
)
from quicksilver.live.components.infrastructure.ordering.succession import Succession

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
        self._patience_s = patience_s
        self._refresh_updates = refresh_updates
        self._refresh_bytes = refresh_bytes
        self._ledger = Ledger(is_safe=safe, is_passive=passive)
        self._attendance = Attendance()
        self._outbox = Outbox(self._ledger)
        self._incoming = IncomingState()
        self._succession = Succession(
            self._ledger,
            self._attendance,
            self._outbox,
            self._incoming,
            founders=founders,
            patience_s=patience_s,
            saved=saved,
        )
        self._now = 0.0
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
        state = self._state
        match state:
            case Outsider():
                return None
            case Newcomer() | Candidate():
                is_busy = True
            case Follower():
                if state.ack_at is not None or state.missing is not None:
                    return ACK_S
                is_busy = is_busy or state.watch.leaderless_since is not None
            case Leader():
                is_busy = is_busy or state.is_busy
            case _:
                assert_never(state)
        return RETRY_S if is_busy else None

    @property
    def _state(self) -> State:
        return self._succession.state

    # Inputs

    def handle_view(self, nodes: frozenset[int], me: int, now: float) -> None:
        """Take the view of the group that the membership service has."""
        self._now = now
        self._succession.handle_view(nodes, (me, self._number), now)

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
            self._succession.suspect_leader(silent_since, now)
        self._succession.review_members(now)

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
        # A newcomer's updates are sent when there is a log to put them in.
        if self._succession.has_state:
            self._outbox.send_update(number, payload, now)

    def flush(self, now: float) -> None:
        """Send what was ordered since the last time, together."""
        self._now = now
        if isinstance(self._state, Leader):
            self._state.flush()

    def capture(self) -> None:
        """Ask the user for its state, for our own use; ``Captured`` has it."""
        if self._succession.has_state:
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
        state, now = self._state, self._now
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
                    state.handle_ack(who, top, now)
            case Hello():
                self._attendance.note_hello(message)
                if isinstance(state, Leader):
                    state.greet(message.who, now)
                else:
                    self._succession.review_members(now)
            case Bye(who):
                self._take_bye(who)
            case Query():
                self._succession.handle_query(message, now)
            case Report():
                self._succession.handle_report(message, now)
            case Lead():
                self._succession.handle_lead(message, now)
            case Chunk():
                self._take_chunk(message)
            case Refresh(who):
                if isinstance(state, Leader):
                    state.refresh(who, now)
            case Yield(epoch, to):
                is_for_us = to == self._ledger.me and epoch == self._ledger.epoch
                if is_for_us and isinstance(state, Follower):
                    self._succession.become_candidate(now)
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
            self._succession.advance(self._now)

    def _take_order(self, order: Order) -> None:
        succession, now = self._succession, self._now
        if not succession.follow(order.epoch, now):
            return
        log = self._ledger.log
        for index, entry in enumerate(order.entries, order.first):
            log.note_order(index, entry)
        if not succession.has_state:
            return
        self._ledger.set_stable(min(order.stable, order.top))
        succession.advance(now)
        state = self._state
        if isinstance(state, Follower):
            if order.top > log.top:
                state.note_missing(now)
            if not order.entries and order.stable < order.top:
                state.ack()  # the leader asks
        self._ask_refresh()

    def _take_entries(self, entries: Entries) -> None:
        succession, ledger = self._succession, self._ledger
        is_leading = isinstance(self._state, Leader)
        if entries.to != ledger.me or entries.epoch != succession.promised or is_leading:
            return
        ledger.log.note_piece(entries.first, entries.entries)
        succession.advance(self._now)
        if isinstance(self._state, Candidate):
            succession.check_candidacy(self._state, self._now)

    def _take_need(self, need: Need) -> None:
        log, state, succession = self._ledger.log, self._state, self._succession
        if need.to != self._ledger.me or not succession.has_state:
            return
        if need.first <= log.trimmed:
            if isinstance(state, Leader):
                state.restart_member(need.who, self._now)
            elif need.who == succession.promised[1:] and isinstance(state, Follower):
                # The candidate lacks what only a state can give it.
                succession.become_candidate(self._now)
            return
        piece = log.piece(need.first, need.last)
        if piece:
            self._outbox.say(Entries(succession.promised, need.who, need.first, piece))

    def _take_bye(self, who: Member) -> None:
        attendance, ledger = self._attendance, self._ledger
        is_leader = who == ledger.epoch[1:]
        if who == ledger.me:
            return
        if who in ledger.table.roster or who in attendance.hellos or is_leader:
            attendance.gone.add(who)
            attendance.hellos.pop(who, None)
            self._succession.review_members(self._now)

    def _take_chunk(self, chunk: Chunk) -> None:
        state, ledger, now = self._state, self._ledger, self._now
        if chunk.epoch[1:] == ledger.me and isinstance(state, Leader):
            state.handle_echo(chunk, now)
            return
        if ledger.me not in chunk.to or not self._succession.follow(chunk.epoch, now):
            return
        state = self._state
        is_refresh = isinstance(state, Follower) and self._incoming.refresh_asked_at is not None
        if isinstance(state, Follower) and not is_refresh:
            is_help = chunk.index > ledger.log.top and state.is_stuck(now)
            if not is_help:
                return  # meant for a time when we had none
        if isinstance(state, Newcomer):
            state.greeted_at = now  # no need to ask while it comes
        try:
            snapshot = self._incoming.take(chunk)
        except BadMessageError:
            self.rejected += 1
            return
        if snapshot is None:
            return
        if is_refresh:
            self._incoming.refresh_asked_at = None
            ledger.rebase(snapshot)
        if snapshot.index > ledger.log.top or isinstance(state, Newcomer):
            self._succession.install(snapshot, now)

    def _ask_refresh(self) -> None:
        """Ask for a newer state if ours has a long tail and the leader has a user."""
        ledger = self._ledger
        if not ledger.is_passive or not isinstance(self._state, Follower | Candidate):
            return
        if not ledger.is_tail_long(self._refresh_updates, self._refresh_bytes):
            return
        asked_at = self._incoming.refresh_asked_at
        is_old = asked_at is None or self._now - asked_at >= self._patience_s
        if is_old and ledger.epoch[1:] not in ledger.table.passive:
            self._incoming.refresh_asked_at = self._now
            self._outbox.ask_refresh()
