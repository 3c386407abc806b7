"""A monitor compiled from a formula: a step per event, and proof when it is broken.

Variables make a formula stand for many, one for every choice of values. Values
that have not occurred yet all behave alike, so the monitor follows the choices
among values seen and a few unseen ones, and a value that occurs for the first
time takes over the state of an unseen one. Choices in the same state are kept as
one group: an event costs a step for each group it finds and one for each choice
whose values it carries. Everything is bounded: past the limit, new values are
counted and not followed, so that nothing is ever reported that did not happen.
"""

from __future__ import annotations

from collections import deque
from itertools import product
from typing import TypeAlias

import msgspec

from quicksilver.live.formalisms.base import Broken, Monitor, Observed
from quicksilver.live.formalisms.structure import Place
from quicksilver.live.formalisms.temporal.automaton import Automaton, State, Values
from quicksilver.live.formalisms.temporal.syntax import Formula, Variable, is_late, walk
from quicksilver.live.formalisms.temporal.syntax import variables_of as find_variables

EVENTS_TRIED_MAX = 64


def shorten_proof(automaton: Automaton, values: Values, events: list[Observed]) -> list[Observed]:
    """Leave out events one by one as long as the last still breaks the formula, and no other does.

    Events that carry other values, and those too far back to be tried, are left in
    only if it takes them.
    """
    if not _breaks_last(automaton, values, events):
        return events  # what broke it began before the events that were kept
    near = [one for one in events[:-1] if automaton.carries(one, values)] + events[-1:]
    kept = events
    for fewer in (near[-EVENTS_TRIED_MAX:], near, events[-EVENTS_TRIED_MAX:]):
        if _breaks_last(automaton, values, fewer):
            kept = fewer
            break
    place = 0
    while place < len(kept) - 1 and len(kept) <= EVENTS_TRIED_MAX:
        shorter = kept[:place] + kept[place + 1 :]
        if _breaks_last(automaton, values, shorter):
            kept = shorter
        else:
            place += 1
    return kept


def _breaks_last(automaton: Automaton, values: Values, events: list[Observed]) -> bool:
    """Say whether the formula holds at all events but the last."""
    state = automaton.start(values)
    instances: dict[str, int] = {}
    for event in events:
        number = instances.setdefault(event.instance, len(instances))
        place = Place(event.endpoint, event.direction, event.name)
        state, holds = automaton.step(state, number, automaton.letter(place, event.value, values))
        if not holds:
            return event is events[-1]
    return False


CHOICES_MAX = 20_000
INSTANCES_MAX = 1_000
EVENTS_KEPT_MAX = 256


class Unseen(msgspec.Struct, frozen=True):
    """A value that has not occurred yet."""

    number: int


Choice: TypeAlias = tuple[object, ...]
"""A value, seen or unseen, for each variable of the formula."""


