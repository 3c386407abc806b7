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

from collections import deque
from typing import TypeAlias

import msgspec

from quicksilver.live.components.infrastructure.ordering.electing import Election
from quicksilver.live.components.infrastructure.ordering.leading import Leadership
from quicksilver.live.components.infrastructure.ordering.log import Log
from quicksilver.live.components.infrastructure.ordering.messages import (
    JOIN,
    LEAVE,
    NO_EPOCH,
    UPDATE,
    UPDATE_BYTES_MAX,
    Ack,
    Author,
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
    Report,
    Request,
    Snapshot,
    encode,
    parse,
    parse_snapshot,
)
from quicksilver.live.components.infrastructure.ordering.table import Table

RETRY_S = 0.25
"""What was asked for and has not come is asked for again after this."""
ACK_S = 0.05
"""How long a member may take to say how far it is …"""
ACK_ENTRIES = 256
"""… or how many entries it may add."""
HELLOS_MAX = 10_000
"""Newcomers that may wait; more ask again."""
OWN_BYTES_MAX = 64 << 20
OWN_MAX = 200_000
"""What a user may have sent that is not on all members."""


class Send(msgspec.Struct, frozen=True):
    """Send this to everybody."""

    message: bytes
    is_later: bool = False
    """Only after everything else that is under way on this node."""


class Initialize(msgspec.Struct, frozen=True):
    """The user starts from this state."""

    state: bytes | None
    snapshot: Snapshot


class Receive(msgspec.Struct, frozen=True):
    """The user gets an update."""

    message: bytes


class Capture(msgspec.Struct, frozen=True):
    """The user is asked for its state."""

    ticket: int


class Captured(msgspec.Struct, frozen=True):
    """The user gave its state, because ``capture`` was called."""

    snapshot: Snapshot


class Participants(msgspec.Struct, frozen=True):
    """The members at this place among the updates."""

    members: tuple[Member, ...]
    me: Member


class Applied(msgspec.Struct, frozen=True):
    """The entry at an index has reached the user; for those who keep the log."""

    epoch: Epoch
    index: int
    entry: Entry


Effect: TypeAlias = Send | Initialize | Receive | Capture | Captured | Participants | Applied


class Saved(msgspec.Struct, frozen=True):
    """What a disk has: a state, and entries after it."""

    snapshot: Snapshot
    entries: tuple[Entry, ...]
    epoch: Epoch

    @property
    def index(self) -> int:
        """How far it goes."""
        return self.snapshot.index + len(self.entries)


class TooMuchError(Exception):
    """A user sends faster than the members take it."""

    def __str__(self) -> str:
        return (
            f"more than {OWN_BYTES_MAX >> 20} MiB or {OWN_MAX} updates are not on all members: "
            "send slower, or find the member that holds everybody up"
        )


