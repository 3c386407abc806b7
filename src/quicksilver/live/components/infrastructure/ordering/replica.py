"""One replica of a checkpointed channel: a sans-IO machine over messages, views and time.

Dissertation 6.2.1 asks for "total ordering and a simple form of state transfer,
whereby a newly activated proxy receives a checkpoint created on-demand from one of
the existing proxies, in a manner synchronized with the stream of updates". Below
is a channel that is FIFO from each sender and views that come from one service but
are not synchronized with the messages. The method:

- **A log.** One member, the leader, gives every update an index. Updates travel
  from their authors to everybody; the leader sends only their names in order. A
  member's coming and going are entries of the log too, so that all see them at
  the same place among the updates. Who lacks a piece of the log asks for it.
- **Stability.** Members say how far they have the log. What all have is stable
  and is forgotten; the leader orders no more than a window past that.
- **A new leader.** When the leader is not in the view any more, the member that
  joined the log earliest asks all others how far they are. Each answers, and from
  then on follows no earlier epoch. The new epoch begins after the longest log that
  any of them has. So what one survivor was given, all are given, in one order.
- **A newcomer** is given a place in the log first. When every member knows of it,
  the leader has its user make a checkpoint and sends it, in chunks; the newcomer
  goes on from that index. If the leader crashes, the next one sends another.
- **The first.** If nobody has a state, newcomers ask every node of the view, and
  the one with the newest state on disk, or else the least number, founds the log.

What is guaranteed: every user gets ``initialize`` first and then updates in an
order that is the same for all who stay in the views, each update once, each
author's in the order they were sent, as long as the author stays. The membership
service decides who that is: on the other side of a partition, a member may be
given updates that the views' side never sees; when it is back, it is initialized
again, and those of its own updates that the new state does not have are sent
again. With ``safe``, a user is given only what all members have, so that this
takes back nothing but what every member of the old view had.
"""

from __future__ import annotations

import msgspec

from quicksilver.live.components.infrastructure.ordering.electing import Election
from quicksilver.live.components.infrastructure.ordering.holding import (
    ACK_S,
    RETRY_S,
    Former,
    Holding,
)
from quicksilver.live.components.infrastructure.ordering.leading import Leadership
from quicksilver.live.components.infrastructure.ordering.messages import (
    JOIN,
    LEAVE,
    NO_EPOCH,
    UPDATE,
    Ack,
    BadMessageError,
    Bye,
    Chunk,
    Entries,
    Entry,
    Epoch,
    Hello,
    Lead,
    Member,
    Message,
    Need,
    Order,
    Query,
    Refresh,
    Report,
    Request,
    Snapshot,
    Yield,
    parse,
    parse_snapshot,
)

STALL_S = 2.0
"""The channel is stuck if what we said has not come back for this long."""
HELLOS_MAX = 10_000
"""Newcomers that may wait; more ask again."""


