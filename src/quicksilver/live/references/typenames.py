"""Types in a reference: by name, or written out.

A name is looked up in a catalogue when the reference is checked, never before:
``Channel``, ``Folder[Identifier, Channel]``, ``list[int]``. Square brackets
stand where the dissertation has angle brackets, which XML would need escaped.
A type that is written out needs no catalogue; it is data of ``quicksilver.live.types``.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

import msgspec

from quicksilver.live.references.errors import BadTypeTextError
from quicksilver.live.types.model import (
    ANY,
    BOOL,
    BYTES,
    FLOAT,
    INT,
    NONE,
    STR,
    AnyType,
    DictOf,
    ListOf,
    Parameter,
    Scalar,
    SetOf,
    TupleOf,
    UnionOf,
    ValueType,
)

TEXT_CHARACTERS_MAX: Final = 4096
DEPTH_MAX: Final = 20

SCALARS: Final[dict[str, ValueType]] = {
    "none": NONE,
    "bool": BOOL,
    "int": INT,
    "float": FLOAT,
    "str": STR,
    "bytes": BYTES,
    "any": ANY,
}
CONSTRUCTORS: Final = frozenset({"list", "set", "dict", "tuple", "union", "ref"})
RESERVED: Final = frozenset(SCALARS) | CONSTRUCTORS
"""Names that no catalogue and no parameter may take."""

_PLAIN = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_TOKEN = re.compile(r"\s*(?:([A-Za-z_][\w.-]*)|(.))", re.ASCII | re.DOTALL)


class TypeName(msgspec.Struct, frozen=True, tag="named", tag_field="kind", omit_defaults=True):
    """A type by its name, with arguments if it has parameters."""

    name: str
    arguments: tuple[TypeName, ...] = ()

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        return f"{self.name}[{', '.join(map(str, self.arguments))}]"


class TypeLiteral(msgspec.Struct, frozen=True, tag="literal", tag_field="kind"):
    """A type that is written out."""

    type: AnyType


TypeTerm: TypeAlias = TypeName | TypeLiteral


def parse_type_name(text: str) -> TypeName:
    """Return the type that a text names; raises BadTypeTextError if it names none."""
    if len(text) > TEXT_CHARACTERS_MAX:
        raise BadTypeTextError(text, 0, f"longer than {TEXT_CHARACTERS_MAX} characters")
    tokens = [
        (found.group(1) or "", found.group(2) or "", found.start(found.lastindex or 0))
        for found in _TOKEN.finditer(text.rstrip())
    ]
    parsed, index = _parse_one(text, tokens, 0, DEPTH_MAX)
    if index != len(tokens):
        raise BadTypeTextError(text, tokens[index][2], "more than one type")
    return parsed


def _parse_one(
    text: str, tokens: list[tuple[str, str, int]], index: int, depth: int
) -> tuple[TypeName, int]:
    if index >= len(tokens) or not tokens[index][0]:
        position = tokens[index][2] if index < len(tokens) else len(text)
        raise BadTypeTextError(text, position, "expected a name")
    if depth == 0:
        raise BadTypeTextError(text, tokens[index][2], f"nested more than {DEPTH_MAX} deep")
    name = tokens[index][0]
    index += 1
    if index >= len(tokens) or tokens[index][1] != "[":
        return TypeName(name), index
    arguments: list[TypeName] = []
    while True:
        argument, index = _parse_one(text, tokens, index + 1, depth - 1)
        arguments.append(argument)
        mark = tokens[index][1] if index < len(tokens) else ""
        if mark == "]":
            return TypeName(name, tuple(arguments)), index + 1
        if mark != ",":
            position = tokens[index][2] if index < len(tokens) else len(text)
            raise BadTypeTextError(text, position, "expected ',' or ']'")


def to_value_type(name: TypeName) -> ValueType:
    """Return the value type that a name says without a catalogue.

    Any other name is a parameter. Raises ValueError for a use that makes no sense.
    """
    inner = tuple(map(to_value_type, name.arguments))
    return build_value_type(name, inner) or _to_parameter(name)


def _to_parameter(name: TypeName) -> Parameter:
    if name.arguments:
        raise ValueError(f"{name.name} takes no arguments here")
    return Parameter(name.name)


def build_value_type(name: TypeName, inner: tuple[ValueType, ...]) -> ValueType | None:
    """Return the built-in value type of this name over its arguments; None for other names.

    Raises ValueError if the number of arguments is wrong.
    """
    if name.name in SCALARS:
        _expect(name, len(inner) == 0, "no arguments")
        return SCALARS[name.name]
    match name.name:
        case "list":
            _expect(name, len(inner) == 1, "one argument")
            return ListOf(inner[0])
        case "set":
            _expect(name, len(inner) == 1, "one argument")
            return SetOf(inner[0])
        case "dict":
            _expect(name, len(inner) == 2, "two arguments")
            return DictOf(inner[0], inner[1])
        case "tuple":
            return TupleOf(inner)
        case "union":
            return UnionOf(inner)
        case "ref":
            raise ValueError("ref[...] needs the name of an object type")
        case _:
            return None


def _expect(name: TypeName, is_right: bool, expected: str) -> None:
    if not is_right:
        raise ValueError(f"{name.name} takes {expected}, not {len(name.arguments)}")


def to_type_name(type_: ValueType) -> TypeName | None:
    """Return the name that says this value type; None if only the full form can."""
    named = _name(type_, DEPTH_MAX)
    if named is not None and len(str(named)) > TEXT_CHARACTERS_MAX:
        return None
    return named


def _name(type_: ValueType, depth: int) -> TypeName | None:
    if depth == 0:
        return None
    match type_:
        case Scalar(name):
            return TypeName(name)
        case Parameter(name):
            is_plain = _PLAIN.fullmatch(name) is not None and name not in RESERVED
            return TypeName(name) if is_plain else None
        case ListOf(item):
            return _over("list", (item,), depth)
        case SetOf(item):
            return _over("set", (item,), depth)
        case DictOf(key, value):
            return _over("dict", (key, value), depth)
        case TupleOf(items):
            return _over("tuple", items, depth)
        case UnionOf((member,)):
            return _name(member, depth)
        case UnionOf(members):
            return _over("union", members, depth)
        case _:
            return None


def _over(name: str, inner: tuple[ValueType, ...], depth: int) -> TypeName | None:
    names: list[TypeName] = []
    for one in inner:
        named = _name(one, depth - 1)
        if named is None:
            return None
        names.append(named)
    return TypeName(name, tuple(names))
