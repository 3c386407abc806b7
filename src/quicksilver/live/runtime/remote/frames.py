"""What two processes say to each other: frames of MessagePack.

    joining     Hello(token, type) →
    publishing  ← Welcome(type), or Refused(reason)
    joining     Ready() →                   both have seen that the types match
    publishing  ← Ready()                   and its endpoint is connected
    both        Event(name, value) ...      an empty frame says "still here"
    both        Bye(reason)

A frame longer than allowed is never read: the connection ends. A frame that is no
message, in a connection that is open, is counted and dropped.

Most values of events are carried as they are. References to objects travel as the text
of their files; sets as lists. What comes from outside is checked against its type first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from quicksilver.live.codec import BadMessageError, Codec
from quicksilver.live.references.errors import LiveReferenceError
from quicksilver.live.references.model import Node
from quicksilver.live.references.xml import parse as parse_reference
from quicksilver.live.references.xml import write
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
from quicksilver.net.frames import encode_frame

VERSION: Final = 1
FRAME_BYTES_MAX: Final = 4 << 20
REASON_CHARACTERS_MAX: Final = 500


class Hello(msgspec.Struct, frozen=True, tag="hello", tag_field="kind", array_like=True):
    """Somebody wants to connect an endpoint of this type to the one that has the token."""

    version: int
    token: str
    type: bytes


class Welcome(msgspec.Struct, frozen=True, tag="welcome", tag_field="kind", array_like=True):
    """The published endpoint is of this type, and matches."""

    type: bytes


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="kind", array_like=True):
    """This side finds that they match; said by both, events may pass."""


class Refused(msgspec.Struct, frozen=True, tag="refused", tag_field="kind", array_like=True):
    """The answer to a hello that is turned down, with the reason."""

    reason: str


class Event(msgspec.Struct, frozen=True, tag="event", tag_field="kind", array_like=True):
    """An event of the endpoint, from the side that says it."""

    name: str
    value: Any = None


class Bye(msgspec.Struct, frozen=True, tag="bye", tag_field="kind", array_like=True):
    """The connection ends here."""

    reason: str


Frame: TypeAlias = Hello | Welcome | Ready | Refused | Event | Bye

_FRAMES: Final = Codec[Frame](Frame, "a frame", FRAME_BYTES_MAX)

IDLE: Final = encode_frame(b"")
"""The empty frame."""


def encode(frame: Frame) -> bytes:
    """Return a frame with its length before it; raises BadMessageError if it cannot be."""
    return encode_frame(_FRAMES.encode(frame))


def parse(body: bytes) -> Frame:
    """Read a frame without its length; raises BadMessageError."""
    return _FRAMES.decode(body)


def shorten(reason: str) -> str:
    """Return a reason that fits a frame and a line."""
    return " ".join(reason.split())[:REASON_CHARACTERS_MAX]


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
    """Raise BadMessageError unless a value that came is of its type."""
    try:
        problem = find_misfit(value, type_)
    except RecursionError:
        raise BadMessageError("a value", "is nested too deep") from None
    if problem is not None:
        raise BadMessageError("a value", f"is of another type: {problem.line}")


def from_wire(value: Any, type_: ValueType) -> Any:
    """Return a value that came, and is of its type, in its plain form; raises BadMessageError."""
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
        return parse_reference(text).reference
    except LiveReferenceError as error:
        raise BadMessageError("a reference", f"cannot be read: {error}") from None
