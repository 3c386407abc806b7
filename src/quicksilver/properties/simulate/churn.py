"""A protocol on very many nodes of which each crashes now and then, losing all it knew.

The steps are those of ``run.steps``; what carries them is coarse, so that tens of thousands of
nodes fit. Every domain has a round each ``interval_s``. Its members are visited at the beginning,
and it ends after one ``hop_s`` for each member, as a token would. A node that has crashed does
not answer; after ``detection_s`` its domain has a new view without it, after ``away_s`` it starts
again, and after ``detection_s`` more it is in a view. There are no losses of single messages.

Claims of the program are checked each ``interval_s`` over all nodes (dissertation, Figure 5.7).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from quicksilver.properties.plan import Plan
from quicksilver.properties.run.claims import Broken, Claims, Observed
from quicksilver.properties.run.placement import height_of
from quicksilver.properties.run.program import Program
from quicksilver.properties.run.state import Asked, Domain, Output, Report, Standing, Word
from quicksilver.properties.run.steps import (
    close_round,
    enter_view,
    handle_event,
    make_domain,
    make_node,
    merge,
    open_round,
    visit,
)
from quicksilver.properties.values.kinds import IntKind, Value
from quicksilver.recovery.domains import Name
from quicksilver.stdx.rand import Rng


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What is simulated."""

    nodes: int
    size: int = 8
    """Members of a domain at most."""
    crash_s: float | None = None
    """Mean time from the start of a node to its crash; None: nobody crashes."""
    interval_s: float = 0.02
    """From one round of a domain to the next."""
    hop_s: float = 0.001
    """From one member of a round to the next."""
    detection_s: float = 0.05
    """After which the membership knows who has crashed or started."""
    away_s: float = 0.5
    """From a crash to the start that follows."""
    number_s: float = 1.0
    """How often all nodes are given the next number, if the program has such an event."""
    seed: int = 1


class _Member(NamedTuple):
    number: int
    """Of the node that speaks for it: the lower, the longer it has been there."""
    slot: int


class _Ending(NamedTuple):
    """A round on its way."""

    name: Name
    view: int
    word: Word
    report: Report


@dataclass(slots=True)
class _Group:
    """A domain: its view, and what its leader knows."""

    members: list[_Member] = field(default_factory=list)
    view: int = 0
    leader: int = 0
    """Number of the node whose agent ``state`` is."""
    state: Domain | None = None


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    seconds: float = 0.0
    crashes: int = 0
    visits: int = 0
    requests: Counter[int] = field(default_factory=Counter)
    """How often which event went to an application."""
    firsts: dict[tuple[int, tuple[Value, ...]], float] = field(default_factory=dict)
    """When an event with these arguments went to any application for the first time."""
    broken: Broken | None = None
    broken_at: float = 0.0
    top: Sequence[Value | None] = ()
    begun_again: int = 0
    """How often all who counted were gone, and the protocol began anew."""

    def pace_s(self, event: int, after_s: float) -> float | None:
        """Return the mean time between new events of a kind after some time; None: too few."""
        times = sorted(at for (each, _), at in self.firsts.items() if each == event)
        times = [at for at in times if at >= after_s]
        return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None


