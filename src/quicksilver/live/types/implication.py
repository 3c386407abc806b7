"""When the constraints of one type are no weaker than those of another (2.3).

For every formula asked for, one in the same formalism must have been given that
implies it. Constraints are a function from formalisms to formulas; where a type
writes several in one formalism, they mean their conjunction if the formalism can
form it, and otherwise one of them must do.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from quicksilver.live.formalisms.base import Formalism, FormalismError, Formalisms
from quicksilver.live.formalisms.structure import Structure
from quicksilver.live.types.errors import Diagnosis, Step, StepKind, gather
from quicksilver.live.types.model import Constraint, EndpointType, ObjectType

FORMULAS_KEPT_MAX = 20_000

_Formula: TypeAlias = Any


class ConstraintComparison:
    """Compares sets of constraints, keeping the formulas it has read."""

    def __init__(self, formalisms: Formalisms) -> None:
        self._formalisms = formalisms
        self._read: dict[tuple[bytes, bytes], tuple[Formalism[Any], _Formula]] = {}
        self._revision = formalisms.revision

    def check_readable(
        self, type_: EndpointType | ObjectType, structure: Structure
    ) -> Diagnosis | None:
        """Return which of the type's own constraints cannot be read, or None if all can."""
        causes: list[Diagnosis | None] = []
        kinds: tuple[tuple[StepKind, tuple[Constraint, ...]], ...] = (
            ("provided constraint", type_.provides),
            ("required constraint", type_.requires),
        )
        for kind, constraints in kinds:
            for constraint in constraints:
                try:
                    self.read(constraint, structure)
                except FormalismError as error:
                    causes.append(Diagnosis(_step(kind, constraint), str(error)))
        return gather(*causes)

    def compare(
        self,
        given: tuple[Constraint, ...],
        given_structure: Structure,
        asked: tuple[Constraint, ...],
        asked_structure: Structure,
        kind: StepKind,
    ) -> Diagnosis | None:
        """Return which constraint asked for is not implied by those given, or None."""
        return gather(
            *(
                self._find_implication(given, given_structure, one, asked_structure, kind)
                for one in asked
            )
        )

    def _find_implication(
        self,
        given: tuple[Constraint, ...],
        given_structure: Structure,
        wanted: Constraint,
        wanted_structure: Structure,
        kind: StepKind,
    ) -> Diagnosis | None:
        step = _step(kind, wanted)
        candidates = [one for one in given if one.formalism == wanted.formalism]
        try:
            formalism, weaker = self.read(wanted, wanted_structure)
            if not candidates:
                return Diagnosis(step, f"nothing is provided in {wanted.formalism}")
            formulas = [self.read(one, given_structure)[1] for one in candidates]
        except FormalismError as error:
            return Diagnosis(step, str(error))
        conjunction = formalism.conjoin(formulas)
        stronger = formulas if conjunction is None else [conjunction]
        if any(formalism.implies(formula, weaker) for formula in stronger):
            return None
        provided = " and ".join(repr(one.text) for one in candidates)
        why = formalism.explain(stronger[0], weaker)
        return Diagnosis(step, f"not implied by {provided}{': ' if why else ''}{why}")

    def read(self, constraint: Constraint, structure: Structure) -> tuple[Formalism[Any], _Formula]:
        """Return a constraint's formalism and its formula, or raise FormalismError."""
        if self._formalisms.revision != self._revision or len(self._read) >= FORMULAS_KEPT_MAX:
            self._read.clear()
            self._revision = self._formalisms.revision
        key = (constraint.digest, structure.key)
        found = self._read.get(key)
        if found is None:
            formalism = self._formalisms.find(constraint.formalism)
            found = self._read[key] = (formalism, formalism.parse(constraint.text, structure))
        return found


def _step(kind: StepKind, constraint: Constraint) -> Step:
    return Step(kind, f"{constraint.formalism} {constraint.text!r}")
