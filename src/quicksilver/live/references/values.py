"""Values that a reference carries: what an argument may be set to.

Each kind is a type of its own, so that 1, 1.0 and true are three different
values here as they are in the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeAlias, assert_never

import msgspec
from msgspec.structs import force_setattr

from quicksilver.live.references.errors import UnfitReferenceError
from quicksilver.live.references.names import check_line, check_text

INTEGER_BITS_MAX = 256


class Text(msgspec.Struct, frozen=True, tag="text", tag_field="kind"):
    """Unicode text that XML can carry."""

    value: str

    def __post_init__(self) -> None:
        check_text("a text", self.value)


class Integer(msgspec.Struct, frozen=True, tag="integer", tag_field="kind"):
    """A whole number."""

    value: int

    def __post_init__(self) -> None:
        if self.value.bit_length() > INTEGER_BITS_MAX:
            raise UnfitReferenceError("an integer", f"has more than {INTEGER_BITS_MAX} bits")


class Real(msgspec.Struct, frozen=True, tag="real", tag_field="kind"):
    """A finite floating-point number; there is one zero."""

    value: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise UnfitReferenceError("a real number", "is not finite")
        force_setattr(self, "value", self.value + 0.0)


class Flag(msgspec.Struct, frozen=True, tag="flag", tag_field="kind"):
    """True or false."""

    value: bool


class Binary(msgspec.Struct, frozen=True, tag="binary", tag_field="kind"):
    """Bytes; base64 in the file."""

    value: bytes


class Nothing(msgspec.Struct, frozen=True, tag="nothing", tag_field="kind"):
    """The absence of a value, given on purpose."""


class Sequence(msgspec.Struct, frozen=True, tag="sequence", tag_field="kind"):
    """Values in order."""

    items: tuple[Value, ...] = ()


class Entry(msgspec.Struct, frozen=True):
    """One value of a mapping."""

    key: str
    value: Value

    def __post_init__(self) -> None:
        check_line("a key", self.key)


class Mapped(msgspec.Struct, frozen=True, tag="mapping", tag_field="kind"):
    """Values under keys, kept in order of their keys."""

    entries: tuple[Entry, ...] = ()

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.entries, key=lambda entry: entry.key))
        for earlier, later in pairwise(ordered):
            if earlier.key == later.key:
                raise UnfitReferenceError(f"the key {later.key!r}", "occurs twice in a mapping")
        force_setattr(self, "entries", ordered)


Value: TypeAlias = Text | Integer | Real | Flag | Binary | Nothing | Sequence | Mapped


def to_value(given: Any) -> Value:
    """Return a Python value as a reference carries it; raises UnfitReferenceError if none can."""
    match given:
        case None:
            return Nothing()
        case bool():
            return Flag(given)
        case int():
            return Integer(int(given))
        case float():
            return Real(float(given))
        case str():
            return Text(str(given))
        case bytes() | bytearray() | memoryview():
            return Binary(bytes(given))
        case list() | tuple():
            return Sequence(tuple(map(to_value, given)))
        case Mapping():
            for key in given:
                if not isinstance(key, str):
                    raise UnfitReferenceError(f"the key {key!r}", "is not a text")
            return Mapped(tuple(Entry(key, to_value(item)) for key, item in given.items()))
        case _:
            raise UnfitReferenceError(f"a {type(given).__name__}", "cannot be part of a reference")


def from_value(value: Value) -> Any:
    """Return the Python value that a proxy is given."""
    match value:
        case Nothing():
            return None
        case Sequence(items):
            return [from_value(item) for item in items]
        case Mapped(entries):
            return {entry.key: from_value(entry.value) for entry in entries}
        case Text(plain) | Integer(plain) | Real(plain) | Flag(plain) | Binary(plain):
            return plain
        case _:
            assert_never(value)
