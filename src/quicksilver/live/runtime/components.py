"""Component classes by the identifiers that references know them by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from quicksilver.live.references.catalogue import Catalogue, Known
from quicksilver.live.references.errors import DuplicateEntryError
from quicksilver.live.references.model import Parameter
from quicksilver.live.references.names import normalise_identifier
from quicksilver.live.references.typenames import TypeLiteral
from quicksilver.live.runtime.blueprints import Blueprint, read_blueprint, read_parameters
from quicksilver.live.runtime.errors import ComponentError
from quicksilver.live.types.declare import object_type_of
from quicksilver.live.types.model import ObjectType, ValueType
from quicksilver.live.types.subtyping import standard_checker

C = TypeVar("C", bound=type)
_MARK = "__component__"
BLUEPRINTS_KEPT_MAX = 10_000


class Mark(msgspec.Struct, frozen=True):
    """What the decorator wrote on a component class."""

    identifier: str
    type_name: str


def component(identifier: str, *, type_name: str = "") -> Callable[[C], C]:
    """Give a component class the identifier that references use: ``quicksilver.counter``.

    The first line of its docstring is its summary. With ``type_name`` the type of
    its objects can be named in references.
    """

    def mark(cls: C) -> C:
        setattr(cls, _MARK, Mark(normalise_identifier(identifier), type_name))
        return cls

    return mark


class Components:
    """The component classes that a runtime can run."""

    def __init__(self) -> None:
        self._classes: dict[str, type] = {}
        self._blueprints: dict[tuple[type, tuple[tuple[str, Any], ...]], Blueprint] = {}

    def add(self, cls: type, catalogue: Catalogue) -> str:
        """Make a class known here and to a catalogue; return its identifier.

        What the catalogue knows already stays: the class must then be a subtype of it.
        """
        identifier = mark_of(cls).identifier
        if self._classes.setdefault(identifier, cls) is not cls:
            raise DuplicateEntryError("component", identifier)
        announce(cls, catalogue)
        return identifier

    def add_loaded(self, cls: type, catalogue: Catalogue, identifier: str) -> None:
        """Make a class of a library known; loaded again, the newest copy of its code counts."""
        identifier = normalise_identifier(identifier)
        self._classes[identifier] = cls
        _announce(cls, catalogue, identifier)

    def find(self, identifier: str) -> type | None:
        """Return the class of an identifier."""
        return self._classes.get(identifier)

    def __iter__(self) -> Iterator[tuple[str, type]]:
        return iter(sorted(self._classes.items()))

    def blueprint(self, cls: type, types: Mapping[str, ValueType] | None = None) -> Blueprint:
        """Return how to run a class, read once for each set of types."""
        key = (cls, tuple(sorted((types or {}).items(), key=lambda item: item[0])))
        found = self._blueprints.get(key)
        if found is None:
            if len(self._blueprints) >= BLUEPRINTS_KEPT_MAX:
                self._blueprints.clear()
            found = self._blueprints[key] = read_blueprint(cls, types)
        return found


def mark_of(cls: type) -> Mark:
    """Return what the decorator wrote on a class; raises ComponentError if it is no component."""
    mark: Mark | None = cls.__dict__.get(_MARK)
    if mark is None:
        raise ComponentError(cls.__qualname__, "has no identifier: use @component")
    return mark


def announce(cls: type, catalogue: Catalogue) -> None:
    """Make a component class known to a catalogue, as a primitive and by the name of its type.

    What the catalogue knows already stays: the class must then be a subtype of it.
    """
    mark = mark_of(cls)
    _announce(cls, catalogue, mark.identifier)
    if not mark.type_name:
        return
    template = object_type_of(cls)
    kept = tuple(one for one in template.parameters if one.of != "value")
    type_ = msgspec.structs.replace(template, parameters=kept)
    before = catalogue.find_type(mark.type_name)
    if before is None:
        catalogue.add_type(mark.type_name, type_)
    elif before != type_:
        problem = standard_checker().check_subtype(type_, before)
        if problem is not None:
            text = f"is not the type called {mark.type_name}: {problem.line}"
            raise ComponentError(cls.__qualname__, text)


def _announce(cls: type, catalogue: Catalogue, identifier: str) -> None:
    known = known_of(cls, identifier)
    before = catalogue.find(identifier)
    if before is None:
        catalogue.add(known)
        return
    problem = standard_checker().check_object_subtype(known.type, before.type)
    if problem is not None:
        raise ComponentError(cls.__qualname__, f"is not what {identifier} is: {problem.line}")


def known_of(cls: type, identifier: str) -> Known:
    """Return what the static check must know about a component class."""
    template = object_type_of(cls)
    given, _ = read_parameters(cls)
    types = tuple(
        Parameter(one.name, "type", TypeLiteral(one.bound) if one.bound is not None else None)
        for one in template.parameters
        if one.of != "value"
    )
    bare: ObjectType = msgspec.structs.replace(template, parameters=())
    return Known(
        identifier=identifier,
        title=template.title,
        summary=template.doc,
        type=bare,
        parameters=types + given,
    )
