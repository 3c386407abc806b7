"""A total order: all subscribers of a topic deliver all messages of a session in one order.

One node, the sequencer, appends entries to the order in its control stream: messages that all
members have (that are stable). An entry is followed once it is stable itself: then every member
that is waited for has it, and whoever becomes the sequencer next goes on from it.

If the sequencer falls silent another node offers itself, and the root chooses it for a new term.
Everybody who is told of the new term stops following entries of the old one; once everybody has
been told (``is_firm``), the new sequencer says how many of the old entries count, and goes on.
It has all that anybody followed, as that was stable. So no two nodes deliver two messages in
different orders, whoever crashes.

A node that comes later may have messages that were ordered before it came, and cannot tell. So it
asks; the sequencer answers in its control stream, and so at a place of the order, what was ordered
before that place. If it does not answer, others who know offer themselves. Only when none of them
has done so for long does a node that came late, and was not told, take what it has for messages
that nobody has ordered.

A node that its managers have given up meanwhile is promised
less: if its messages come after the order is over they are delivered then, in no common order.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from typing import Any, NamedTuple

from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.sessions.control import (
    ASKERS_MAX,
    LINEAGE_MAX,
    RUNS_MAX,
    Ask,
    Before,
    Begin,
    Control,
    Ordered,
    Part,
    Run,
    control_of,
)

FIRST_S = 0.5
"""Within this time, each at a moment of its own, nodes offer to be the first sequencer."""

STALL_S = 4.0
"""If nothing is ordered for so long though it could be, another node offers itself."""

LATE_FACTOR = 3
"""Nodes that do not know all that was ordered let others offer themselves first."""

UNFIRM_S = 30.0
"""As ``STALL_S``, while not everybody has been told of the one that was chosen."""

SETTLE_S = 1.0
"""So long has the control stream of the last sequencer to be complete before the next goes on."""

WAITING_MAX = 10_000
"""Entries of one term that wait."""

PENDING_BYTES_MAX = 64 << 20
"""Messages that wait for their places; past it those of one sender are told as lost."""


class _Entry(NamedTuple):
    number: int
    """Of the message in the control stream."""
    said: Ordered


class _Told(NamedTuple):
    """An answer to those who came late."""

    number: int
    """Of its last message in the control stream."""
    entry: int
    marks: dict[Sender, int]


class TotalOrder:
    """The order of one session, as one node follows it, and says it if it is the sequencer."""

    def __init__(
        self, topic: str, session: int, forwarder: Forwarder, *, is_late: bool, now: float
    ) -> None:
        """``is_late``: others may have begun without this node."""
        self.out: deque[Packet | Gap] = deque()
        """What is next, in order."""
        self.is_over = False
        """True: nothing of the session comes any more."""
        self._topic = topic
        self._session = session
        self._forwarder = forwarder
        self._own = forwarder.sender
        self._pending: dict[Sender, deque[Packet | Gap]] = {}
        self._pending_bytes = 0
        self._following: set[Sender] = set()
        """Senders of whom the application had messages before: it is told what it misses."""
        self._arrived: dict[Sender, tuple[int, int]] = {}
        """The first message of a sender in this session, and the number after the last."""
        self._marks: dict[Sender, int] = {}
        """What comes before these has had its turn."""
        self._turns: deque[Run] = deque()
        """What is next, once it is here."""
        self._is_late = is_late
        """True: something may have been ordered of which this node does not know."""
        self._has_asked = False
        self._applied: int | None = None if is_late else 0
        """How many entries were followed; None: not known yet where this node begins."""
        self._applied_from = 0
        """The first entry that was followed …"""
        self._firsts: dict[Sender, int] = {}
        """… and the first message of each sender that has a place since then."""
        self._before: dict[Sender, int] = {}
        """What was ordered before this node came: it is not for it."""
        self._telling: dict[tuple[int, Sender], _Told] = {}
        self._told: dict[tuple[int, Sender], _Told] = {}
        """The newest answer of each sequencer, as far as it is here, and once all of it is."""
        self._askers: dict[Sender, None] = {}
        """Nodes that came late, and were not told what was ordered before."""
        self._answers: deque[Before] = deque()
        """What is left to say of an answer."""
        self._ends_with: int | None = None
        self._entries: dict[tuple[int, Sender], dict[int, _Entry]] = {}
        self._begins: dict[tuple[int, Sender], tuple[int, Begin]] = {}
        self._sequencers: dict[int, Sender] = {}
        self._term = 0
        self._is_firm = False
        self._history: list[Part] = []
        """Terms before the one that is followed, and how far each counts."""
        self._followed: tuple[int, Sender] | None = None
        self._said: tuple[int, int] | None = None
        """As the sequencer: in which term, and the next entry …"""
        self._said_marks: dict[Sender, int] = {}
        self._said_last = False
        """… and what was ordered, and whether all of it was."""
        self._settled: tuple[tuple[int, ...], float] | None = None
        self._moved_at = now
        draw = blake2b(f"{self._own} {session}".encode(), digest_size=4).digest()
        self._lot = int.from_bytes(draw, "big") / (1 << 32)

    # Inputs

    def handle_item(self, item: Packet | Gap, now: float, *, follows: bool = False) -> None:
        """Messages of the session have arrived, or are lost.

        ``follows``: of their sender this node was given messages of an earlier session.
        """
        if follows:
            self._following.add(item.sender)
        first, stop = _range_of(item)
        mark = self._before.get(item.sender, 0)
        if first < mark:
            self._leave_out(item.sender, first, min(stop, mark))
            if stop <= mark:
                return
            item, first = _cut(item, mark, stop), mark
        if not self._pending:
            self._moved_at = now
        begin, _ = self._arrived.get(item.sender, (first, 0))
        self._arrived[item.sender] = begin, stop
        if isinstance(item, Packet):
            if self._pending_bytes + item.size() > PENDING_BYTES_MAX:
                item = Gap(item.topic, item.sender, first, stop - 1)
            else:
                self._pending_bytes += item.size()
        self._pending.setdefault(item.sender, deque()).append(item)

    def handle_chosen(self, sender: Sender, term: int, *, is_firm: bool, now: float) -> None:
        """The root has chosen who says the order."""
        if term >= self._term:
            self._sequencers[term] = sender
            self._term, self._is_firm, self._moved_at = term, is_firm, now

    def handle_control(self, sender: Sender, number: int, said: Control) -> None:
        """A node has said something in its control stream."""
        match said:
            case Begin(term=term):
                self._begins.setdefault((term, sender), (number, said))
            case Ordered(term=term, index=index):
                entries = self._entries.setdefault((term, sender), {})
                if len(entries) < WAITING_MAX:
                    entries.setdefault(index, _Entry(number, said))
            case Ask():
                if len(self._askers) < WAITING_MAX:
                    self._askers[sender] = None
            case Before(term=term, index=index):
                name = term, sender
                told = self._telling.pop(name, None)
                marks = dict(told.marks) if told is not None and told.entry == index else {}
                marks.update(said.marks)
                table = self._told if said.is_last else self._telling
                table[name] = _Told(number, index, marks)
                for asker in said.askers:
                    self._askers.pop(asker, None)

    def handle_missed(self) -> None:
        """Others have got an entry, and this node does not subscribe yet."""
        self._applied = self._followed = None
        self._is_late, self._has_asked = True, False
        tables: list[dict[Any, Any]]
        tables = [self._entries, self._begins, self._telling, self._told, self._firsts]
        for table in tables:
            table.clear()  # Others have followed more than that.

    # Coming late

    def ask(self) -> Ask | None:
        """Return what this node is to ask in its control stream, or None."""
        if not self._is_late or self._has_asked or not self._term or self.is_over:
            return None
        self._has_asked = True
        return Ask(self._session)

    def _take_answer(self) -> None:
        """Learn what was ordered before this node came, once it has followed all since then."""
        assert self._applied is not None
        for name, told in list(self._told.items()):
            if told.entry > self._applied or not self._is_certain(name[1], told.number):
                continue
            del self._told[name]
            if told.entry < self._applied_from:
                self._has_asked = False  # What lies between was not followed here, nor told.
                continue
            self._is_late = False
            for sender, mark in told.marks.items():
                self._marks[sender] = max(mark, self._marks.get(sender, 0))
                # What this node has followed before the answer was told as well.
                self._before[sender] = min(mark, self._firsts.get(sender, mark))
            for sender in sorted(self._before.keys() & self._pending.keys(), key=_sort_key):
                for item in self._pending.pop(sender):
                    self._forget_bytes(item)
                    self.handle_item(item, self._moved_at)
            return

    def _leave_out(self, sender: Sender, first: int, stop: int) -> None:
        """Messages were ordered before this node came. Whoever follows a sender is told so."""
        if sender in self._following:
            self.out.append(Gap(self._topic, sender, first, stop - 1))

    # Following

    def advance(self, now: float) -> None:
        """Follow the order as far as it is certain."""
        if self._term == 0:
            self._applied, self._is_late = 0, False  # Nobody has begun.
        self._adopt()
        while self._applied is not None:
            entry = self._find_next()
            if entry is None:
                break
            self._turns.extend(entry.said.runs)
            if self._is_late:
                for run in entry.said.runs:
                    self._firsts.setdefault(run.sender, run.first)
            self._applied += 1
            self._moved_at = now
            if entry.said.is_last:
                self._ends_with = self._applied
        if self._is_late and self._applied is not None:
            self._take_answer()
        self._take_turns(now)
        if self._ends_with is not None and not self._turns and not self.is_over:
            self.is_over = True
            self._give_rest()

    def _adopt(self) -> None:
        """Follow the newest term, once it has begun for everybody."""
        sender = self._sequencers.get(self._term)
        if sender is None or self._followed == (self._term, sender):
            return
        name = self._term, sender
        begun = self._begins.get(name)
        if begun is not None:
            if self._is_certain(sender, begun[0]):
                self._history, self._followed = list(begun[1].lineage), name
                if self._applied is None:
                    self._applied = self._applied_from = self._base()
        elif self._applied is None:
            seen = list(self._entries.get(name, ()))
            told = self._told.get(name)
            if told is not None and self._is_certain(sender, told.number):
                seen.append(told.entry)
            if seen:
                self._followed, self._applied = name, min(seen)
                self._applied_from = self._applied

    def _base(self) -> int:
        return self._history[-1].stop if self._history else 0

    def _find_next(self) -> _Entry | None:
        """Return the next entry, if it counts for certain."""
        assert self._applied is not None
        if self._followed is None:
            return None
        for part in self._history:
            if self._applied < part.stop:
                return self._entries.get((part.term, part.sender), {}).pop(self._applied, None)
        if self._followed[0] != self._term:
            return None  # Another one was chosen, who says how far these count.
        entries = self._entries.get(self._followed, {})
        entry = entries.get(self._applied)
        if entry is None or not self._is_certain(self._followed[1], entry.number):
            return None
        return entries.pop(self._applied)

    def _is_certain(self, sender: Sender, number: int) -> bool:
        """Whether everybody who is waited for has a message of a control stream."""
        if not self._forwarder.is_recovered(self._topic):
            return True
        stream = self._forwarder.holdings.find(self._topic, control_of(sender))
        return stream is not None and number < stream.stable

    def _take_turns(self, now: float) -> None:
        while self._turns:
            run = self._turns[0]
            stream = self._forwarder.holdings.find(self._topic, run.sender)
            is_own = run.sender == self._own
            if not is_own and stream is not None and stream.low < run.stop:
                return
            self._turns.popleft()
            self._moved_at = now
            if not is_own:
                self._give(run)
            self._marks[run.sender] = max(run.stop, self._marks.get(run.sender, 0))

    def _give(self, run: Run) -> None:
        waiting = self._pending.get(run.sender)
        while waiting:
            item = waiting[0]
            first, stop = _range_of(item)
            if first >= run.stop:
                break
            waiting.popleft()
            self._forget_bytes(item)
            if stop > run.stop:
                rest = _cut(item, run.stop, stop)
                waiting.appendleft(rest)
                self._count_bytes(rest)
            # If this node came late, what is before the first run was ordered before that. Else a
            # sequencer that came late did not know of it, and here is its place.
            begin = run.first if self._is_late and run.sender not in self._marks else first
            if first < begin and run.sender in self._following:
                self.out.append(Gap(self._topic, run.sender, first, min(stop, begin) - 1))
            if stop > begin:
                self.out.append(_cut(item, max(first, begin), min(stop, run.stop)))
        if not waiting:
            self._pending.pop(run.sender, None)

    def _count_bytes(self, item: Packet | Gap) -> None:
        self._pending_bytes += item.size() if isinstance(item, Packet) else 0

    def _forget_bytes(self, item: Packet | Gap) -> None:
        self._pending_bytes = max(
            0, self._pending_bytes - (item.size() if isinstance(item, Packet) else 0)
        )

    def give_up(self, now: float) -> None:
        """End an order that began before this node came, and of which it sees nothing."""
        if self._applied is None and now >= self._moved_at + STALL_S:
            self.end()

    def end(self) -> None:
        """Give what is left, if anything is, and end."""
        if not self.is_over:
            self.is_over = True
            self._turns.clear()
            self._give_rest()

    def _give_rest(self) -> None:
        """Give what came too late to have a place: late is better than lost."""
        for sender in sorted(self._pending, key=_sort_key):
            self.out.extend(self._pending[sender])
        self._pending.clear()
        self._pending_bytes = 0

    # Offering to be the sequencer

    def is_busy(self) -> bool:
        """Whether something waits."""
        waits = self._pending or self._turns or (self._term and not self._is_firm)
        waits = waits or self._can_answer()
        return not self.is_over and bool(waits or self._is_asked() or not self._term)

    def find_offer(self, now: float, *, is_complete: bool) -> int | None:
        """Return the term that this node offers to follow as the sequencer, or None.

        ``is_complete``: the session ends, and all of it is here.
        """
        if self._applied is None or self.is_over or self._sequencers.get(self._term) == self._own:
            return None
        if self._term == 0:
            wait_s = FIRST_S * self._lot
        elif not self._is_firm:
            wait_s = UNFIRM_S * (1 + self._lot)
        elif is_complete or self._turns or self._can_answer() or self._is_anything_orderable():
            wait_s = STALL_S * (1 + self._lot)
        else:
            self._moved_at = now
            return None
        if now < self._moved_at + wait_s * (LATE_FACTOR if self._is_late else 1):
            return None
        self._moved_at = now if self._term else now + STALL_S
        return self._term

    def _is_anything_orderable(self) -> bool:
        return any(
            _range_of(waiting[0])[0] < self._limit(sender)
            for sender, waiting in self._pending.items()
        )

    def _can_answer(self) -> bool:
        """Whether this node knows what somebody has asked, who was not told yet."""
        return bool(self._askers) and not self._is_late

    # Saying the order

    def _is_asked(self) -> bool:
        """Whether this node is to say the order."""
        return self._is_firm and self._sequencers.get(self._term) == self._own

    def say(
        self, own: tuple[int, int], now: float, *, is_complete: bool
    ) -> Begin | Ordered | Before | None:
        """Return what this node is to say in its control stream next, or None.

        ``own``: the range of its own messages in the session. ``is_complete``: the session ends,
        and all of it is here.
        """
        if not self._is_asked() or self._applied is None or self.is_over:
            return None
        if self._said is None or self._said[0] != self._term:
            return self._say_begin(now)
        if not self._answers and self._can_answer():
            self._answer(*self._said)
        if self._answers:
            return self._answers.popleft()
        runs: list[Run] = []
        known = {**self._arrived, **({self._own: own} if own[1] > own[0] else {})}
        is_all = True
        for sender in sorted(known, key=_sort_key):
            first, stop = known[sender]
            first = self._said_marks.get(sender, first)  # It may have begun before this node came.
            limit = min(stop, self._limit(sender))
            is_all = is_all and limit >= stop
            if limit > first and len(runs) < RUNS_MAX:
                runs.append(Run(sender, first, limit))
                self._said_marks[sender] = limit
        is_last = is_complete and is_all and not self._said_last and len(runs) < RUNS_MAX
        if self._said_last or not (runs or is_last):
            return None
        index = self._said[1]
        self._said = self._term, index + 1
        self._said_last = is_last
        return Ordered(self._session, self._term, index, tuple(runs), is_last)

    def _answer(self, term: int, index: int) -> None:
        """Tell those who have asked what was ordered before the next entry."""
        askers = tuple(sorted(self._askers, key=_sort_key)[:ASKERS_MAX])
        marks = sorted(self._said_marks.items(), key=lambda each: _sort_key(each[0]))
        for first in range(0, max(len(marks), 1), RUNS_MAX):
            part = tuple(marks[first : first + RUNS_MAX])
            is_last = first + RUNS_MAX >= len(marks)
            self._answers.append(
                Before(self._session, term, index, askers if is_last else (), part, is_last)
            )

    def _limit(self, sender: Sender) -> int:
        """Return below which number everybody has a sender's messages."""
        stream = self._forwarder.holdings.find(self._topic, sender)
        if stream is None:
            return 0
        if not self._forwarder.is_recovered(self._topic):
            return stream.low
        return min(stream.low, stream.stable)

    def _say_begin(self, now: float) -> Begin | None:
        """Say how much of what earlier sequencers said counts, once no more of it comes."""
        lows = []
        for term, sender in sorted(self._sequencers.items()):
            stream = self._forwarder.holdings.find(self._topic, control_of(sender))
            if term < self._term and stream is not None and sender != self._own:
                if stream.low < stream.high or not self._is_certain(sender, stream.high - 1):
                    self._settled = None
                    return None
                lows.append(stream.low)
        if self._settled is None or self._settled[0] != tuple(lows):
            self._settled = tuple(lows), now
        if lows and now < self._settled[1] + SETTLE_S:
            return None
        history, followed = self._history, self._followed
        begun = [name for name in self._begins if self._sequencers.get(name[0]) == name[1]]
        newest = max(begun, default=None, key=lambda name: name[0])
        if newest is not None and (followed is None or newest[0] > followed[0]):
            history, followed = list(self._begins[newest][1].lineage), newest
        lineage, index, is_last = self._count(history, followed)
        self._said, self._said_last = (self._term, index), is_last
        self._answers.clear()
        return Begin(self._session, self._term, tuple(lineage[-LINEAGE_MAX:]))

    def _count(
        self, history: list[Part], followed: tuple[int, Sender] | None
    ) -> tuple[list[Part], int, bool]:
        """Return all terms with how far each counts, how many entries that are, and whether the
        last of them is the last of the session."""
        assert self._applied is not None
        index, is_last = self._applied, self._ends_with is not None
        self._said_marks = dict(self._marks)
        for run in self._turns:
            self._said_marks[run.sender] = max(run.stop, self._said_marks.get(run.sender, 0))
        parts = list(history)
        names = [((part.term, part.sender), part.stop) for part in history]
        if followed is not None:
            names.append((followed, 1 << 62))
        for name, stop in names:
            entries = self._entries.get(name, {})
            while index < stop and index in entries:
                said = entries[index].said
                is_last = is_last or said.is_last
                for run in said.runs:
                    mark = self._said_marks.get(run.sender, 0)
                    self._said_marks[run.sender] = max(run.stop, mark)
                index += 1
        if followed is not None:
            parts.append(Part(followed[0], followed[1], index))
        return parts, index, is_last


def _range_of(item: Packet | Gap) -> tuple[int, int]:
    if isinstance(item, Gap):
        return item.first, item.last + 1
    return item.number, item.stop


def _cut(item: Packet | Gap, first: int, stop: int) -> Packet | Gap:
    if isinstance(item, Gap):
        return Gap(item.topic, item.sender, first, stop - 1)
    return item.cut(first, stop)


def _sort_key(sender: Sender) -> tuple[str, str, int]:
    return sender.scope, sender.node, sender.life
