"""The automaton of a formula for one choice of values, over all instances."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from quicksilver.live.formalisms.base import Observed
from quicksilver.live.formalisms.structure import Place
from quicksilver.live.formalisms.temporal.program import Program
from quicksilver.live.formalisms.temporal.syntax import (
    Compares,
    Constant,
    Formula,
    Matches,
    Occurs,
    Operand,
    Somewhere,
    Variable,
    is_late,
    walk,
)

State: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...]]
"""What comparisons hold; each instance's memory, or -1; what quantified bodies hold there."""
Values: TypeAlias = Mapping[Variable, object]

_BYTES_KEPT_MAX = 256


class _Nothing:
    """Equal to nothing."""


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
