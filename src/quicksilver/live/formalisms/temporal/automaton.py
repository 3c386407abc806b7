"""Formulas as finite-state machines: a step for each event, a few bits of memory.

Past-time operators need only what held at the event before: ``once`` and
``since`` their own last value, ``previous`` its body's. A program evaluates several
formulas together, sharing what they have in common. Letters and memory are
integers used as sets of bits, and every step taken is remembered, so that a
program becomes the table of its automaton as far as it has been used.

An automaton runs a program for one choice of values, over all instances.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from quicksilver.live.formalisms.base import Observed
from quicksilver.live.formalisms.structure import Place
from quicksilver.live.formalisms.temporal.syntax import (
    And,
    Compares,
    Constant,
    Formula,
    Matches,
    Not,
    Occurs,
    Once,
    Operand,
    Previous,
    Since,
    Somewhere,
    Truth,
    Variable,
    is_late,
    parts_of,
    walk,
)

Atom: TypeAlias = Occurs | Matches | Compares | Somewhere
"""What a program is told from outside. The body of a quantifier is not evaluated here."""

STEPS_KEPT_MAX = 50_000

_CONST, _ATOM, _NOT, _AND, _ONCE, _PREVIOUS, _SINCE = range(7)


class Program:
    """Evaluates formulas over a sequence of letters."""

    START: Final = 0
    """The memory before the first event: nothing ever held."""

    def __init__(self, roots: Sequence[Formula]) -> None:
        self.atoms: list[Atom] = []
        self._codes: list[tuple[int, int, tuple[int, ...]]] = []
        self._numbers: dict[Formula, int] = {}
        self._memory_bits = 0
        self._roots = [self._add(root) for root in roots]
        self._steps: dict[tuple[int, int], tuple[int, int]] = {}

    @property
    def size(self) -> int:
        """Return the number of operations that a step takes."""
        return len(self._codes)

    def step(self, memory: int, letter: int) -> tuple[int, int]:
        """Take a letter (bit n: atom n holds); return memory and what holds (bit n: root n)."""
        key = (memory, letter)
        known = self._steps.get(key)
        if known is None:
            if len(self._steps) >= STEPS_KEPT_MAX:
                self._steps.clear()
            known = self._steps[key] = self._evaluate(memory, letter)
        return known

    def _evaluate(self, memory: int, letter: int) -> tuple[int, int]:
        values: list[bool] = []
        after = 0
        for code, number, inputs in self._codes:
            if code == _ATOM:
                value = bool(letter >> number & 1)
            elif code == _NOT:
                value = not values[inputs[0]]
            elif code == _AND:
                value = all(values[one] for one in inputs)
            elif code == _CONST:
                value = bool(number)
            else:
                before = bool(memory >> number & 1)
                kept = values[inputs[0]]
                if code == _ONCE:
                    value = kept = kept or before
                elif code == _SINCE:
                    value = kept = values[inputs[1]] or (kept and before)
                else:
                    value = before
                after |= kept << number
            values.append(value)
        verdict = 0
        for bit, root in enumerate(self._roots):
            verdict |= values[root] << bit
        return after, verdict

    def _add(self, formula: Formula) -> int:
        number = self._numbers.get(formula)
        if number is not None:
            return number
        code, argument = self._code(formula)
        inputs = () if code == _ATOM else tuple(self._add(one) for one in parts_of(formula))
        self._codes.append((code, argument, inputs))
        self._numbers[formula] = len(self._codes) - 1
        return len(self._codes) - 1

    def _code(self, formula: Formula) -> tuple[int, int]:
        match formula:
            case Truth():
                return _CONST, int(formula.value)
            case Not():
                return _NOT, 0
            case And():
                return _AND, 0
            case Occurs() | Matches() | Compares() | Somewhere():
                self.atoms.append(formula)
                return _ATOM, len(self.atoms) - 1
            case Once() | Previous() | Since():
                codes = {Once: _ONCE, Previous: _PREVIOUS, Since: _SINCE}
                self._memory_bits += 1
                return codes[type(formula)], self._memory_bits - 1


State: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...]]
"""What comparisons hold; each instance's memory, or -1; what quantified bodies hold there."""
Values: TypeAlias = Mapping[Variable, object]

_BYTES_KEPT_MAX = 256


class _Nothing:
    """Stands for a value that is missing: it is equal to no value."""


_NOTHING = _Nothing()


