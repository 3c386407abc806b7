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
