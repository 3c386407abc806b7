"""Does one formula imply another? Decided by looking for a history that tells them apart.

Both formulas run side by side over every sequence of letters, which are what can
be said of one event: its kind, which parts of its value match, what holds
somewhere. Only histories that satisfy the first are followed; one that breaks
the second is a counterexample, and if none is left the implication holds. For
formulas without data and quantifiers this is exact. Otherwise letters that no
event could have are among those tried, so an implication found is one, but some
may be missed (the answer is then no).

Variables: the second formula's are arbitrary values; the first holds for all
values, so it is taken for every way to put these in. Quantifiers: what holds
somewhere is a letter's free choice within rules that are always true: what
holds here holds somewhere; if one body implies another, so do their quantifiers;
a body that never stops to hold, once true, is true somewhere from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import TypeAlias

import msgspec

from quicksilver.live.formalisms.structure import Place
from quicksilver.live.formalisms.temporal.automaton import Program
from quicksilver.live.formalisms.temporal.syntax import (
    And,
    Compares,
    Constant,
    Formula,
    Matches,
    Occurs,
    Operand,
    Previous,
    Somewhere,
    Truth,
    Variable,
    compare,
    implication,
    rewrite,
    variables_of,
    walk,
)

LETTERS_MAX = 4_096
BODIES_MAX = 4
"""Quantifiers whose bodies are compared with one another."""
NODES_MAX = 4_000
"""Size of the first formula once it is written out for all values."""
WORK_MAX = 600_000
"""Operations in one decision, about a quarter of a second; past it nothing is shown."""


class Holds(msgspec.Struct, frozen=True):
    """The implication holds."""


class Refuted(msgspec.Struct, frozen=True):
    """A history that the first formula allows and the second does not, as kinds of events."""

    history: tuple[str, ...]


class Undecided(msgspec.Struct, frozen=True):
    """The formulas are too large to try everything."""


Answer: TypeAlias = Holds | Refuted | Undecided


class _Budget:
    """What work is left for one decision."""

    def __init__(self) -> None:
        self._left = WORK_MAX

    def spend(self, work: int) -> bool:
        """Use up part of the allowed work; returns whether enough was left."""
        self._left -= work
        return self._left >= 0


_HOLDS = Holds()


def decide_implication(stronger: Formula, weaker: Formula) -> Answer:
    """Say whether every history that satisfies one formula satisfies the other."""
    if set(_conjuncts(weaker)) <= set(_conjuncts(stronger)):
        return _HOLDS
    budget = _Budget()
    targets = variables_of(weaker)
    answer = _decide_with(_in_every_way(stronger, targets), weaker, (), budget)
    if isinstance(answer, Holds):
        return answer
    if isinstance(answer, Undecided):
        # What it says of these very values may be enough, and is less to try.
        alike = _in_one_way(stronger, targets)
        return _HOLDS if _decide_with(alike, weaker, (), budget) == _HOLDS else answer
    witnesses = tuple(_witnesses_of(stronger))
    if witnesses:
        targets = variables_of(And((weaker, *witnesses)))
        assumed = _in_every_way(stronger, targets)
        if _decide_with(assumed, weaker, witnesses, budget) == _HOLDS:
            return _HOLDS
    return answer


def _decide_with(
    assumed: Formula | None, weaker: Formula, witnesses: tuple[Matches, ...], budget: _Budget
) -> Answer:
    if assumed is None:
        return Undecided()

    def always(wanted: Formula) -> bool:
        return _search(here, wanted, (), budget) == _HOLDS

    bodies = _quantified_bodies(And((assumed, weaker)))
    rules: list[Formula] = [implication(body, Somewhere(body)) for body in bodies]
    here = And((assumed, *rules))
    further: list[Formula] = []
    for body in bodies:
        if always(implication(body, Truth(False))):
            further.append(implication(Somewhere(body), Truth(False)))
        if always(implication(Previous(body), body)):
            further.append(implication(Previous(Somewhere(body)), Somewhere(body)))
    pairs = product(bodies, bodies) if len(bodies) <= BODIES_MAX else ()
    for one, other in pairs:
        if one != other and always(implication(one, other)):
            further.append(implication(Somewhere(one), Somewhere(other)))
    return _search(And((here, *further)), weaker, witnesses, budget)


def _witnesses_of(formula: Formula) -> Iterator[Matches]:
    """Yield, for each variable, that it is what the event carries that breaks the other formula.

    The first formula holds for all values, so also for that event's. A variable
    that stands for two parts of one event has no such value.
    """
    paths: dict[tuple[Variable, Place], set[str]] = {}
    for one in walk(formula):
        if isinstance(one, Matches) and isinstance(one.operand, Variable):
            paths.setdefault((one.operand, one.place), set()).add(one.path)
    ambiguous = {variable for (variable, _), found in paths.items() if len(found) > 1}
    for (variable, place), found in paths.items():
        if variable not in ambiguous:
            (path,) = found
            yield Matches(place, path, Variable(f"the event's {variable.name}"))


def _in_every_way(formula: Formula, targets: list[Variable]) -> Formula | None:
    """Return what a formula says when its variables are any of the targets; None if too much.

    Parts of a conjunction hold for all values on their own, so each is taken by itself.
    """
    values = targets or [Variable("any")]
    made: list[Formula] = []
    size = 0
    for part in _conjuncts(formula):
        variables = variables_of(part)
        size += len(list(walk(part))) * len(values) ** len(variables)
        if size > NODES_MAX:
            return None
        made += [
            _put_values(part, dict(zip(variables, chosen, strict=True)))
            for chosen in product(values, repeat=len(variables))
        ]
    return And(tuple(made))


def _in_one_way(formula: Formula, targets: list[Variable]) -> Formula:
    """Return what a formula says of the targets taken in order, the first for want of others."""
    values = targets or [Variable("any")]
    made: list[Formula] = []
    for part in _conjuncts(formula):
        variables = variables_of(part)
        chosen = [values[n] if n < len(values) else values[0] for n in range(len(variables))]
        made.append(_put_values(part, dict(zip(variables, chosen, strict=True))))
    return And(tuple(made))


def _conjuncts(formula: Formula) -> Iterator[Formula]:
    if isinstance(formula, And):
        for part in formula.parts:
            yield from _conjuncts(part)
    else:
        yield formula


def _put_values(formula: Formula, names: dict[Variable, Variable]) -> Formula:
    def put(operand: Operand) -> Operand:
        return names[operand] if isinstance(operand, Variable) else operand

    def rename(one: Formula) -> Formula:
        if isinstance(one, Matches):
            return Matches(one.place, one.path, put(one.operand))
        if isinstance(one, Compares):
            return compare(one.operator, put(one.left), put(one.right))
        return one

    return rewrite(formula, rename)


def _quantified_bodies(formula: Formula) -> list[Formula]:
    bodies = {one.body: None for one in walk(formula) if isinstance(one, Somewhere)}
    return list(bodies)


def _search(
    assumed: Formula, wanted: Formula, witnesses: tuple[Matches, ...], budget: _Budget
) -> Answer:
    """Look for a history along which ``assumed`` always holds and ``wanted`` once does not.

    The event at which it does not carries the witnesses that it has room for.
    """
    fits = And(tuple(implication(Occurs(one.place), one) for one in witnesses))
    program = Program([assumed, wanted, fits])
    rigid = [n for n, atom in enumerate(program.atoms) if isinstance(atom, Compares)]
    for chosen in product((False, True), repeat=len(rigid)):
        fixed = sum(1 << n for n, holds in zip(rigid, chosen, strict=True) if holds)
        letters = _letters_of(program, fixed)
        if letters is None:
            return Undecided()
        came_from: dict[int, tuple[int, int]] = {}
        reached = {program.START}
        frontier = [program.START]
        while frontier:
            upcoming: list[int] = []
            for memory in frontier:
                if not budget.spend(len(letters) * program.size):
                    return Undecided()
                for letter in letters:
                    after, holds = program.step(memory, letter)
                    if holds == 0b101:
                        return Refuted(_describe(program, [*_path(came_from, memory), letter]))
                    if holds & 0b11 == 0b11 and after not in reached:
                        reached.add(after)
                        came_from[after] = (memory, letter)
                        upcoming.append(after)
            frontier = upcoming
    return _HOLDS


def _letters_of(program: Program, fixed: int) -> list[int] | None:
    """Return every letter that can be, given the comparisons; None if they are too many."""
    by_place: dict[Place, list[int]] = {}
    quantified: list[int] = []
    occurs: dict[Place, int] = {}
    for number, atom in enumerate(program.atoms):
        if isinstance(atom, Matches):
            by_place.setdefault(atom.place, []).append(number)
        elif isinstance(atom, Occurs):
            occurs[atom.place] = 1 << number
            by_place.setdefault(atom.place, [])
        elif isinstance(atom, Somewhere):
            quantified.append(number)
    if 2 ** len(quantified) > LETTERS_MAX:
        return None
    events = [fixed]  # an event that no formula mentions
    for place, matches in by_place.items():
        if 2 ** len(matches) > LETTERS_MAX:
            return None
        for size in range(len(matches) + 1):
            for chosen in combinations(matches, size):
                letter = fixed | occurs.get(place, 0) | sum(1 << n for n in chosen)
                if _is_possible(program, letter, matches):
                    events.append(letter)
    choices = [sum(bits) for bits in _subsets([1 << n for n in quantified])]
    if len(events) * len(choices) > LETTERS_MAX:
        return None
    return [event | choice for event in events for choice in choices]


def _subsets(bits: list[int]) -> Iterator[tuple[int, ...]]:
    for size in range(len(bits) + 1):
        yield from combinations(bits, size)


def _is_possible(program: Program, letter: int, matches: list[int]) -> bool:
    """Say whether parts of one value can match and not match as the letter says."""
    rigid = {atom: bool(letter >> n & 1) for n, atom in enumerate(program.atoms)}
    for one, other in combinations(matches, 2):
        first, second = program.atoms[one], program.atoms[other]
        assert isinstance(first, Matches)
        assert isinstance(second, Matches)
        if first.path != second.path:
            continue
        both = bool(letter >> one & 1) and bool(letter >> other & 1)
        left, right = first.operand, second.operand
        if isinstance(left, Constant) and isinstance(right, Constant):
            if both and left.value != right.value:
                return False
            continue
        equal = compare("==", left, right)
        if isinstance(equal, Compares) and equal in rigid:
            differ = bool(letter >> one & 1) != bool(letter >> other & 1)
            if (both and not rigid[equal]) or (differ and rigid[equal]):
                return False
    return True


def _path(came_from: dict[int, tuple[int, int]], memory: int) -> list[int]:
    letters: list[int] = []
    while memory in came_from:
        memory, letter = came_from[memory]
        letters.append(letter)
    return letters[::-1]


def _describe(program: Program, letters: list[int]) -> tuple[str, ...]:
    """Write each letter as the event it stands for."""
    described: list[str] = []
    for letter in letters:
        held = [atom for number, atom in enumerate(program.atoms) if letter >> number & 1]
        matches = [atom for atom in held if isinstance(atom, Matches)]
        arguments = ", ".join(
            (f"{one.path}=" if one.path else "") + _say_operand(one.operand) for one in matches
        )
        places = [atom.place for atom in held if isinstance(atom, Occurs | Matches)]
        name = str(places[0]) if places else "another event"
        described.append(f"{name}({arguments})" if arguments else name)
    return tuple(described)


def _say_operand(operand: Operand) -> str:
    return operand.name if isinstance(operand, Variable) else repr(operand.value)
