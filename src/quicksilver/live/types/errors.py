"""What can be wrong with a type: why a relation does not hold, and errors that hold data.

A diagnosis is a tree that ends at the exact places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from quicksilver.stdx.errors import QuicksilverError

StepKind: TypeAlias = Literal[
    "endpoint",
    "incoming event",
    "outgoing event",
    "provided constraint",
    "required constraint",
    "field",
    "item",
    "key",
    "value",
    "alternative",
    "referenced object",
    "parameter",
    "whole",
]


class Step(msgspec.Struct, frozen=True):
    """One step into a type: what kind of part, and its name."""

    kind: StepKind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


WHOLE = Step("whole")


class Diagnosis(msgspec.Struct, frozen=True):
    """What does not fit: at a place, for a reason, because of what is further inside.

    A node with causes has its reasons there; one without is an exact place.
    """

    step: Step
    reason: str = ""
    causes: tuple[Diagnosis, ...] = ()

    @property
    def places(self) -> Iterator[tuple[tuple[Step, ...], str]]:
        """Yield every exact place, as the steps to it, with its reason."""
        own = () if self.step == WHOLE else (self.step,)
        if not self.causes:
            yield own, self.reason
        for cause in self.causes:
            for steps, reason in cause.places:
                yield (*own, *steps), reason

    @property
    def line(self) -> str:
        """Return the first exact place and its reason, on one line."""
        places = list(self.places)
        steps, reason = places[0]
        more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
        path = " > ".join(map(str, steps))
        return f"{path}: {reason}{more}" if path else f"{reason}{more}"

    @property
    def full(self) -> str:
        """Return the whole tree, a line for each node."""
        return "\n".join(self._lines(0))

    def _lines(self, depth: int) -> Iterator[str]:
        inner = depth
        if self.step != WHOLE or self.reason:
            head = "" if self.step == WHOLE else str(self.step)
            colon = ": " if head and self.reason else ""
            yield f"{'  ' * depth}{head}{colon}{self.reason}"
            inner += 1
        for cause in self.causes:
            yield from cause._lines(inner)

    def __str__(self) -> str:
        return self.line


def inside(step: Step, cause: Diagnosis | None) -> Diagnosis | None:
    """Return a diagnosis as the cause of one at the step around it; None if there is none."""
    return None if cause is None else Diagnosis(step, "", (cause,))


def gather(*causes: Diagnosis | None, step: Step = WHOLE) -> Diagnosis | None:
    """Return one diagnosis of all that is wrong; None if nothing is."""
    found = tuple(one for one in causes if one is not None)
    if not found:
        return None
    return found[0] if len(found) == 1 and step == WHOLE else Diagnosis(step, "", found)


class LiveTypeError(QuicksilverError):
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


class ReflectionError(LiveTypeError, TypeError):
    """A type cannot be read off Python code."""


class NotAnEventTypeError(ReflectionError):
    """An annotation that no event can carry."""

    def __init__(self, place: str, annotation: str, reason: str) -> None:
        super().__init__(place, annotation, reason)
        self.place = place
        self.annotation = annotation
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.place}: {self.annotation} cannot be in an event: {self.reason}"


class UnreadableAnnotationError(ReflectionError):
    """An annotation that names what cannot be found."""

    def __init__(self, place: str, annotation: str, reason: str) -> None:
        super().__init__(place, annotation, reason)
        self.place = place
        self.annotation = annotation
        self.reason = reason

    def __str__(self) -> str:
        what = f"annotation {self.annotation!r}" if self.annotation else "annotations"
        return f"{self.place}: {what} cannot be read: {self.reason}"


class NotAnInterfaceError(ReflectionError):
    """A class that does not describe events, or a method of it that is not an event."""

    def __init__(self, interface: str, member: str, reason: str) -> None:
        super().__init__(interface, member, reason)
        self.interface = interface
        self.member = member
        self.reason = reason

    def __str__(self) -> str:
        member = f".{self.member}" if self.member else ""
        return f"{self.interface}{member} is not an event interface: {self.reason}"


class NotAnObjectTypeError(ReflectionError):
    """A class off which no object type can be read."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.name} does not describe live objects: {self.reason}"
