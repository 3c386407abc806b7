"""Values of events as MessagePack carries them, and back, by their types.

Most are carried as they are. References to objects travel as the text of their
files; sets as lists. What comes from outside is checked against its type first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quicksilver.live.references.errors import LiveReferenceError
from quicksilver.live.references.model import Node
from quicksilver.live.references.xml import parse, write
from quicksilver.live.runtime.remote.errors import FrameError
from quicksilver.live.types.model import (
    ANY,
    DictOf,
    ListOf,
    Recursive,
    ReferenceOf,
    Scalar,
    SetOf,
    StructOf,
    TupleOf,
    UnionOf,
    ValueType,
)
from quicksilver.live.types.values import find_misfit
from quicksilver.live.types.walk import children, unfold


def is_carried_as_is(type_: ValueType) -> bool:
    """Whether values of a type need nothing done to them, in either direction."""
    pending: list[Any] = [type_]
    while pending:
        term = pending.pop()
        if isinstance(term, ReferenceOf | SetOf | TupleOf) or term == ANY:
            return False
        pending.extend(children(term))
    return True


def to_wire(value: Any) -> Any:
    """Return a plain value in a form that MessagePack has."""
    match value:
        case Node():
            return write(value)  # type: ignore[arg-type]  # all nodes are references
        case Mapping():
            return {key: to_wire(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [to_wire(one) for one in value]
        case _:
            return value


def check_wire(value: Any, type_: ValueType) -> None:
    """Raise FrameError unless a value that came is of its type."""
    try:
        problem = find_misfit(value, type_)
    except RecursionError:
        raise FrameError("a value is nested too deep") from None
    if problem is not None:
        raise FrameError(f"a value of another type: {problem.line}")


def from_wire(value: Any, type_: ValueType) -> Any:
    """Return what came, which was found to be of its type, in its plain form; raises FrameError."""
    match type_:
        case Scalar():
            return value
        case ReferenceOf():
            return _parse_reference(value)
        case ListOf(item=item):
            return [from_wire(one, item) for one in value]
        case SetOf(item=item):
            return {from_wire(one, item) for one in value}
        case TupleOf(items=items):
            pairs = zip(value, items, strict=True)
            return tuple(from_wire(one, item) for one, item in pairs)
        case DictOf(value=inner):
            return {key: from_wire(one, inner) for key, one in value.items()}
        case StructOf():
            return {
                name: from_wire(one, type_.by_name[name].type) if name in type_.by_name else one
                for name, one in value.items()
            }
        case UnionOf(members=members):
            fitting = next(one for one in members if find_misfit(value, one) is None)
            return from_wire(value, fitting)
        case Recursive():
            return from_wire(value, unfold(type_))
        case _:
            return value


def _parse_reference(text: str | bytes) -> Any:
    try:
        return parse(text).reference
    except LiveReferenceError as error:
        raise FrameError(f"a reference that cannot be read: {error}") from None
