"""Whether a value in a reference is of a value type, and if not, why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from quicksilver.live.references.values import (
    Binary,
    Flag,
    Integer,
    Mapped,
    Nothing,
    Real,
    Sequence,
    Text,
    Value,
)
from quicksilver.live.types import model as types
from quicksilver.live.types.notation import render_type
from quicksilver.live.types.walk import unfold

_SCALARS: dict[str, tuple[type, ...]] = {
    "none": (Nothing,),
    "bool": (Flag,),
    "int": (Integer,),
    "float": (Integer, Real),
    "str": (Text,),
    "bytes": (Binary,),
}


def find_misfit(value: Value, type_: types.ValueType) -> str | None:
    """Return why a value is not of a type; None if it is.

    A type that is still a parameter takes any value.
    """
    match type_:
        case types.Scalar("any") | types.Parameter():
            return None
        case types.Scalar(name):
            return None if isinstance(value, _SCALARS[name]) else _expected(type_, value)
        case types.LiteralOf(values):
            fits = any(_is_literal(value, one) for one in values)
            return None if fits else _expected(type_, value)
        case types.ListOf(item) | types.SetOf(item):
            return _all_fit(value, item, type_)
        case types.TupleOf(items):
            if not isinstance(value, Sequence) or len(value.items) != len(items):
                return _expected(type_, value)
            return _first(zip(value.items, items, strict=True))
        case types.DictOf(key, held):
            if not isinstance(value, Mapped):
                return _expected(type_, value)
            pairs = [(Text(entry.key), key) for entry in value.entries]
            return _first([*pairs, *((entry.value, held) for entry in value.entries)])
        case types.UnionOf(members):
            fits = any(find_misfit(value, member) is None for member in members)
            return None if fits else _expected(type_, value)
        case types.StructOf():
            return _fit_struct(value, type_)
        case types.Recursive():
            return find_misfit(value, unfold(type_))
        case types.ReferenceOf() | types.Recur():
            return _expected(type_, value)
        case _:
            assert_never(type_)


def _is_literal(value: Value, literal: types.LiteralValue) -> bool:
    match value:
        case Flag(flag):
            return literal is flag
        case Integer(number):
            return type(literal) is int and literal == number
        case Text(text):
            return literal == text
        case _:
            return False


def _all_fit(value: Value, item: types.ValueType, type_: types.ValueType) -> str | None:
    if not isinstance(value, Sequence):
        return _expected(type_, value)
    return _first((one, item) for one in value.items)


def _fit_struct(value: Value, type_: types.StructOf) -> str | None:
    if not isinstance(value, Mapped):
        return _expected(type_, value)
    given = {entry.key: entry.value for entry in value.entries}
    for field in type_.fields:
        if field.name not in given:
            if field.required:
                return f"lacks the field {field.name!r}"
            continue
        problem = find_misfit(given[field.name], field.type)
        if problem is not None:
            return f"field {field.name!r}: {problem}"
    if type_.closed:
        for name in given:
            if name not in type_.by_name:
                return f"has the field {name!r}, which is unknown"
    return None


def _first(pairs: Iterable[tuple[Value, types.ValueType]]) -> str | None:
    for value, type_ in pairs:
        problem = find_misfit(value, type_)
        if problem is not None:
            return problem
    return None


def _expected(type_: types.ValueType, value: Value) -> str:
    return f"expected {render_type(type_)}, not {_describe(value)}"


def _describe(value: Value) -> str:
    match value:
        case Text(text):
            return f"the text {text[:37] + '...' if len(text) > 40 else text!r}"
        case Integer(plain) | Real(plain):
            return f"{plain!r}"
        case Flag(flag):
            return "true" if flag else "false"
        case Binary(data):
            return f"{len(data)} bytes"
        case Nothing():
            return "nothing"
        case Sequence(items):
            return f"a sequence of {len(items)}"
        case Mapped(entries):
            return f"a mapping of {len(entries)}"
