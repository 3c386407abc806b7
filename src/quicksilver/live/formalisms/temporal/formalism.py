"""The formalism ``temporal``: parsing, implication and monitors put together."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.live.formalisms.base import Formalism, Monitor
from quicksilver.live.formalisms.structure import Structure
from quicksilver.live.formalisms.temporal.implication import (
    Answer,
    Holds,
    Refuted,
    Undecided,
    decide_implication,
)
from quicksilver.live.formalisms.temporal.monitor import TemporalMonitor
from quicksilver.live.formalisms.temporal.parser import parse_formula
from quicksilver.live.formalisms.temporal.syntax import And, Formula

ANSWERS_KEPT_MAX = 5_000


class Temporal(Formalism[Formula]):
    """The formalism ``temporal``."""

    identifier = "temporal"

    def __init__(self) -> None:
        self._answers: dict[tuple[Formula, Formula], Answer] = {}

    def parse(self, text: str, structure: Structure) -> Formula:
        """Read a formula about the events of a structure."""
        return parse_formula(self.identifier, text, structure)

    def implies(self, stronger: Formula, weaker: Formula) -> bool:
        """Say whether no history that satisfies ``stronger`` breaks ``weaker``."""
        return isinstance(self._decide(stronger, weaker), Holds)

    def conjoin(self, formulas: Sequence[Formula]) -> Formula:
        """Return the formula that says all of these.

        They may share variables: "for all m" of a conjunction is the conjunction of both.
        """
        return formulas[0] if len(formulas) == 1 else And(tuple(formulas))

    def explain(self, stronger: Formula, weaker: Formula) -> str:
        """Give a history that one allows and the other does not."""
        match self._decide(stronger, weaker):
            case Refuted(history):
                return f"it allows {', then '.join(history)}"
            case Undecided():
                return "the formulas are too large to compare"
            case Holds():
                return ""

    def monitor(self, formula: Formula) -> Monitor:
        """Return a monitor compiled from the formula."""
        return TemporalMonitor(formula)

    def _decide(self, stronger: Formula, weaker: Formula) -> Answer:
        question = (stronger, weaker)
        if question not in self._answers:
            if len(self._answers) >= ANSWERS_KEPT_MAX:
                self._answers.clear()
            self._answers[question] = decide_implication(stronger, weaker)
        return self._answers[question]