class _Group:
    """Choices in the same state, in the order in which they came."""

    __slots__ = ("members", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.members: dict[Choice, None] = {}


class TemporalMonitor(Monitor):
    """Watches the instances of an endpoint, or of all endpoints of an object, for one formula."""

    def __init__(self, formula: Formula) -> None:
        self._automaton = Automaton(formula)
        self._variables = find_variables(formula)
        self._late = _late_positions(formula, self._variables)
        self._values: set[object] = set()
        self._choices_by_value: dict[tuple[int, object], dict[Choice, None]] = {}
        self._open: dict[Choice, None] = {}
        """Choices with unseen values."""
        self._groups: dict[State, _Group] = {}
        self._group_of: dict[Choice, _Group] = {}
        self._instances: dict[str, int] = {}
        self._history: deque[Observed] = deque(maxlen=EVENTS_KEPT_MAX)
        self._events_forgotten = 0
        self._has_changed = False
        """Whether the event that is being taken changed any state."""
        self.values_ignored = 0
        """Events whose values came after the limit was reached."""
        self.instances_ignored = 0
        """Events of instances that came after the limit was reached."""
        unseen = [Unseen(number) for number in range(len(self._variables))]
        for choice in product(unseen, repeat=len(unseen)):
            self._add(choice, self._automaton.start(self._named(choice)))

    def handle_event(self, event: Observed) -> Broken | None:
        """Take the next event; say whether it broke the formula."""
        instance = self._number_of(event.instance)
        if instance is None:
            self.instances_ignored += 1
            return None
        place = Place(event.endpoint, event.direction, event.name)
        carried = self._automaton.carried(place, event.value)
        self._learn({value for _, value in carried})
        positions = {variable: number for number, variable in enumerate(self._variables)}
        touched: dict[Choice, None] = {}
        for variable, value in carried:
            touched |= self._choices_by_value.get((positions[variable], value), {})
        self._has_changed = False
        broken = self._move(instance, place, event, touched)
        result = None if broken is None else self._prove(event, broken)
        # What changed no state had no part in anything, whatever it was.
        if self._has_changed:
            self._events_forgotten += len(self._history) == EVENTS_KEPT_MAX
            self._history.append(event)
        return result

    def _move(
        self, instance: int, place: Place, event: Observed, touched: dict[Choice, None]
    ) -> Choice | None:
        """Take the step of every choice; return the first choice that is broken by it."""
        automaton = self._automaton
        broken: Choice | None = None
        moved: list[tuple[Choice, State]] = []
        for choice in touched:
            group = self._group_of[choice]
            letter = automaton.letter(place, event.value, self._named(choice))
            state, holds = automaton.step(group.state, instance, letter)
            if not holds and broken is None and self._is_judged(choice):
                broken = choice
            self._has_changed |= state != group.state
            del group.members[choice]
            moved.append((choice, state))
        letter = automaton.letter(place, event.value, {})
        before, self._groups = self._groups, {}
        for group in before.values():
            if not group.members:
                continue
            state, holds = automaton.step(group.state, instance, letter)
            self._has_changed |= state != group.state
            group.state = state
            if not holds and broken is None:
                broken = next(filter(self._is_judged, group.members), None)
            self._merge(group)
        for choice, state in moved:
            self._put(choice, state)
        return broken

    def _merge(self, group: _Group) -> None:
        other = self._groups.setdefault(group.state, group)
        if other is not group:
            small, large = sorted((group, other), key=lambda one: len(one.members))
            for choice in small.members:
                self._group_of[choice] = large
            large.members |= small.members
            self._groups[group.state] = large

    def _put(self, choice: Choice, state: State) -> None:
        group = self._groups.get(state)
        if group is None:
            group = self._groups[state] = _Group(state)
        group.members[choice] = None
        self._group_of[choice] = group

    def _learn(self, values: set[object]) -> None:
        """Let values that occur for the first time take over from unseen ones."""
        for value in sorted(values - self._values, key=repr):
            count = len(self._values) + 1 + len(self._variables)
            if count ** len(self._variables) > CHOICES_MAX:
                self.values_ignored += 1
                continue
            self._values.add(value)
            for choice in list(self._open):
                for unseen in {one for one in choice if isinstance(one, Unseen)}:
                    made = tuple(value if one == unseen else one for one in choice)
                    if made not in self._group_of:
                        self._add(made, self._group_of[choice].state)

    def _add(self, choice: Choice, state: State) -> None:
        """Follow a choice of values, from the state of one that behaved alike so far."""
        self._put(choice, self._automaton.refresh(state, self._named(choice)))
        if any(isinstance(one, Unseen) for one in choice):
            self._open[choice] = None
        for position, one in enumerate(choice):
            self._choices_by_value.setdefault((position, one), {})[choice] = None

    def _number_of(self, instance: str) -> int | None:
        number = self._instances.get(instance)
        if number is None and len(self._instances) < INSTANCES_MAX:
            number = self._instances[instance] = len(self._instances)
        return number

    def _named(self, choice: Choice) -> dict[Variable, object]:
        return dict(zip(self._variables, choice, strict=True))

    def _is_judged(self, choice: Choice) -> bool:
        return not any(isinstance(choice[position], Unseen) for position in self._late)

    def _prove(self, event: Observed, broken: Choice) -> Broken:
        values = self._named(broken)
        relevant = [one for one in self._history if self._automaton.concerns(one, event)]
        proof = shorten_proof(self._automaton, values, [*relevant, event])
        known = {name: value for name, value in values.items() if not isinstance(value, Unseen)}
        said = ", ".join(f"{name.name} = {value!r}" for name, value in known.items())
        reason = f"the formula does not hold{' for ' if said else ''}{said}"
        return Broken(tuple(proof), reason, self._events_forgotten)


def _late_positions(formula: Formula, variables: list[Variable]) -> list[int]:
    late = {variable for one in walk(formula) if is_late(one) for variable in find_variables(one)}
    return [number for number, variable in enumerate(variables) if variable in late]
