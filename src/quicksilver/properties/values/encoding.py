"""Values as plain structures that MessagePack carries, and back, never trusting what comes.

A value is read as what its kind says, or not at all: ``parse_value`` raises ``ValueError`` for
anything that no honest node wrote.
"""

from __future__ import annotations

import itertools
from typing import Any, assert_never

from quicksilver.properties.values.intset import IntSet
from quicksilver.properties.values.kinds import (
    INT_MAX,
    INT_MIN,
    AddressKind,
    BoolKind,
    IntKind,
    IntSetKind,
    Kind,
    Map,
    MapKind,
    PairKind,
    SetKind,
    Value,
)
from quicksilver.properties.values.operators import items_of

ADDRESS_CHARACTERS_MAX = 256
ITEMS_MAX = 65_536
"""Items of a set or a map, and ranges of an intset."""


def encode_value(value: Value | None) -> Any:
    """Return a plain structure; None stands for absent."""
    match value:
        case IntSet():
            return [bound for start, stop in value.ranges() for bound in (start, stop - 1)]
        case tuple():
            return [encode_value(each) for each in value]
        case Map():
            return [[encode_value(key), encode_value(each)] for key, each in value.items()]
        case frozenset():
            return [encode_value(each) for each in items_of(value)]
        case _:
            return value


def parse_value(plain: Any, kind: Kind) -> Value:
    """Read a value of a kind; ``ValueError`` if it is none."""
    match kind:
        case IntKind():
            return parse_int(plain, INT_MIN, INT_MAX)
        case BoolKind():
            if not isinstance(plain, bool):
                raise ValueError("not a bool")
            return plain
        case AddressKind():
            if not isinstance(plain, str) or len(plain) > ADDRESS_CHARACTERS_MAX:
                raise ValueError("not an address")
            return plain
        case IntSetKind():
            return _parse_intset(plain)
        case SetKind(item):
            items = [parse_value(each, item) for each in parse_list(plain, ITEMS_MAX)]
            return frozenset(items)
        case PairKind(first, second):
            parts = parse_list(plain, 2)
            if len(parts) != 2:
                raise ValueError("not a pair")
            return parse_value(parts[0], first), parse_value(parts[1], second)
        case MapKind(key, entry):
            entries = [parse_list(each, 2) for each in parse_list(plain, ITEMS_MAX)]
            if any(len(each) != 2 for each in entries):
                raise ValueError("not a map")
            return Map((parse_value(k, key), parse_value(v, entry)) for k, v in entries)
        case _:
            assert_never(kind)


def parse_list(plain: Any, limit: int) -> list[Any]:
    if not isinstance(plain, list) or len(plain) > limit:
        raise ValueError("not a list, or too long")
    return plain


def parse_int(plain: Any, least: int, most: int) -> int:
    if not isinstance(plain, int) or isinstance(plain, bool) or not least <= plain <= most:
        raise ValueError("not a number, or out of range")
    return plain


def _parse_intset(plain: Any) -> IntSet:
    bounds = [parse_int(each, INT_MIN, INT_MAX) for each in parse_list(plain, 2 * ITEMS_MAX)]
    pairs = [(bounds[at], bounds[at + 1] + 1) for at in range(0, len(bounds) - 1, 2)]
    if len(bounds) % 2 or any(start >= stop for start, stop in pairs):
        raise ValueError("not an intset")
    if any(a[1] >= b[0] for a, b in itertools.pairwise(pairs)):
        raise ValueError("not in order")
    return IntSet(pairs)
