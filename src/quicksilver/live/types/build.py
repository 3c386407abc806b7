"""Short ways to write types by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import overload

from quicksilver.live.types.model import (
    NONE,
    Constraint,
    Endpoint,
    EndpointType,
    EventType,
    Field,
    LiteralOf,
    LiteralValue,
    ObjectType,
    Parameter,
    Recur,
    Recursive,
    StructOf,
    Term,
    TypeParameter,
    ValueType,
    union_of,
)
from quicksilver.live.types.walk import substitute

_markers = itertools.count()


def struct(fields: Mapping[str, ValueType], *, title: str = "", closed: bool = False) -> StructOf:
    """Return a struct type; a name that ends in ``?`` is that of a field that may be absent."""
    made = [
        Field(name.removesuffix("?"), type_, not name.endswith("?"))
        for name, type_ in fields.items()
    ]
    return StructOf(tuple(made), closed, title)


def union(*members: ValueType) -> ValueType:
    """Return the union of types; of a single one, that type."""
    return union_of(members)


def optional(type_: ValueType) -> ValueType:
    """Return the type of a value that may be none."""
    return union(type_, NONE)


def literal(*values: LiteralValue) -> LiteralOf:
    """Return the type of exactly these values."""
    return LiteralOf(values)


def recursive(title: str, body: Callable[[ValueType], ValueType]) -> ValueType:
    """Return the type that ``body`` gives for itself: ``recursive("T", lambda t: struct(...))``.

    Where the body does not use its argument, the result is just the body.
    """
    marker = Parameter(f"itself, {next(_markers)}")  # unlike any other while it is there

    def replace(part: Term, binders: int) -> Term | None:
        return Recur(binders) if part == marker else None

    written = body(marker)
    closed = substitute(written, replace)
    return Recursive(closed, title) if closed != written else written


@overload
def event(name: str, value: ValueType = NONE, /) -> EventType: ...
@overload
def event(name: str, /, **arguments: ValueType) -> EventType: ...
def event(name: str, value: ValueType = NONE, /, **arguments: ValueType) -> EventType:
    """Return an event type, with one value or with several named arguments."""
    if not arguments:
        return EventType(name, value)
    if len(arguments) == 1:
        ((only, type_),) = arguments.items()
        return EventType(name, type_, (only,))
    return EventType(name, struct(arguments), tuple(arguments))


def endpoint(
    inputs: Iterable[EventType] = (),
    outputs: Iterable[EventType] = (),
    *,
    provides: Iterable[tuple[str, str]] = (),
    requires: Iterable[tuple[str, str]] = (),
    title: str = "",
) -> EndpointType:
    """Return an endpoint type; constraints are pairs of formalism and formula."""
    return EndpointType(
        tuple(inputs), tuple(outputs), _constraints(provides), _constraints(requires), title
    )


def object_type(
    endpoints: Mapping[str, EndpointType | Parameter],
    *,
    provides: Iterable[tuple[str, str]] = (),
    requires: Iterable[tuple[str, str]] = (),
    parameters: Iterable[TypeParameter] = (),
    title: str = "",
) -> ObjectType:
    """Return an object type; constraints are pairs of formalism and formula."""
    return ObjectType(
        tuple(Endpoint(name, type_) for name, type_ in endpoints.items()),
        _constraints(provides),
        _constraints(requires),
        tuple(parameters),
        title,
    )


def flip(type_: EndpointType) -> EndpointType:
    """Return the endpoint type that mirrors one: what goes out comes in, what is given is asked."""
    return EndpointType(type_.outputs, type_.inputs, type_.requires, type_.provides)


def _constraints(pairs: Iterable[tuple[str, str]]) -> tuple[Constraint, ...]:
    return tuple(Constraint(formalism, text) for formalism, text in pairs)
