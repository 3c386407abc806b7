"""Formulas as finite-state machines: a step for each event, a few bits of memory.

Past-time operators need only what held at the event before: ``once`` and
``since`` their own last value, ``previous`` its body's. A program evaluates several
formulas together, sharing what they have in common. Letters and memory are
integers used as sets of bits, and every step taken is remembered, so that a
program becomes the table of its automaton as far as it has been used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from quicksilver.live.formalisms.temporal.syntax import (
    And,
    Compares,
    Formula,
    Matches,
    Not,
    Occurs,
    Once,
    Previous,
    Since,
    Somewhere,
    Truth,
    parts_of,
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
