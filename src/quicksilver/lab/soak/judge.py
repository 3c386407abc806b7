"""Compares what senders were promised with what members delivered, while the soak goes on.

A flush that ended well vouches for a round of messages. They are *owed* to every
incarnation that was in all views of the group that the sender had from the first
message to the end of the flush, if that incarnation stays up and in the group for
``GRACE_S`` longer. It must have delivered them when it next speaks after that time. Whoever
was killed, counted out or left before is owed nothing.

It reads no clock and no process: records and times are given to it.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass

from quicksilver.lab.soak.records import Begun, Heard, Joined, Left, Round, Stamp
from quicksilver.stdx.ranges import RangeSet

GRACE_S = 3.0
"""How long after a flush its messages may take through a member's callbacks and pipes."""

FORGET_S = 120.0
"""How long what a sender's life sent is kept after its end, for flushes told late."""

VIOLATIONS_MAX = 100

Life = tuple[int, int]
"""Place of a worker, and which of its processes."""


@dataclass(slots=True)
class Debt:
    """A run of messages that an incarnation is owed."""

    stamp: Stamp
    group: str
    start: int
    stop: int
    member: int
    began_at: float
    due_at: float


class _Member:
    """An incarnation: what it delivered, when it left what, and when it ended."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.delivered: dict[tuple[Stamp, str], RangeSet] = {}
        self.stays: defaultdict[str, list[tuple[float, bool]]] = defaultdict(list)
        """By group: when it left, and when it was in again."""
        self.spoke_at = 0.0
        self.ended_at: float | None = None
        self.debts: deque[Debt] = deque()


class Judge:
    """Keeps accounts of all workers; ``violations`` is what did not hold."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.origin = 0.0
        """The time from which violations count."""
        self.settled: Counter[str] = Counter()
        """How debts ended: ``delivered``, ``lost``, or why nothing was owed."""
        self.confirmed = 0
        """Messages that flushes have vouched for."""
        self.unconfirmed = 0
        self.problems: Counter[str] = Counter()
        """Why flushes failed, by the name of the error."""
        self.flush_s_max = 0.0
        self._members: dict[int, _Member] = {}
        self._current: dict[Life, int] = {}
        """Which incarnation a life is at present."""
        self._unknown: defaultdict[int, list[Debt]] = defaultdict(list)
        """Debts to incarnations that have not spoken yet."""
        self._gone: deque[tuple[float, Life]] = deque()

    # What is told

    def handle_begun(self, life: Life, record: Begun) -> None:
        self._note_incarnation(life, record.node, record.at)

    def handle_round(self, life: Life, record: Round) -> None:
        """A sender's flush has ended."""
        count = sum(stop - start for start, stop in record.runs.values())
        if record.problem:
            self.unconfirmed += count
            self.problems[record.problem.partition(":")[0]] += 1
            return
        self.confirmed += count
        self.flush_s_max = max(self.flush_s_max, record.ended_at - record.at)
        for group, (start, stop) in record.runs.items():
            for member in record.members[group]:
                debt = Debt(
                    stamp=(*life, record.epoch),
                    group=group,
                    start=start,
                    stop=stop,
                    member=member,
                    began_at=record.at,
                    due_at=record.ended_at + GRACE_S,
                )
                known = self._members.get(member)
                (self._unknown[member] if known is None else known.debts).append(debt)

    def handle_heard(self, life: Life, record: Heard) -> None:
        """A member has delivered messages."""
        self._note_incarnation(life, record.node, record.at)
        for ours, place, number, epoch, group, start, stop in record.runs:
            if ours:
                self._know(ours, life)
                delivered = self._members[ours].delivered
                key = ((place, number, epoch), group)
                if key not in delivered:
                    delivered[key] = RangeSet()
                delivered[key].add(start, stop)
                if ours != record.node:
                    self._end(ours, record.at)
        for problem in record.problems:
            self._fail(f"worker {life[0]}.{life[1]}: {problem}")
        if record.node:
            self._members[record.node].spoke_at = record.at
            self._settle(record.node)

    def handle_left(self, life: Life, record: Left) -> None:
        """A member is about to leave groups."""
        self._note_stay(life, record.groups, record.at, is_in=False)

    def handle_joined(self, life: Life, record: Joined) -> None:
        """A member is in groups again."""
        self._note_stay(life, record.groups, record.at, is_in=True)

    def _note_stay(self, life: Life, groups: list[str], at: float, *, is_in: bool) -> None:
        member = self._members.get(self._current.get(life, 0))
        if member is not None:
            for group in groups:
                member.stays[group].append((at, is_in))

    def handle_gone(self, life: Life, at: float) -> None:
        """A process was killed or has ended."""
        self._end(self._current.pop(life, 0), at)
        self._gone.append((at, life))

    def handle_time(self, now: float) -> None:
        """Forget what lives sent that ended long ago."""
        while self._gone and self._gone[0][0] + FORGET_S < now:
            _, life = self._gone.popleft()
            for member in self._members.values():
                old = [key for key in member.delivered if key[0][:2] == life]
                for key in old:
                    del member.delivered[key]
            for number in [n for n, m in self._members.items() if m.life == life]:
                del self._members[number]

    # What it knows

    def open_debts(self) -> int:
        """Return how many debts are neither settled nor void."""
        return sum(len(m.debts) for m in self._members.values() if m.ended_at is None)

    def conclude(self) -> None:
        """All has ended: what is still owed to those who stayed is lost."""
        for number, member in self._members.items():
            if member.ended_at is None:
                member.spoke_at = float("inf")
                self._settle(number)
        self.settled["never spoke"] += sum(map(len, self._unknown.values()))
        self._unknown.clear()

    # Incarnations

    def _know(self, number: int, life: Life) -> None:
        if number not in self._members:
            self._members[number] = _Member(life)
            self._members[number].debts.extend(self._unknown.pop(number, ()))

    def _note_incarnation(self, life: Life, number: int, at: float) -> None:
        before = self._current.get(life, 0)
        if before != number:
            self._end(before, at)
        if number:
            self._know(number, life)
            self._current[life] = number
        else:
            self._current.pop(life, None)

    def _end(self, number: int, at: float) -> None:
        member = self._members.get(number)
        if member is not None and member.ended_at is None:
            member.ended_at = at
            self.settled["ended"] += len(member.debts)
            member.debts.clear()

    # Debts

    def _settle(self, number: int) -> None:
        """Look at debts that are due; of one member they come due nearly in order."""
        member = self._members[number]
        waiting: deque[Debt] = deque()
        for debt in member.debts:
            if debt.due_at > member.spoke_at:
                waiting.append(debt)
            else:
                self._settle_one(member, debt)
        member.debts = waiting

    def _settle_one(self, member: _Member, debt: Debt) -> None:
        delivered = member.delivered.get((debt.stamp, debt.group))
        if delivered is not None and delivered.contains_range(debt.start, debt.stop):
            self.settled["delivered"] += 1
            return
        if not _stayed(member.stays.get(debt.group, []), debt.began_at, debt.due_at):
            self.settled["left"] += 1
            return
        self.settled["lost"] += 1
        lacking = RangeSet([(debt.start, debt.stop)])
        for start, stop in delivered or ():
            lacking.discard(start, stop)
        place, life, epoch = debt.stamp
        self._fail(
            f"worker {place}.{life} (epoch {epoch}) sent {debt.group} {debt.start} to "
            f"{debt.stop - 1} at {debt.began_at - self.origin:.2f} s and was told at "
            f"{debt.due_at - GRACE_S - self.origin:.2f} s that all had arrived; node "
            f"{debt.member}, worker {member.life[0]}.{member.life[1]}, lacks {list(lacking)}"
        )

    def _fail(self, what: str) -> None:
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(what)


def _stayed(stays: list[tuple[float, bool]], began_at: float, due_at: float) -> bool:
    """Return whether a member was in a group all the time between."""
    earlier = [is_in for at, is_in in stays if at <= began_at]
    between = [is_in for at, is_in in stays if began_at < at <= due_at]
    # Who has asked to leave may still be in others' views, while the GMS is down for example.
    return not (earlier and not earlier[-1]) and all(between)
