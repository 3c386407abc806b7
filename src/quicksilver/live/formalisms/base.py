"""A formalism is a class that can read formulas and tell when one implies another.

The rest of the platform knows no more about it (dissertation 2.2.2: ``Parse`` and
``IsWeakerThan``). Formalisms are kept in a registry under their identifiers; a
library adds its own by a call, or announces it as an entry point in the group
``quicksilver.formalisms`` and is then loaded when a constraint first names it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from quicksilver.live.formalisms.structure import Direction, Structure
from quicksilver.live.types.errors import LiveTypeError

_TEXT_SHOWN_MAX = 60


class FormalismError(LiveTypeError):
    """Something is wrong with a constraint or with the formalism it names."""


class UnknownFormalismError(FormalismError):
    """A constraint names a formalism that no library has registered."""

    def __init__(self, identifier: str, known: tuple[str, ...]) -> None:
        super().__init__(identifier, known)
        self.identifier = identifier
        self.known = known

    def __str__(self) -> str:
        known = ", ".join(self.known) or "none"
        shown = self.identifier[:_TEXT_SHOWN_MAX]
        return f"no formalism is called {shown!r}: install the library that has it (known: {known})"


class FormalismLoadError(FormalismError):
    """An installed library announces a formalism but does not deliver it."""

    def __init__(self, identifier: str, source: str, problem: str) -> None:
        super().__init__(identifier, source, problem)
        self.identifier = identifier
        self.source = source
        self.problem = problem

    def __str__(self) -> str:
        return f"formalism {self.identifier!r} cannot be loaded from {self.source}: {self.problem}"


class FormulaError(FormalismError):
    """A formula that its formalism cannot read. Columns count from 1."""

    def __init__(self, formalism: str, text: str, column: int, problem: str) -> None:
        super().__init__(formalism, text, column, problem)
        self.formalism = formalism
        self.text = text
        self.column = column
        self.problem = problem

    def __str__(self) -> str:
        shown = self.text
        if len(shown) > _TEXT_SHOWN_MAX:
            shown = shown[:_TEXT_SHOWN_MAX] + "…"
        return f"{self.formalism} formula {shown!r}, column {self.column}: {self.problem}"

    @property
    def marked(self) -> str:
        """Return the formula with a mark under the place, on two lines."""
        return f"{self.text}\n{' ' * (self.column - 1)}^"


ENTRY_POINT_GROUP = "quicksilver.formalisms"

F = TypeVar("F", bound=Hashable)


class Observed(msgspec.Struct, frozen=True):
    """An event that passed through an instance of an endpoint."""

    direction: Direction
    name: str
    value: Any = None
    instance: str = ""
    endpoint: str = ""
    time_s: float = 0.0

    def __str__(self) -> str:
        where = f" at {self.instance}" if self.instance else ""
        way = f"{self.direction}." if self.direction else ""
        endpoint = f"{self.endpoint}." if self.endpoint else ""
        shown = "" if self.value is None else _shorten(repr(self.value))
        return f"{endpoint}{way}{self.name}({shown}){where}"


class Broken(msgspec.Struct, frozen=True):
    """A formula has been broken: by which events, and why."""

    events: tuple[Observed, ...]
    """The events that prove it, oldest first, the one that broke it last."""
    reason: str
    events_forgotten: int = 0
    """How many events before these were no longer kept."""


class Monitor(ABC):
    """Watches events for one formula. It is told everything and keeps a bounded part."""

    way: Direction = "out"
    """Which way the events go by which a promise is kept: ``in`` for one that is required."""

    def can_judge(self, structure: Structure) -> bool:
        """Whether events of this structure could ever show the formula broken."""
        return True

    @abstractmethod
    def handle_event(self, event: Observed) -> Broken | None:
        """Take the next event; say whether it broke the formula."""


class Formalism(ABC, Generic[F]):
    """Reads formulas and compares them. Formulas are immutable and hashable."""

    identifier: ClassVar[str]
    revision: int = 0
    """Grows whenever what implies what may have changed; answers kept from before are dropped."""

    @abstractmethod
    def parse(self, text: str, structure: Structure) -> F:
        """Read a formula about a structure, or raise FormulaError with the column."""

    @abstractmethod
    def implies(self, stronger: F, weaker: F) -> bool:
        """Say whether all that satisfies ``stronger`` satisfies ``weaker``.

        It must be sound: True only if it is so. It may be False for want of proof.
        """

    def conjoin(self, formulas: Sequence[F]) -> F | None:
        """Return the formula that says all of these, or None if there is no such formula."""
        return formulas[0] if len(formulas) == 1 else None

    def explain(self, stronger: F, weaker: F) -> str:
        """Say, in words, why ``stronger`` was not found to imply ``weaker``; "" if obvious."""
        return ""

    def monitor(self, formula: F) -> Monitor | None:
        """Return a new monitor of the formula, or None if events cannot show it broken."""
        return None


class Formalisms:
    """The known formalisms, by identifier."""

    def __init__(self, *, use_entry_points: bool = True) -> None:
        self._known: dict[str, Formalism[Any]] = {}
        self._announced: dict[str, EntryPoint] | None = None if use_entry_points else {}
        self._registrations = 0

    @property
    def revision(self) -> int:
        """Return a number that grows when any answer may have changed."""
        return self._registrations + sum(one.revision for one in self._known.values())

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Return the identifiers of all formalisms, registered or announced."""
        return tuple(sorted({*self._known, *self._look_around()}))

    def register(self, formalism: Formalism[Any]) -> None:
        """Make a formalism known. A later one with the same identifier takes its place."""
        replaced = self._known.get(formalism.identifier)
        self._registrations += 1 + (replaced.revision if replaced is not None else 0)
        self._known[formalism.identifier] = formalism

    def find(self, identifier: str) -> Formalism[Any]:
        """Return a formalism, loading the library that announces it if need be."""
        found = self._known.get(identifier)
        if found is not None:
            return found
        announced = self._look_around().get(identifier)
        if announced is None:
            raise UnknownFormalismError(identifier, self.identifiers)
        formalism = _load(announced)
        self.register(formalism)
        return formalism

    def _look_around(self) -> dict[str, EntryPoint]:
        if self._announced is None:
            self._announced = {one.name: one for one in entry_points(group=ENTRY_POINT_GROUP)}
        return self._announced


def _load(announced: EntryPoint) -> Formalism[Any]:
    try:
        loaded = announced.load()
        formalism = loaded() if isinstance(loaded, type) else loaded
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise FormalismLoadError(announced.name, announced.value, problem) from error
    if not isinstance(formalism, Formalism) or formalism.identifier != announced.name:
        problem = f"it is not a formalism called {announced.name!r}"
        raise FormalismLoadError(announced.name, announced.value, problem)
    return formalism


def _shorten(text: str, chars_max: int = 60) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
