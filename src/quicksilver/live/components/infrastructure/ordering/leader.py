"""What the leader of an epoch does: order updates, follow how far all are, bring newcomers in."""

from __future__ import annotations

from typing import Final

from quicksilver.live.components.infrastructure.ordering.attendance import Attendance
from quicksilver.live.components.infrastructure.ordering.ledger import Ledger
from quicksilver.live.components.infrastructure.ordering.messages import (
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
)
from quicksilver.live.components.infrastructure.ordering.outbox import Outbox
from quicksilver.live.components.infrastructure.ordering.state_transfer import (
    RESEND_S,
    OutgoingStates,
)

WINDOW_ENTRIES: Final = 20_000
WINDOW_BYTES: Final = 32 << 20
"""How much may be ordered that not all members have."""


class Leader:
    """The state of a replica that leads an epoch.

    It is given the replica's ledger, which it adds to, who is there, and the outbox
    for what it says.
    """

    def __init__(
        self,
        ledger: Ledger,
        attendance: Attendance,
        outbox: Outbox,
        acks: dict[Member, int],
        now: float,
    ) -> None:
        """``acks`` says how far the members are that reported before the epoch began."""
        self._ledger = ledger
        self._attendance = attendance
        self._outbox = outbox
        self._acks = dict(acks)
        """How far the members that have a state are."""
        self._heard_at = dict.fromkeys(acks, now)
        self._states = OutgoingStates(now)
        self._yielded_at = now - RESEND_S
        self._unsent: list[Entry] = []
        self._unsent_from = 0
        self._announced = ledger.stable
        self._is_news_urgent = False
        self._now = now

    # Order

    def order_from(self, author: Author) -> None:
        """Order what an author sent, as far as it is here and the window allows."""
        ledger = self._ledger
        log, table = ledger.log, ledger.table
        if author not in table.authors:
            return
        while log.top - ledger.stable < WINDOW_ENTRIES and log.bytes < WINDOW_BYTES:
            number = log.next_number(author, table.last[author])
            payload = log.take(author, number)
            if payload is None:
                return
            self._order(Entry(UPDATE, author, number, payload=payload))

    def _order_waiting(self) -> None:
        for author in self._ledger.log.authors():
            self.order_from(author)

    def _order(self, entry: Entry) -> None:
        ledger = self._ledger
        ledger.append(entry)
        self._attendance.note_entry(entry)
        if not self._unsent:
            self._unsent_from = ledger.log.top
        if entry.kind == UPDATE:
            entry = Entry(UPDATE, entry.who, entry.number)  # its author sends the payload
        self._unsent.append(entry)
        self._update_stable()

    @property
    def has_unsent(self) -> bool:
        """Whether ``flush`` has something to say."""
        return bool(self._unsent) or self._is_news_urgent

    def flush(self) -> None:
        """Tell all what was ordered."""
        self._is_news_urgent = False
        entries, self._unsent = self._unsent, []
        if not entries:
            self._tell(self._ledger.log.top + 1, [])
        for at in range(0, len(entries), ENTRIES_MAX):
            self._tell(self._unsent_from + at, entries[at : at + ENTRIES_MAX])

    def _tell(self, first: int, entries: list[Entry]) -> None:
        ledger = self._ledger
        self._announced = ledger.stable
        self._outbox.say(Order(ledger.epoch, first, entries, ledger.stable, ledger.log.top))

    # How far all are

    def handle_ack(self, who: Member, top: int, now: float) -> None:
        """Take note of how far a member is."""
        self._now = now
        if who not in self._ledger.table.roster or who == self._ledger.me:
            return
        if not self._states.handle_ack(who, top):
            return
        self._heard_at[who] = now
        self._acks[who] = max(top, self._acks.get(who, 0))
        self._yield()
        self._update_stable()
        self._order_waiting()
        self._serve()

    def _update_stable(self) -> None:
        ledger = self._ledger
        before = ledger.stable
        reach = [ledger.log.top, *self._acks.values(), *self._states.served.values()]
        ledger.set_stable(min(reach))
        if ledger.stable > before and ledger.is_safe:
            self._is_news_urgent = True
        self._send_chunks()

    def _yield(self) -> None:
        """Let a member lead that has a user, and a state, if this one has no user."""
        ledger = self._ledger
        if not ledger.is_passive or self._now - self._yielded_at < RESEND_S:
            return
        for who in ledger.table.roster:
            if who in self._acks and who not in ledger.table.passive:
                self._yielded_at = self._now
                self._outbox.say(Yield(ledger.epoch, who))
                return

    # Time

    def restart_patience(self, now: float) -> None:
        """Blame nobody for the time until now: nobody could be heard."""
        self._states.restart_patience(now)
        self._heard_at = dict.fromkeys(self._heard_at, now)

    def handle_timeout(self, now: float, *, silent_since: float | None) -> None:
        """Ask who is behind; tell what is stable.

        Who has said nothing since ``silent_since`` counts as gone; None: nobody does.
        """
        self._now = now
        ledger = self._ledger
        gone = self._attendance.gone
        for who in sorted(self._acks):
            if self._acks[who] >= ledger.log.top:
                self._heard_at[who] = now
            elif silent_since is not None and self._heard_at[who] <= silent_since:
                gone.add(who)
        if silent_since is not None:
            gone.update(self._states.find_silent(silent_since))
        self.handle_members(now)
        if self.has_news:
            self.flush()

    @property
    def has_news(self) -> bool:
        """Whether members lack something, or do not know that all have it."""
        ledger = self._ledger
        is_behind = ledger.log.top > ledger.stable or self._announced < ledger.stable
        return bool(self._unsent) or is_behind

    @property
    def is_busy(self) -> bool:
        """Whether time must pass for something to happen."""
        return self.has_news or bool(self._states.waiting)

    # Who comes and goes

    def handle_members(self, now: float) -> None:
        """Bring the log up to date with who is there."""
        self._now = now
        attendance = self._attendance
        for member in list(self._ledger.table.roster):
            if member != attendance.me and not attendance.is_there(member):
                self._remove(member)
        for who in sorted(attendance.hellos):
            self.greet(who, now)
        self._update_stable()
        self._order_waiting()
        self._serve()

    def _remove(self, member: Member) -> None:
        self._acks.pop(member, None)
        self._heard_at.pop(member, None)
        self._states.drop(member)
        self._order(Entry(LEAVE, member))

    def greet(self, who: Member, now: float) -> None:
        """Give a newcomer that said hello a place in the log, then the state."""
        self._now = now
        ledger, attendance = self._ledger, self._attendance
        hello = attendance.hellos.get(who)
        if hello is None or who[0] not in attendance.nodes or who == attendance.me:
            return
        del attendance.hellos[who]
        attendance.gone.discard(who)
        for member, author in list(ledger.table.roster.items()):
            if author == hello.author and member not in (who, attendance.me):
                self._remove(member)  # it was counted out, and is back under another number
        if who not in ledger.table.roster:
            self._order(Entry(JOIN, who, int(hello.is_passive), hello.author))
            self._states.add(who, ledger.log.top)
        elif who not in self._states.waiting:
            self._acks.pop(who, None)
            self._states.add(who, ledger.log.top)
        elif who in self._states.served:
            self._states.send_again(now)
            self._send_chunks()
        self._serve()

    def restart_member(self, who: Member, now: float) -> None:
        """Give a state to a member that has none any more, or cannot get on with its own."""
        self._now = now
        if who not in self._ledger.table.roster or who == self._ledger.me:
            return
        self._acks.pop(who, None)
        self._states.restart(who, self._ledger.log.top, now)
        self._send_chunks()
        self._serve()

    def refresh(self, who: Member, now: float) -> None:
        """Give a passive member a newer state."""
        self._now = now
        if who in self._acks and not self._ledger.is_passive:
            self._states.add_refresh(who)
            self._serve()

    # The state for newcomers

    def _serve(self) -> None:
        ledger = self._ledger
        if self._states.begin_capture(min(ledger.stable, ledger.applied)):
            snapshot = ledger.capture()
            if snapshot is not None:
                self.handle_captured(snapshot, self._now)

    def handle_captured(self, snapshot: Snapshot, now: float) -> None:
        """Take a state that the user gave."""
        self._now = now
        self._states.handle_captured(snapshot, self._ledger.stable, now)
        self._send_chunks()

    def handle_echo(self, chunk: Chunk, now: float) -> None:
        """Take a chunk of ours that came back."""
        self._now = now
        self._states.handle_echo(chunk, now)
        self._send_chunks()

    def _send_chunks(self) -> None:
        ledger = self._ledger
        roster = ledger.table.roster
        poll = self._states.poll_chunk
        while (chunk := poll(ledger.epoch, ledger.stable, roster, self._now)) is not None:
            self._outbox.say(chunk)
