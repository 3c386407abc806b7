"""What can be wrong with a type, as errors that hold data."""

from __future__ import annotations

from quicksilver.live.types.diagnosis import Diagnosis


class LiveTypeError(Exception):
    """Something is wrong with a distributed type or with its use."""


class TypeParseError(LiveTypeError):
    """Bytes that are not a type: malformed, too large, too deep or inconsistent."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem, path)
        self.problem = problem
        self.path = path

    def __str__(self) -> str:
        place = f" at {self.path}" if self.path else ""
        return f"not a type{place}: {self.problem}"


class MismatchError(LiveTypeError):
    """Two types do not stand in the relation that their use asks for."""

    def __init__(self, relation: str, diagnosis: Diagnosis) -> None:
        super().__init__(relation, diagnosis)
        self.relation = relation
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        return f"{self.relation}: {self.diagnosis.line}"


class ParameterError(LiveTypeError):
    """A template was given parameters that it cannot take."""

    def __init__(self, template: str, diagnosis: Diagnosis) -> None:
        super().__init__(template, diagnosis)
        self.template = template
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        name = f"the template {self.template}" if self.template else "the template"
        return f"{name} cannot be instantiated: {self.diagnosis.line}"
