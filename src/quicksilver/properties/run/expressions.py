"""Expressions and actions of a plan as Python functions.

Each expression becomes a closure once, when a program is prepared; a step then only calls
closures. They read a ``Context`` and return a value, or None for absent: whatever needs
something absent is absent itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from quicksilver.properties.plan import (
    Binary,
    BinaryOperation,
    Children,
    Choice,
    Expression,
    ItemSet,
    Literal,
    Lookup,
    MakeMap,
    MakePair,
    NumberSet,
    Other,
    Read,
    ReadAt,
    Self,
    UnaryOperation,
    Variable,
    Where,
)
from quicksilver.properties.values.intset import IntSet
from quicksilver.properties.values.kinds import Map, Value
from quicksilver.properties.values.operators import BINARY, UNARY, items_of, set_of

NONE: dict[Any, Any] = {}


class Context:
    """What an expression is evaluated over."""

    __slots__ = ("address", "gathered", "here", "nodes", "other", "parent", "share", "variables")

    def __init__(self, address: str = "") -> None:
        self.address = address
        self.here: Sequence[Value | None] = ()
        """Values of the domain's own properties, by position."""
        self.parent: dict[int, Value | None] = NONE
        self.other: tuple[str, dict[int, Value | None]] = ("", NONE)
        """The neighbour's address, and its values."""
        self.gathered: dict[Children, Value | None] = NONE
        self.share: tuple[int, int] = (0, 1)
        """The member's place among the members of its domain, and how many there are."""
        self.variables: dict[str, Value] = {}
        self.nodes: dict[str, Sequence[Value | None]] = NONE
        """For claims: values of nodes by the variables that stand for them; "": the whole
        system."""


Function = Callable[[Context], Any]


def evaluator(expression: Expression) -> Function:
    """Return a function that evaluates an expression."""
    match expression:
        case Literal(value):
            return lambda _: value
        case Read():
            return _read(expression)
        case ReadAt(variable, at):
            return lambda context: context.nodes[variable][at]
        case Children():
            return lambda context: context.gathered.get(expression)
        case Variable(name):
            return lambda context: context.variables.get(name)
        case Self():
            return lambda context: context.address
        case Other():
            return lambda context: context.other[0] or None
        case UnaryOperation(operator, operand):
            return _unary(UNARY[operator], evaluator(operand))
        case BinaryOperation():
            return _binary(expression)
        case NumberSet(parts):
            return _numbers([(evaluator(first), evaluator(last)) for first, last in parts])
        case ItemSet(items):
            return _all([evaluator(item) for item in items], frozenset)
        case MakePair(first, second):
            return _all([evaluator(first), evaluator(second)], tuple)
        case MakeMap(entries):
            pairs = [_all([evaluator(k), evaluator(v)], tuple) for k, v in entries]
            return _all(pairs, Map)
        case Lookup(held, key, missing):
            return _lookup(evaluator(held), evaluator(key), missing)
        case Choice(condition, then, otherwise):
            return _choice(evaluator(condition), evaluator(then), evaluator(otherwise))
        case _:
            assert_never(expression)


def _read(read: Read) -> Function:
    at = read.property
    match read.where:
        case Where.HERE:
            return lambda context: context.here[at]
        case Where.PARENT if read.is_share:
            return lambda context: _share(context.parent.get(at), context.share)
        case Where.PARENT:
            return lambda context: context.parent.get(at)
        case Where.OTHER:
            return lambda context: context.other[1].get(at)
        case Where.GLOBAL:
            return lambda context: context.nodes[""][at]


def _share(value: Value | None, share: tuple[int, int]) -> Value | None:
    """Return the items that fall to one member: in a view each item has one member."""
    if value is None:
        return None
    place, count = share
    if isinstance(value, Map):
        # Items of a map are pairs of key and value; a set as value is split itself.
        parts: list[tuple[Value, Value]] = []
        for key, entry in value.items():
            if isinstance(entry, IntSet | frozenset):
                part = _share(entry, share)
                if part:
                    parts.append((key, part))
            elif _place_of((key, entry), count) == place:
                parts.append((key, entry))
        return Map(parts)
    kept: Value = set_of((i for i in items_of(value) if _place_of(i, count) == place), value)
    return kept


def _place_of(item: Value, count: int) -> int:
    if isinstance(item, int):
        return item % count
    return zlib.crc32(repr(item).encode()) % count


def _unary(operator: Callable[[Any], Any], operand: Function) -> Function:
    def unary(context: Context) -> Any:
        value = operand(context)
        return None if value is None else operator(value)

    return unary


def _binary(expression: BinaryOperation) -> Function:
    left, right = evaluator(expression.left), evaluator(expression.right)
    if expression.operator in {Binary.AND, Binary.OR}:
        decided = expression.operator is Binary.OR

        def logical(context: Context) -> Any:
            a = left(context)
            return a if a is None or a is decided else right(context)

        return logical
    operator = BINARY[expression.operator]

    def binary(context: Context) -> Any:
        a = left(context)
        if a is None:
            return None
        b = right(context)
        return None if b is None else operator(a, b)

    return binary


def _all(parts: list[Function], make: Callable[[Any], Any]) -> Function:
    def collect(context: Context) -> Any:
        values = [part(context) for part in parts]
        return None if any(value is None for value in values) else make(values)

    return collect


def _numbers(parts: list[tuple[Function, Function]]) -> Function:
    def numbers(context: Context) -> Any:
        found: list[tuple[int, int]] = []
        for first, last in parts:
            a, b = first(context), last(context)
            if a is None or b is None:
                return None
            found.append((a, b + 1))
        return IntSet(found)

    return numbers


def _lookup(held: Function, key: Function, missing: Value | None) -> Function:
    def lookup(context: Context) -> Any:
        entries, at = held(context), key(context)
        if entries is None or at is None:
            return None
        found = entries.get(at)
        return missing if found is None else found

    return lookup


def _choice(condition: Function, then: Function, otherwise: Function) -> Function:
    def choice(context: Context) -> Any:
        chosen = condition(context)
        if chosen is None:
            return None
        return then(context) if chosen else otherwise(context)

    return choice
