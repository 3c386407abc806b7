"""Watching that the two sides of a connection keep what their endpoint types promise.

A watch is switched on for an endpoint type and told every event that passes
through its instances. Constraints that the endpoint provides bind the proxy that
owns it, constraints it requires bind whoever is connected to it; who broke one
is named, with the events that prove it (dissertation 2.1.2, 2.1.3).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from quicksilver.live.formalisms.base import Broken, Formalisms, Monitor, Observed
from quicksilver.live.formalisms.standard import standard_formalisms
from quicksilver.live.formalisms.structure import (
    CONNECT,
    DISCONNECT,
    Direction,
    Structure,
    endpoint_structure,
    object_structure,
)
from quicksilver.live.types.model import Constraint, EndpointType, ObjectType

Promise: TypeAlias = Literal["provided", "required"]


class Violation(msgspec.Struct, frozen=True):
    """A constraint was broken, by one side, as these events show."""

    constraint: Constraint
    promise: Promise
    """``provided``: the endpoint's owner broke it; ``required``: whoever is connected to it."""
    broken: Broken

    @property
    def events(self) -> tuple[Observed, ...]:
        """Return the events that prove it, oldest first."""
        return self.broken.events

    def __str__(self) -> str:
        events = ", then ".join(map(str, self.broken.events))
        constraint = f"{self.constraint.formalism} {self.constraint.text!r}"
        return f"{self.promise} {constraint} was broken by {events}: {self.broken.reason}"


class Watch:
    """The monitors of one type's constraints, fed together.

    Constraints that events cannot show broken have no monitor: they are listed
    in ``unwatched``. Reading a constraint may raise FormalismError.
    """

    def __init__(
        self, type_: EndpointType | ObjectType, *, formalisms: Formalisms | None = None
    ) -> None:
        self._formalisms = formalisms if formalisms is not None else standard_formalisms()
        self._monitors: list[tuple[Constraint, Promise, Monitor]] = []
        self._unwatched: list[Constraint] = []
        if isinstance(type_, EndpointType):
            structure = endpoint_structure(type_)
        else:
            structure = object_structure(type_)
        self._add(type_.provides, "provided", structure)
        self._add(type_.requires, "required", structure)

    @property
    def watched(self) -> list[Constraint]:
        """Return the constraints that are watched."""
        return [constraint for constraint, _, _ in self._monitors]

    @property
    def unwatched(self) -> list[Constraint]:
        """Return the constraints that events cannot show broken."""
        return list(self._unwatched)

    def handle_event(
        self,
        direction: Direction,
        name: str,
        value: Any = None,
        *,
        instance: str = "",
        endpoint: str = "",
        now: float = 0.0,
    ) -> list[Violation]:
        """Take an event as the endpoint's owner sees it; return what it broke."""
        event = Observed(direction, name, value, instance, endpoint, now)
        found: list[Violation] = []
        for constraint, promise, monitor in self._monitors:
            broken = monitor.handle_event(event)
            if broken is not None:
                found.append(Violation(constraint, promise, broken))
        return found

    def handle_connect(
        self, *, instance: str = "", endpoint: str = "", now: float = 0.0
    ) -> list[Violation]:
        """Take the event that an instance was connected."""
        return self.handle_event("", CONNECT, instance=instance, endpoint=endpoint, now=now)

    def handle_disconnect(
        self, *, instance: str = "", endpoint: str = "", now: float = 0.0
    ) -> list[Violation]:
        """Take the event that an instance was disconnected."""
        return self.handle_event("", DISCONNECT, instance=instance, endpoint=endpoint, now=now)

    def _add(
        self, constraints: tuple[Constraint, ...], promise: Promise, structure: Structure
    ) -> None:
        for constraint in constraints:
            formalism = self._formalisms.find(constraint.formalism)
            monitor = formalism.monitor(formalism.parse(constraint.text, structure))
            if monitor is not None:
                monitor.way = "out" if promise == "provided" else "in"
            if monitor is None or not monitor.can_judge(structure):
                self._unwatched.append(constraint)
            else:
                self._monitors.append((constraint, promise, monitor))
