"""What the leader does: order updates, follow how far all are, bring newcomers in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quicksilver.live.components.infrastructure.ordering.messages import (
    CHUNK_BYTES,
    ENTRIES_MAX,
    JOIN,
    LEAVE,
    UPDATE,
    Author,
    Chunk,
    Entry,
    Member,
    Order,
    Snapshot,
    Yield,
    encode,
)

if TYPE_CHECKING:
    from quicksilver.live.components.infrastructure.ordering.replica import Replica

WINDOW_ENTRIES = 20_000
WINDOW_BYTES = 32 << 20
"""How much may be ordered that not all members have."""
CHUNKS_AHEAD = 8
"""Chunks under way: the next goes when one has come back to us."""
RESEND_S = 1.0


class Transfer:
    """A state on its way to newcomers."""

    def __init__(self, to: list[Member], index: int, data: bytes) -> None:
        self.to = to
        self.index = index
        self._data = data
        self.parts = max(1, -(-len(data) // CHUNK_BYTES))
        self.sent = 0
        self.echoed = 0

    def next_data(self) -> bytes:
        """Return the data of the next chunk."""
        at = self.sent * CHUNK_BYTES
        return self._data[at : at + CHUNK_BYTES]


class Leadership:
    """The leader's part of a replica, for one epoch."""

    def __init__(self, replica: Replica, acks: dict[Member, int]) -> None:
        self._replica = replica
        self._acks = dict(acks)
        """How far the members that have a state are."""
        self._heard_at = dict.fromkeys(acks, replica.now)
        self._joiners: dict[Member, int] = {}
        """Members without a state, and the index that all must have before they get one."""
        self._served: dict[Member, int] = {}
        """Those to whom a state is on its way, and its index: they count as being there."""
        self._prepared: Snapshot | None = None
        """A state that waits until all members have the log up to it."""
        self._served_at = replica.now
        self._restarting: set[Member] = set()
        """Members that have a state which the log does not reach back to."""
        self._transfer: Transfer | None = None
        self._latest: tuple[int, bytes] | None = None
        """The state that was sent last, while somebody may need it again."""
        self._is_capturing = False
        self._refreshing: set[Member] = set()
        """Passive members that want a newer state than they have."""
        self._yielded_at = replica.now - RESEND_S
        self._unsent: list[Entry] = []
        self._unsent_from = 0
        self._announced = replica.stable
        self._is_news_urgent = False

    def begin(self) -> None:
        """Let go of who is gone, welcome who waits, order what waits."""
        self._update_stable()
        self.handle_members()
        self._order_waiting()

    # Order

    def order_from(self, author: Author) -> None:
        """Order what an author sent, as far as it is here and the window allows."""
        replica = self._replica
        if author not in replica.table.authors:
            return
        log = replica.log
        while log.top - replica.stable < WINDOW_ENTRIES and log.bytes < WINDOW_BYTES:
            number = log.next_number(author, replica.table.last[author])
            payload = log.take(author, number)
            if payload is None:
                return
            self._order(Entry(UPDATE, author, number, payload=payload))

    def _order_waiting(self) -> None:
        for author in self._replica.log.authors():
            self.order_from(author)

    def _order(self, entry: Entry) -> None:
        replica = self._replica
        replica.append(entry)
        if not self._unsent:
            self._unsent_from = replica.log.top
        if entry.kind == UPDATE:
            entry = Entry(UPDATE, entry.who, entry.number)
        self._unsent.append(entry)
        self._update_stable()

    def has_unsent(self) -> bool:
        """Whether there is something to say."""
        return bool(self._unsent) or self._is_news_urgent

    def flush(self) -> None:
        """Tell all what was ordered."""
        replica = self._replica
        self._is_news_urgent = False
        entries, self._unsent = self._unsent, []
        if not entries:
            self._say(replica.log.top + 1, [])
        for at in range(0, len(entries), ENTRIES_MAX):
            self._say(self._unsent_from + at, entries[at : at + ENTRIES_MAX])

    def _say(self, first: int, entries: list[Entry]) -> None:
        replica = self._replica
        self._announced = replica.stable
        replica.emit(Order(replica.epoch, first, entries, replica.stable, replica.log.top))

    # How far all are

    def handle_ack(self, who: Member, top: int) -> None:
        """A member says how far it is."""
        replica = self._replica
        if who not in replica.table.roster or who == replica.me:
            return
        if who in self._restarting and top < self._served.get(who, top + 1):
            return  # it has a state, but one that leads nowhere
        # It said hello before this, so it has a state now: this one, or an earlier try.
        self._restarting.discard(who)
        self._joiners.pop(who, None)
        self._served.pop(who, None)
        self._heard_at[who] = replica.now
        self._acks[who] = max(top, self._acks.get(who, 0))
        self._yield()
        self._update_stable()
        self._order_waiting()
        self._serve()

    def _update_stable(self) -> None:
        replica = self._replica
        before = replica.stable
        reach = [replica.log.top, *self._acks.values(), *self._served.values()]
        replica.set_stable(min(reach))
        if replica.stable > before and replica.is_safe:
            self._is_news_urgent = True
        self._begin_transfer()

    def trim(self) -> None:
        """Forget what nobody can ask for."""
        replica = self._replica
        log = replica.log
        log.trim(min(replica.stable, replica.applied))

    def restart_patience(self) -> None:
        """Nobody could be heard for a while."""
        now = self._replica.now
        self._served_at = now
        self._heard_at = dict.fromkeys(self._heard_at, now)

    def handle_tick(self, *, may_suspect: bool) -> None:
        """Ask who is behind; count out who is silent; tell what is stable."""
        replica = self._replica
        top = replica.log.top
        late = replica.now - replica.patience_s
        for who in sorted(self._acks):
            if self._acks[who] >= top:
                self._heard_at[who] = replica.now
            elif may_suspect and self._heard_at[who] <= late:
                replica.gone.add(who)
        if may_suspect and self._served and self._served_at <= late:
            replica.gone.update(self._served)
        self.handle_members()
        if self._unsent or top > replica.stable or self._announced < replica.stable:
            self.flush()

    def is_busy(self) -> bool:
        """Whether time must pass for something to happen."""
        replica = self._replica
        return bool(
            self._unsent
            or self._joiners
            or replica.log.top > replica.stable
            or self._announced < replica.stable
        )

    # Who comes and goes

    def handle_members(self) -> None:
        """Bring the log up to date with the view."""
        replica = self._replica
        for member in list(replica.table.roster):
            if member != replica.me and not replica.is_there(member):
                self._let_go(member)
        for who in sorted(replica.hellos):
            self.greet(who)
        self._update_stable()
        self._order_waiting()
        self._serve()

    def _let_go(self, member: Member) -> None:
        self._acks.pop(member, None)
        self._heard_at.pop(member, None)
        self._joiners.pop(member, None)
        self._served.pop(member, None)
        self._restarting.discard(member)
        self._order(Entry(LEAVE, member))

    def greet(self, who: Member) -> None:
        """A newcomer said hello: give it a place in the log, then the state."""
        replica = self._replica
        hello = replica.hellos.get(who)
        if hello is None or who[0] not in replica.nodes or who == replica.me:
            return
        del replica.hellos[who]
        replica.gone.discard(who)
        for member, author in list(replica.table.roster.items()):
            if author == hello.author and member not in (who, replica.me):
                self._let_go(member)  # it was counted out, and is back under another number
        if who not in replica.table.roster:
            self._order(Entry(JOIN, who, int(hello.is_passive), hello.author))
            self._joiners[who] = replica.log.top
        elif who not in self._joiners:
            self._acks.pop(who, None)
            self._joiners[who] = replica.log.top
        elif who in self._served:
            self._send_again()
        self._serve()

    def restart_joiner(self, who: Member) -> None:
        """A member has no state any more, or cannot get on with the one it has."""
        replica = self._replica
        if who not in replica.table.roster or who == replica.me:
            return
        if who in self._restarting:
            self._send_again()
            return
        self._acks.pop(who, None)
        self._served.pop(who, None)
        self._joiners[who] = replica.log.top
        self._restarting.add(who)
        self._serve()

    def refresh(self, who: Member) -> None:
        """A passive member wants a newer state."""
        if who in self._acks and not self._replica.is_passive:
            self._refreshing.add(who)
            self._serve()

    def _yield(self) -> None:
        """A passive leader lets a member lead that has a user, and a state."""
        replica = self._replica
        if not replica.is_passive or replica.now - self._yielded_at < RESEND_S:
            return
        for who in replica.table.roster:
            if who in self._acks and who not in replica.table.passive:
                self._yielded_at = replica.now
                replica.emit(Yield(replica.epoch, who))
                return

    # The state

    def _serve(self) -> None:
        """Have a state made for newcomers that every member knows of.

        One batch after the other: a newcomer that may already have a state counts
        among those who must know of the next ones.
        """
        replica = self._replica
        if self._served or self._transfer is not None or self._prepared is not None:
            return
        self._latest = None
        if self._is_capturing:
            return
        reach = min(replica.stable, replica.applied)
        if self._refreshing or any(index <= reach for index in self._joiners.values()):
            self._is_capturing = True
            replica.want_capture()

    def handle_captured(self, snapshot: Snapshot) -> None:
        """The user gave its state."""
        if not self._is_capturing:
            return
        self._is_capturing = False
        replica = self._replica
        reach = min(replica.stable, snapshot.index)
        to = [who for who, index in self._joiners.items() if index <= reach]
        self._served = dict.fromkeys(to, snapshot.index)
        self._served_at = replica.now
        self._prepared = snapshot
        self._begin_transfer()

    def _begin_transfer(self) -> None:
        """Send the state as soon as no member lacks anything that is in it.

        Were it sent before and then only the newcomer survived with a member that
        lacks something, nobody could give it to that member.
        """
        snapshot = self._prepared
        replica = self._replica
        if snapshot is None or replica.stable < snapshot.index:
            return
        self._prepared = None
        to = sorted(self._served.keys() | (self._refreshing & replica.table.roster.keys()))
        self._refreshing.clear()
        if to:
            self._latest = (snapshot.index, encode(snapshot))
            self._transmit(to)

    def _transmit(self, to: list[Member]) -> None:
        assert self._latest is not None
        self._served_at = self._replica.now
        self._transfer = Transfer(to, *self._latest)
        self._send_chunks()

    def _send_again(self) -> None:
        """Somebody asks although the state was sent: the same state, so that its log is kept."""
        is_old = self._replica.now - self._served_at >= RESEND_S
        if self._transfer is None and self._prepared is None and self._served and is_old:
            self._transmit(sorted(self._served))

    def handle_echo(self, chunk: Chunk) -> None:
        """A chunk of ours came back: the channel has room for another."""
        transfer = self._transfer
        if transfer is None or chunk.index != transfer.index:
            return
        self._served_at = self._replica.now
        transfer.echoed = chunk.part + 1
        if transfer.echoed == transfer.parts:
            self._transfer = None
        else:
            self._send_chunks()

    def _send_chunks(self) -> None:
        transfer = self._transfer
        assert transfer is not None
        epoch = self._replica.epoch
        while transfer.sent < min(transfer.parts, transfer.echoed + CHUNKS_AHEAD):
            part, data = transfer.sent, transfer.next_data()
            transfer.sent += 1
            self._replica.emit(
                Chunk(epoch, transfer.to, transfer.index, part, transfer.parts, data)
            )