class Replica(Holding):
    """The machine. Inputs are ``handle_*`` and ``send``; ``effects`` must be drained after each."""

    # Inputs

    def handle_view(self, nodes: frozenset[int], me: int, now: float) -> None:
        """Take the view of the group that the membership service has."""
        self.now = now
        before = self.me[0]
        self.nodes = nodes
        self.viewed_at = now
        self.hellos = {who: hello for who, hello in self.hellos.items() if who[0] in nodes}
        self.gone = {who for who in self.gone if who[0] in nodes}
        if me != before:
            self.me = (me, self._number)
            if self.author is None:
                self.author = self.me
            if self.has_state:
                # If all were counted out at once, somebody goes on with what it has.
                self.former = Former(self.epoch, self.applied, self.shown)
            self.epoch = self.promised = self.founding = NO_EPOCH
            self.gone.clear()
            self.become_newcomer()
        self._look_around()

    def handle_message(self, data: bytes, now: float) -> None:
        """Take a message of the channel, our own included."""
        self.now = now
        if self.author is None:
            return  # no view yet: whoever wants something of us asks again
        try:
            message = parse(data)
        except BadMessageError:
            self.rejected += 1
            return
        speaker = self._speaker(message)
        if speaker == self.me:
            self._note_echo()
        elif speaker is not None:
            self.gone.discard(speaker)  # nobody speaks after goodbye
        self._take(message)

    def handle_tick(self, now: float) -> None:
        """Some time has passed."""
        self.now = now
        if self.author is None:
            return
        if self._ack_due_at is not None and now >= self._ack_due_at:
            self._ack()
        if not self.has_state:
            self._greet()
        elif self._own and not self._is_leading():
            self._resend_own()
        if self.has_state and self._missing_since is not None:
            self._ask_missing()
        hears_itself = self._hears_itself()
        if self.leadership is not None:
            self.leadership.handle_tick(may_suspect=hears_itself)
        if self.election is not None:
            self.election.handle_tick(may_suspect=hears_itself)
        self._refresh()
        if hears_itself:
            self._suspect_leader()
        self._look_around()

    def handle_checkpoint(self, ticket: int, state: bytes, now: float) -> None:
        """Take the state that the user was asked for; raises ValueError for one it was not."""
        self.now = now
        if ticket != self._ticket:
            if 0 < ticket <= self._tickets:
                return  # it was asked for before we had to start over
            raise ValueError(f"nobody asked for checkpoint {ticket}")
        self._ticket = None
        self._take_state(state, [])
        self._apply()

    def send(self, payload: bytes, now: float) -> None:
        """Send an update; raises TooMuchError, UpdateSizeError."""
        self.now = now
        number = self._own.add(payload)
        if self.has_state:
            if len(self._own) == 1:
                self._sent_at = now
            self.emit(Request(self.name, number, payload, self._own.floor))

    def leave(self) -> None:
        """Say goodbye; the replica is of no further use."""
        if self.author is not None:
            self.emit(Bye(self.me))

    def capture(self) -> None:
        """Ask the user for its state, for our own use; ``Captured`` has it."""
        if self.has_state:
            self._is_capture_own = True
            self.want_capture()

    @property
    def has_unsent(self) -> bool:
        """Whether ``flush`` is wanted, after the inputs that are at hand."""
        return self.leadership is not None and self.leadership.has_unsent()

    def flush(self, now: float) -> None:
        """Send what was ordered since the last time, together."""
        self.now = now
        if self.leadership is not None:
            self.leadership.flush()

    def next_delay(self) -> float | None:
        """Return how soon ``handle_tick`` is wanted; None: nothing is under way."""
        if self.author is None:
            return None
        if self._ack_due_at is not None or self._missing_since is not None:
            return ACK_S
        busy = (
            not self.has_state
            or self._own
            or self.election is not None
            or self._leaderless_since is not None
            or (self.leadership is not None and self.leadership.is_busy())
        )
        return RETRY_S if busy else None

    # Silence

    def _speaker(self, message: Message) -> Member | None:
        """Return who said something, if it tells."""
        match message:
            case Request():
                return self.me if message.author == self.author else None
            case Hello() | Ack() | Report() | Need() | Refresh():
                return message.who
            case Order() | Lead() | Query() | Chunk():
                return message.epoch[1:]
            case _:
                return None

    def _note_echo(self) -> None:
        """The channel carries what we say; if it has not for a while, nobody was silent."""
        if not self._hears_itself():
            self._leader_heard_at = self.now
            if self._leaderless_since is not None:
                self._leaderless_since = self.now
            if self.leadership is not None:
                self.leadership.restart_patience()
            if self.election is not None:
                self.election.restart_patience()
        self._echoed_at = self.now

    def _hears_itself(self) -> bool:
        """Whether the channel works: else the silence of others means nothing."""
        return self.now - self._echoed_at < STALL_S

    # Messages

    def _take(self, message: Message) -> None:
        match message:
            case Request():
                self._take_request(message)
            case Order():
                self._take_order(message)
            case Entries():
                self._take_entries(message)
            case Need():
                self._take_need(message)
            case Ack():
                self.hellos.pop(message.who, None)  # what it said as a newcomer is answered
                if self.leadership is not None and message.epoch == self.epoch:
                    self.leadership.handle_ack(message.who, message.top)
            case Hello():
                self._take_hello(message)
            case Bye():
                self._drop_member(message.who)
            case Query():
                self._take_query(message)
            case Report():
                if message.has_state:
                    self.hellos.pop(message.who, None)
                if self.election is not None:
                    self.election.handle_report(message)
            case Lead():
                self._take_lead(message)
            case Chunk():
                self._take_chunk(message)
            case Refresh():
                if self.leadership is not None:
                    self.leadership.refresh(message.who)
            case Yield():
                is_for_us = message.to == self.me and message.epoch == self.epoch
                if is_for_us and self.has_state and self.election is None:
                    Election.stand(self)

    def _take_request(self, request: Request) -> None:
        if request.number <= self.table.last.get(request.author, 0):
            return
        if not self.log.put(request.author, request.number, request.payload, request.floor):
            return  # it is sent again
        if self.leadership is not None:
            self.leadership.order_from(request.author)
        elif self.has_state:
            self._advance()

    def _take_order(self, order: Order) -> None:
        if not self._follow(order.epoch) or self._is_leading():
            return
        self._leader_heard_at = self.now
        for index, entry in enumerate(order.entries, order.first):
            self.log.note_order(index, entry)
        if not self.has_state:
            return
        self.set_stable(min(order.stable, order.top))
        self._advance()
        if order.top > self.log.top:
            self._note_missing()
        if not order.entries and order.stable < order.top:
            self._ack()  # the leader asks
        self._refresh()

    def _take_entries(self, entries: Entries) -> None:
        if entries.to != self.me or entries.epoch != self.promised or self._is_leading():
            return
        for index, entry in enumerate(entries.entries, entries.first):
            if index <= self.log.top:
                continue
            if entry.kind == UPDATE:
                self.log.put(entry.who, entry.number, entry.payload)
            self.log.note_order(index, entry)
        self._advance()
        if self.election is not None:
            self.election.check()

    def _take_need(self, need: Need) -> None:
        if need.to != self.me or not self.has_state:
            return
        if need.first <= self.log.trimmed:
            if self.leadership is not None:
                self.leadership.restart_joiner(need.who)
            elif need.who == self.promised[1:] and self.election is None:
                Election.stand(self)  # the candidate lacks what only a state can give it
            return
        piece = self.log.piece(need.first, need.last)
        if piece:
            self.emit(Entries(self.promised, need.who, need.first, piece))

    def _take_hello(self, hello: Hello) -> None:
        if len(self.hellos) < HELLOS_MAX or hello.who in self.hellos:
            # Its view may be newer than ours: it is greeted when ours shows it.
            self.hellos[hello.who] = hello
            self.gone.discard(hello.who)
        if self.leadership is not None:
            self.leadership.greet(hello.who)
        else:
            self._look_around()

    def _take_query(self, query: Query) -> None:
        candidate: Member = query.epoch[1:]
        if query.is_founding:
            self._answer_founder(query.epoch)
        elif candidate == self.me or candidate[0] not in self.nodes:
            return
        elif query.epoch >= self.promised:
            if query.epoch > self.promised:
                self._promise(query.epoch)
            self._leader_heard_at = self.now
            self.emit(Report(query.epoch, self.me, self.has_state, self.log.top))

    def _answer_founder(self, epoch: Epoch) -> None:
        """Tell a newcomer whether it may found the log."""
        if self.has_state:
            self.emit(Report(epoch, self.me, True, self.log.top))
        elif epoch >= self.founding:
            self.founding = epoch
            if self.election is not None and self.election.epoch != epoch:
                self.election = None
            # After everybody else on this node has spoken: the first answer of a node counts.
            self.emit(Report(epoch, self.me, False, 0), is_later=True)

    def _take_lead(self, lead: Lead) -> None:
        if not self._follow(lead.epoch) or self._is_leading():
            return
        if not self.has_state:
            self._hello_at = -1.0
            self._greet()
            return
        if self.log.top > lead.top:
            self.become_newcomer()  # the others went on without us
            return
        self.set_stable(lead.stable)
        if lead.top > self.log.top:
            self._note_missing(at_once=True)
        self._ack()
        self._send_own()

    def _take_chunk(self, chunk: Chunk) -> None:
        if chunk.epoch[1:] == self.me and self.leadership is not None:
            self.leadership.handle_echo(chunk)
            return
        if self.me not in chunk.to or not self._follow(chunk.epoch):
            return
        is_refresh = self.has_state and self._refresh_at is not None
        if self.has_state and not is_refresh and not self._is_stuck(chunk.index):
            return  # meant for a time when we had none
        self._hello_at = self.now  # no need to ask while it comes
        data = self._chunks.take(chunk)
        if data is None:
            return
        try:
            snapshot = parse_snapshot(data)
        except BadMessageError:
            self.rejected += 1
            return
        if is_refresh:
            self._rebase(snapshot)
        if snapshot.index > self.log.top or not self.has_state:
            self._install(snapshot)

    # Epochs

    def _follow(self, epoch: Epoch) -> bool:
        """Take note of a leader; False if it is one of the past.

        A node that was counted out and does not know it yet may speak as who it was,
        and of epochs that are higher than ours: it is not in the view.
        """
        if epoch < self.promised or epoch[1] not in self.nodes:
            return False
        if epoch > self.promised:
            if self.has_state:
                # An epoch that did not ask us: the others take us for gone.
                self.become_newcomer()
            self._promise(epoch)
        if self.epoch != epoch:
            self.epoch = epoch
            self.election = None
        self._leader_heard_at = self.now
        self._leaderless_since = None
        return True

    def _promise(self, epoch: Epoch) -> None:
        self.promised = epoch
        self.log.ahead.clear()
        self.leadership = None
        self.election = None
        self._leader_heard_at = self.now

    def begin_epoch(self, epoch: Epoch, acks: dict[Member, int]) -> None:
        """The election is won: lead."""
        self.epoch = self.promised = epoch
        self.election = None
        self._leaderless_since = None
        self._missing_since = None
        self.log.ahead.clear()
        self.leadership = Leadership(self, acks)
        self.emit(Lead(epoch, self.log.top, self.stable))
        self.leadership.begin()
        self._send_own()

    def found(self, epoch: Epoch) -> None:
        """Nobody has a state: begin with what we had, or the disk has, or with nothing."""
        self.epoch = self.promised = epoch
        if self.former is not None:
            self._resume(self.former)
        elif self.saved is not None:
            # The members of those days are gone, and so are entries about them.
            self._start_from(msgspec.structs.replace(self.saved.snapshot, roster=[]))
            for entry in self.saved.entries:
                self.append(entry)
        else:
            self._start_from(Snapshot(epoch, 0, [], [], None))
        for member in list(self.table.roster):
            self.append(Entry(LEAVE, member))
        self.append(Entry(JOIN, self.me, int(self.is_passive), self.name))
        self.begin_epoch(epoch, {})

    # Who is there

    def is_there(self, member: Member) -> bool:
        """Whether a member is in the view and did not go."""
        return member[0] in self.nodes and member not in self.gone

    def _drop_member(self, who: Member) -> None:
        is_known = who in self.table.roster or who in self.hellos or who == self.leader
        if who == self.me or not is_known:
            return
        self.gone.add(who)
        self.hellos.pop(who, None)
        self._look_around()

    def _look_around(self) -> None:
        """Act on who is there: lead, elect, or found."""
        if self.author is None:
            return
        if self.leadership is not None:
            self.leadership.handle_members()
            return
        if self.election is not None:
            self.election.check()
            return
        candidate: Member = self.promised[1:]
        if self.promised != NO_EPOCH and self.is_there(candidate):
            self._leaderless_since = None
            return
        if self._leaderless_since is None:
            self._leaderless_since = self.now
        Election.consider(self)

    def _suspect_leader(self) -> None:
        """Give up a leader, or one who should become it, that is silent for too long."""
        heard = self._leader_heard_at
        waiting = not self.has_state or (self._own and not self._is_leading())
        if self.promised != NO_EPOCH and self.leadership is None and self.election is None:
            candidate: Member = self.promised[1:]
            is_quiet = self.now - heard >= self.patience_s
            if waiting and is_quiet and candidate != self.me and self.is_there(candidate):
                self.gone.add(candidate)
        since = self._leaderless_since
        if since is not None and self.now - since >= self.patience_s:
            successor = self.successor()
            self._leaderless_since = self.now
            if successor is not None and successor != self.me:
                self.gone.add(successor)

    def successor(self) -> Member | None:
        """Return who should lead if the leader is gone: who joined first, and has a user."""
        there = [
            one
            for one in self.table.roster
            if self.is_there(one) and (one == self.me or one not in self.hellos)
        ]
        with_user = (one for one in there if one not in self.table.passive)
        return next(with_user, there[0] if there else None)