class Churn:
    """A simulation."""

    def __init__(self, plan: Plan, options: Options) -> None:
        self._program = Program(plan)
        self._claims = Claims(plan.invariants)
        self._options = options
        self._rng = Rng(options.seed)
        self._height = height_of(options.nodes, options.size)
        self.now = 0.0
        self.outcome = Outcome()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._started = 0
        self._nodes: list[Domain | None] = [None] * options.nodes
        self._numbers = [0] * options.nodes
        """Which start of a node each slot has now."""
        self._known: list[int] = [0] * options.nodes
        """Which one the membership knows of; 0: none."""
        self._groups: dict[Name, _Group] = {}
        self._given = 0
        self._has_begun = False
        self._events = [
            at
            for at, event in enumerate(plan.callbacks)
            if [kind for _, kind in event.parameters] == [IntKind()]
        ]
        for slot in range(options.nodes):
            self._start(slot)
            self._learn(slot)
        for name in sorted(self._groups):
            self._at(self._rng.uniform() * options.interval_s, partial(self._open, name))
        self._at(options.interval_s, self._look)
        if self._events:
            self._at(options.number_s, self._give_next)

    def run(self, seconds: float) -> Outcome:
        """Go on for some time, or until a claim is broken."""
        end = self.now + seconds
        while self._queue and self._queue[0][0] <= end and self.outcome.broken is None:
            self.now, _, what = heapq.heappop(self._queue)
            what()
        self.now = self.outcome.seconds = end
        return self.outcome

    def _at(self, time: float, what: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (time, self._order, what))

    # Nodes

    def _start(self, slot: int) -> None:
        self._started += 1
        self._numbers[slot] = self._started
        self._nodes[slot] = make_node(self._program, f"n{slot}", self._started)
        if self._options.crash_s is not None:
            life = self._rng.exponential(self._options.crash_s)
            self._at(self.now + life, partial(self._crash, slot, self._started))
        for number in range(1, self._given + 1):
            self._give(slot, number)
        if self.now:
            self._at(self.now + self._options.detection_s, partial(self._learn, slot))

    def _crash(self, slot: int, number: int) -> None:
        assert self._numbers[slot] == number
        self.outcome.crashes += 1
        self._nodes[slot] = None
        self._at(self.now + self._options.detection_s, partial(self._learn, slot))
        self._at(self.now + self._options.away_s, partial(self._start, slot))

    def _learn(self, slot: int) -> None:
        """The membership looks who is at a slot."""
        now = self._numbers[slot] if self._nodes[slot] is not None else 0
        if self._known[slot] == now:
            return
        self._known[slot] = now
        member: _Member | None = _Member(now, slot) if now else None
        place = slot
        for level in range(self._height):
            size = self._options.size
            child, place = place, place // size
            group = self._groups.setdefault((level, place), _Group())
            members = [each for each in group.members if each.slot // size**level != child]
            if member is not None:
                members.append(member)
            members.sort()
            if members != group.members:
                group.members = members
                self._change_view((level, place), group)
            member = members[0] if members else None

    def _change_view(self, name: Name, group: _Group) -> None:
        group.view += 1
        if not group.members:
            group.state = None
            return
        leader = group.members[0]
        if group.state is not None and group.leader == leader.number:
            group.state = enter_view(group.state, group.view)
            return
        group.leader = leader.number
        group.state = make_domain(
            self._program,
            f"{name[0]}.{name[1]}",
            name[0] + 1,
            f"n{leader.slot}",
            group.view,
            is_top=name[0] == self._height - 1,
        )

    def _is_up(self, member: _Member) -> bool:
        return self._numbers[member.slot] == member.number and (
            self._nodes[member.slot] is not None
        )

    # Rounds

    def _open(self, name: Name) -> None:
        options = self._options
        self._at(self.now + options.interval_s, partial(self._open, name))
        group = self._groups[name]
        members = group.members
        if group.state is None or not self._is_up(members[0]):
            return
        group.state, word = open_round(self._program, group.state)
        gathered: Report | None = None
        for place, member in enumerate(members):
            if self._is_up(member):
                report = self._visit(name[0], member, word, place, len(members))
                if report is not None:
                    program = self._program
                    gathered = report if gathered is None else merge(program, gathered, report)
        assert gathered is not None
        ending = _Ending(name, group.view, word, gathered)
        self._at(self.now + options.hop_s * len(members), partial(self._close, ending))

    def _visit(
        self, level: int, member: _Member, word: Word, place: int, count: int
    ) -> Report | None:
        self.outcome.visits += 1
        if level == 0:
            node = self._nodes[member.slot]
            assert node is not None
            node, report, outputs = visit(self._program, node, word, place, count)
            self._nodes[member.slot] = node
            self._take(outputs)
            return report
        group = self._groups[level - 1, member.slot // self._options.size**level]
        if group.state is None or group.leader != member.number:
            return None
        group.state, report, _ = visit(self._program, group.state, word, place, count)
        return report

    def _close(self, ending: _Ending) -> None:
        group = self._groups[ending.name]
        if group.view != ending.view or group.state is None or not self._is_up(group.members[0]):
            return
        is_top = ending.name[0] == self._height - 1
        group.state = close_round(
            self._program,
            group.state,
            ending.word.round,
            ending.report,
            len(group.members),
            is_top=is_top,
        )
        if is_top and group.state.is_settled:
            if self._has_begun and group.state.is_beginning:
                self.outcome.begun_again += 1
            self._has_begun = not group.state.is_beginning

    def _take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Asked):
                self.outcome.requests[output.event] += 1
                self.outcome.firsts.setdefault((output.event, output.arguments), self.now)

    # Applications, and claims

    def _give_next(self) -> None:
        self._given += 1
        for slot, node in enumerate(self._nodes):
            if node is not None:
                self._give(slot, self._given)
        self._at(self.now + self._options.number_s, self._give_next)

    def _give(self, slot: int, number: int) -> None:
        for event in self._events:
            node = self._nodes[slot]
            assert node is not None
            self._nodes[slot], outputs = handle_event(self._program, node, event, (number,))
            self._take(outputs)

    def _look(self) -> None:
        """Check claims; nodes with the same values stand for each other."""
        self._at(self.now + self._options.interval_s, self._look)
        regular = self._regular_groups()
        observed: dict[object, Observed] = {}
        for slot, node in enumerate(self._nodes):
            if node is None:
                continue
            is_regular = (
                node.standing is Standing.REGULAR
                and self._known[slot] == self._numbers[slot]
                and slot // self._options.size in regular
            )
            values = tuple(each.value for each in node.slots)
            observed.setdefault((values, is_regular), Observed(values, is_regular))
        top = self._groups[self._height - 1, 0].state
        self.outcome.top = () if top is None else [slot.value for slot in top.slots]
        named = {f"like n{at}": each for at, each in enumerate(observed.values())}
        self.outcome.broken = self._claims.check(named, self.outcome.top)
        self.outcome.broken_at = self.now

    def _regular_groups(self) -> set[int]:
        """Return the places of the lowest domains that are regular at every level."""
        regular = {0}
        size = self._options.size
        for level in range(self._height - 1, -1, -1):
            places = (
                regular
                if level == self._height - 1
                else {place * size + at for place in regular for at in range(size)}
            )
            regular = set()
            for place in places:
                group = self._groups.get((level, place))
                if (
                    group is not None
                    and group.state is not None
                    and group.state.standing is Standing.REGULAR
                    and self._is_up(group.members[0])
                ):
                    regular.add(place)
        return regular