class Automaton:
    """Steps a formula with the events of many instances."""

    def __init__(self, formula: Formula) -> None:
        quantified = {one: None for one in walk(formula) if isinstance(one, Somewhere)}
        self._program = Program([formula, *(one.body for one in quantified)])
        numbers = {atom: number for number, atom in enumerate(self._program.atoms)}
        self._quantified = [1 << numbers[one] for one in quantified]
        self._comparisons = [
            (1 << number, atom) for atom, number in numbers.items() if isinstance(atom, Compares)
        ]
        self._occurs = {
            atom.place: 1 << number for atom, number in numbers.items() if isinstance(atom, Occurs)
        }
        self._matches: dict[Place, list[tuple[int, str, Operand]]] = {}
        for atom, number in numbers.items():
            if isinstance(atom, Matches):
                found = self._matches.setdefault(atom.place, [])
                found.append((1 << number, atom.path, atom.operand))
        # Order is asked of the values themselves, equality only of what identifies them.
        self._keeps_values = any(is_late(one) for _, one in self._comparisons)

    def start(self, values: Values) -> State:
        """Return the state before any event."""
        return self._compare(values), (), ()

    def refresh(self, state: State, values: Values) -> State:
        """Return the state as it is for other values that have behaved the same so far."""
        return self._compare(values), state[1], state[2]

    def step(self, state: State, instance: int, letter: int) -> tuple[State, bool]:
        """Take an event of an instance; return the new state and whether the formula holds."""
        rigid, memories, bodies = state
        while len(memories) <= instance:
            memories, bodies = (*memories, -1), (*bodies, 0)
        memory = memories[instance] if memories[instance] >= 0 else Program.START
        letter |= rigid
        after, holds = self._program.step(memory, letter)
        bodies = _replace(bodies, instance, holds >> 1)
        if self._quantified:
            somewhere = 0
            for one in bodies:
                somewhere |= one
            for number, bit in enumerate(self._quantified):
                if somewhere >> number & 1:
                    letter |= bit
            after, holds = self._program.step(memory, letter)
        return (rigid, _replace(memories, instance, after), bodies), bool(holds & 1)

    def letter(self, place: Place, value: object, values: Values) -> int:
        """Return what atoms hold at an event, for a choice of values."""
        letter = self._occurs.get(place, 0)
        for bit, path, operand in self._matches.get(place, ()):
            part = self._part(value, path)
            if isinstance(operand, Constant):
                wanted: object = self._part(operand.value, "")
            else:
                wanted = values.get(operand, _NOTHING)
            if _is_same(part, wanted):
                letter |= bit
        return letter

    def carried(self, place: Place, value: object) -> list[tuple[Variable, object]]:
        """Return the values that an event offers to variables."""
        return [
            (operand, self._part(value, path))
            for _, path, operand in self._matches.get(place, ())
            if isinstance(operand, Variable)
        ]

    def concerns(self, past: Observed, event: Observed) -> bool:
        """Say whether a past event can have had a part in what an event breaks."""
        return bool(self._quantified) or past.instance == event.instance

    def carries(self, past: Observed, values: Values) -> bool:
        """Say whether an event carries one of the values, or none that matter."""
        carried = self.carried(Place(past.endpoint, past.direction, past.name), past.value)
        return not carried or any(_is_same(part, values[one]) for one, part in carried)

    def _compare(self, values: Values) -> int:
        rigid = 0
        for bit, comparison in self._comparisons:
            left, right = (
                one.value if isinstance(one, Constant) else values[one]
                for one in (comparison.left, comparison.right)
            )
            if _holds(comparison.operator, left, right):
                rigid |= bit
        return rigid

    def _part(self, value: object, path: str) -> object:
        """Return a part of a value; one that is absent counts as none."""
        if path:
            if isinstance(value, Mapping):
                value = value.get(path)
            else:
                value = getattr(value, path, None)
        return value if self._keeps_values and _is_hashable(value) else identify(value)


def identify(value: object) -> object:
    """Return something small and hashable that is equal exactly when values are."""
    if isinstance(value, str | bytes) and len(value) > _BYTES_KEPT_MAX:
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        return (type(value).__name__, hashlib.blake2b(data, digest_size=16).digest())
    if _is_hashable(value):
        return value
    return ("json", hashlib.blake2b(_encode(value), digest_size=16).digest())


def _encode(value: object) -> bytes:
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (TypeError, ValueError):
        return repr(value).encode("utf-8", "surrogatepass")


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _is_same(one: object, other: object) -> bool:
    return one is other or bool(one == other)


def _holds(operator: str, left: object, right: object) -> bool:
    if operator == "==":
        return _is_same(left, right)
    try:
        return bool(left < right if operator == "<" else left <= right)  # type: ignore[operator]  # values of any type: those without an order do not compare
    except TypeError:
        return False


def _replace(items: tuple[int, ...], place: int, item: int) -> tuple[int, ...]:
    return (*items[:place], item, *items[place + 1 :])