class UpdateSizeError(Exception):
    """An update is too large."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size

    def __str__(self) -> str:
        return f"an update has at most {UPDATE_BYTES_MAX} bytes, not {self.size}: split it"


class Replica:
    """The machine. Inputs are ``handle_*`` and ``send``; ``effects`` must be drained after each."""

    def __init__(
        self,
        number: int,
        *,
        safe: bool = False,
        founders: int = 1,
        patience_s: float = 10.0,
        saved: Saved | None = None,
    ) -> None:
        """``number`` is unique among all replicas that the node ever has in this group."""
        self._number = number
        self.is_safe = safe
        self.founders = founders
        self.patience_s = patience_s
        self.saved = saved
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
        self._own: dict[int, bytes] = {}
        """Our updates that are not stable, by number …"""
        self._own_bytes = 0
        self._own_indexes: deque[tuple[int, int]] = deque()
        """… and (index, number) of those in the log."""
        self._next_number = 1
        self._hello_at = -1.0
        self._acked = -1
        self._is_ack_urgent = False
        self._ack_due_at: float | None = None
        self._missing_since: float | None = None
        self._sent_at = 0.0
        self._chunks: list[bytes] = []
        self._chunks_of: tuple[Epoch, int] | None = None
        self._ticket: int | None = None
        self._tickets = 0
        self._capture_wanted = False
        self._is_capture_own = False

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
        if self.leadership is not None:
            self.leadership.handle_tick()
        if self.election is not None:
            self.election.handle_tick()
        self._suspect_leader()
        self._look_around()

    def handle_checkpoint(self, ticket: int, state: bytes, now: float) -> None:
        """Take the state that the user was asked for; raises ValueError for one it was not."""
        self.now = now
        if ticket != self._ticket:
            raise ValueError(f"nobody asked for checkpoint {ticket}")
        self._ticket = None
        snapshot = Snapshot(
            self.epoch,
            self.applied,
            list(self.shown.roster.items()),
            list(self.shown.last.items()),
            state,
        )
        if self._is_capture_own:
            self._is_capture_own = False
            self.effects.append(Captured(snapshot))
        if self.leadership is not None:
            self.leadership.handle_captured(snapshot)
        self._apply()

    def send(self, payload: bytes, now: float) -> None:
        """Send an update; raises TooMuchError, UpdateSizeError."""
        self.now = now
        if len(payload) > UPDATE_BYTES_MAX:
            raise UpdateSizeError(len(payload))
        if self._own_bytes + len(payload) > OWN_BYTES_MAX or len(self._own) >= OWN_MAX:
            raise TooMuchError
        number = self._next_number
        self._next_number += 1
        self._own[number] = payload
        self._own_bytes += len(payload)
        if self.has_state:
            if len(self._own) == 1:
                self._sent_at = now
            self.emit(Request(self._require_author(), number, payload))

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

    def _take_request(self, request: Request) -> None:
        if request.number <= self.table.last.get(request.author, 0):
            return
        if not self.log.put(request.author, request.number, request.payload):
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
        elif candidate != self.me and query.epoch >= self.promised:
            if query.epoch > self.promised:
                self._promise(query.epoch)
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
        if self.has_state and chunk.index <= self.log.top:
            return
        key = (chunk.epoch, chunk.index)
        if chunk.part == 0:
            self._chunks, self._chunks_of = [], key
        if self._chunks_of != key or len(self._chunks) != chunk.part:
            return
        self._chunks.append(chunk.data)
        self._hello_at = self.now  # no need to ask while it comes
        if len(self._chunks) == chunk.parts:
            data = b"".join(self._chunks)
            self._chunks, self._chunks_of = [], None
            try:
                self._install(parse_snapshot(data))
            except BadMessageError:
                self.rejected += 1

    # Epochs

    def _follow(self, epoch: Epoch) -> bool:
        """Take note of a leader; False if it is one of the past."""
        if epoch < self.promised:
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
        """Nobody has a state: begin with what the disk has, or with nothing."""
        saved = self.saved
        self.epoch = self.promised = epoch
        if saved is None:
            self._start_from(Snapshot(epoch, 0, [], [], None))
        else:
            # The members of those days are gone, and so are entries about them.
            snapshot = msgspec.structs.replace(saved.snapshot, roster=[])
            self._start_from(snapshot)
            for entry in saved.entries:
                self.append(entry)
            for member in list(self.table.roster):
                self.append(Entry(LEAVE, member))
        self.append(Entry(JOIN, self.me, author=self._require_author()))
        self.begin_epoch(epoch, {})

    # The log

    def append(self, entry: Entry) -> None:
        """Add a complete entry to the log, and give it to the user when it may have it."""
        log = self.log
        author = self.table.roster.get(entry.who) if entry.kind == LEAVE else None
        log.append(entry)
        self.table.take(entry)
        if entry.kind == UPDATE:
            if entry.who == self.author:
                self._own_indexes.append((log.top, entry.number))
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
        while self._own_indexes and self._own_indexes[0][0] <= index:
            _, number = self._own_indexes.popleft()
            self._own_bytes -= len(self._own.pop(number, b""))
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
            else:
                effects.append(Participants(tuple(self.shown.roster), self.me))
            effects.append(Applied(self.epoch, self.applied, entry))

    def want_capture(self) -> None:
        """Have the user make a checkpoint; one is made for all who want it."""
        self._capture_wanted = True
        self._apply()

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
        self._chunks, self._chunks_of = [], None
        self._ticket = None
        self._capture_wanted = False
        self.log = Log()
        self.table = Table()
        self._own_indexes.clear()
        self._hello_at = -1.0
        self._greet()

    def _install(self, snapshot: Snapshot) -> None:
        self._start_from(snapshot)
        self._advance()
        self._ack()
        self._send_own()

    def _start_from(self, snapshot: Snapshot) -> None:
        self.has_state = True
        self.table = Table.of(snapshot)
        self.shown = Table.of(snapshot)
        self.log.restart(snapshot.index)
        self.applied = self.stable = snapshot.index
        self._ticket = None
        self._capture_wanted = False
        author = self._require_author()
        done = snapshot_count(snapshot, author)
        for number in [n for n in self._own if n <= done]:
            self._own_bytes -= len(self._own.pop(number))
        self._own_indexes.clear()
        self.effects.append(Initialize(snapshot.state, snapshot))
        self.effects.append(Participants(tuple(self.shown.roster), self.me))

    # What is said

    def emit(self, message: Message, *, is_later: bool = False) -> None:
        """Send a message to everybody."""
        self.effects.append(Send(encode(message), is_later))

    def _greet(self) -> None:
        if self._hello_at >= 0 and self.now - self._hello_at < 2 * RETRY_S:
            return
        self._hello_at = self.now
        saved = self.saved
        epoch, index = (NO_EPOCH, 0) if saved is None else (saved.epoch, saved.index)
        hello = Hello(self.me, self._require_author(), epoch, index)
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
        author = self._require_author()
        done = self.table.last.get(author, 0)
        for number, payload in self._own.items():
            if number > done:
                self.emit(Request(author, number, payload))

    def _resend_own(self) -> None:
        if self.now - self._sent_at >= 4 * RETRY_S:
            self._send_own()

    def _note_missing(self, *, at_once: bool = False) -> None:
        if self._missing_since is None:
            self._missing_since = self.now - (ACK_S if at_once else 0.0)
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

    # Who is there

    @property
    def leader(self) -> Member:
        """Who leads the present epoch."""
        return self.epoch[1:]

    def is_there(self, member: Member) -> bool:
        """Whether a member is in the view and did not go."""
        return member[0] in self.nodes and member not in self.gone

    def _is_leading(self) -> bool:
        return self.leadership is not None

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
        """Return who should lead if the leader is gone: who joined the log first."""
        return next((one for one in self.table.roster if self.is_there(one)), None)

    def _require_author(self) -> Author:
        assert self.author is not None
        return self.author


def snapshot_count(snapshot: Snapshot, author: Author) -> int:
    """Return how many updates of an author a snapshot has."""
    return next((count for one, count in snapshot.last if one == author), 0)
