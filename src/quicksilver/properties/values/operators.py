"""Operators on values: what expressions compute, how members' values are put together, and how
a new value goes into a property.

Aggregation operators are associative and commutative, so that the shape of a hierarchy and the
order of members make no difference; ``tests/properties/test_operators.py`` checks the laws. An
operator that has no result for its operands returns None, which is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from quicksilver.properties.plan import Aggregate, Binary, Merge, Unary
from quicksilver.properties.values.intset import IntSet
from quicksilver.properties.values.kinds import EMPTY_MAP, INT_MAX, INT_MIN, Map, Value

Operator = Callable[[Any, Any], Any]


# Sets and maps


def is_set(value: object) -> bool:
    """Whether a value is a set or a map: something that can be united."""
    return isinstance(value, IntSet | frozenset | Map)


def union(a: Any, b: Any) -> Any:
    if isinstance(a, Map):
        return _in_either(a, b, lambda x, y: union(x, y) if is_set(x) else y)
    return a | b


def intersection(a: Any, b: Any) -> Any:
    if isinstance(a, Map):
        return _in_both(a, b, lambda x, y: intersection(x, y) if is_set(x) else x)
    return a & b


def difference(a: Any, b: Any) -> Any:
    if not isinstance(a, Map):
        return a - b
    left: list[tuple[Value, Value]] = []
    for key, value in a.items():
        other = b.get(key)
        if other is None:
            left.append((key, value))
        elif is_set(value):
            rest = difference(value, other)
            if rest:
                left.append((key, rest))
        elif value != other:
            left.append((key, value))
    return Map(left)


def is_subset(a: Any, b: Any) -> bool:
    if not isinstance(a, Map):
        return bool(a <= b)
    for key, value in a.items():
        other = b.get(key)
        if other is None or not (is_subset(value, other) if is_set(value) else value == other):
            return False
    return True


def size(value: Any) -> int:
    return value.count() if isinstance(value, IntSet) else len(value)


def items_of(value: Any) -> Iterable[Value]:
    """Return the items of a set in ascending order; of a map: pairs of key and value."""
    if isinstance(value, Map):
        return value.items()
    if isinstance(value, IntSet):
        return value
    return sorted(value)


def set_of(items: Iterable[Value], like: Any) -> Any:
    """Return a set of the same kind as ``like``, or a map, of these items."""
    if isinstance(like, Map):
        return Map(items)  # type: ignore[arg-type]
    if isinstance(like, IntSet):
        return IntSet.of(*items)  # type: ignore[arg-type]
    return frozenset(items)


def _in_either(a: Map, b: Map, both: Operator) -> Map:
    found = dict(a.items())
    for key, value in b.items():
        found[key] = both(found[key], value) if key in found else value
    return Map(found.items())


def _in_both(a: Map, b: Map, both: Operator) -> Map:
    return Map((key, both(value, b.get(key))) for key, value in a.items() if key in b)


# Expressions


def _bounded(value: int) -> int | None:
    return value if INT_MIN <= value <= INT_MAX else None


def _keys(value: Any) -> Any:
    keys = list(value.keys())
    return frozenset(keys) if keys and isinstance(keys[0], str) else IntSet.of(*keys)


def _least(value: Any) -> Any:
    if not value:
        return None
    return value.first() if isinstance(value, IntSet) else min(value)


def _greatest(value: Any) -> Any:
    if not value:
        return None
    return value.last() if isinstance(value, IntSet) else max(value)


UNARY: dict[Unary, Callable[[Any], Any]] = {
    Unary.NOT: lambda a: not a,
    Unary.NEGATE: lambda a: _bounded(-a),
    Unary.SIZE: lambda a: _bounded(size(a)),
    Unary.LEAST: _least,
    Unary.GREATEST: _greatest,
    Unary.FIRST: lambda a: a[0],
    Unary.SECOND: lambda a: a[1],
    Unary.KEYS: _keys,
}

BINARY: dict[Binary, Operator] = {
    Binary.ADD: lambda a, b: _bounded(a + b),
    Binary.SUBTRACT: lambda a, b: _bounded(a - b),
    Binary.MULTIPLY: lambda a, b: _bounded(a * b),
    Binary.DIVIDE: lambda a, b: _bounded(a // b) if b else None,
    Binary.EQUAL: lambda a, b: a == b,
    Binary.UNEQUAL: lambda a, b: a != b,
    Binary.LESS: lambda a, b: a < b,
    Binary.LESS_EQUAL: lambda a, b: a <= b,
    Binary.GREATER: lambda a, b: a > b,
    Binary.GREATER_EQUAL: lambda a, b: a >= b,
    Binary.UNION: union,
    Binary.INTERSECTION: intersection,
    Binary.DIFFERENCE: difference,
    Binary.IN: lambda a, b: a in b,
    Binary.SUBSET: is_subset,
}
"""All but ``AND`` and ``OR``, which do not always look at their right side."""


# Aggregation


def _wrapped(a: int, b: int) -> int:
    """Sums of members go round at 64 bits, as nothing else that is bounded is associative."""
    return (a + b - INT_MIN) % (1 << 64) + INT_MIN


def _by_item(operator: Operator, *, needs_both: bool) -> Operator:
    """Return an operator that treats pairs and maps item by item.

    ``needs_both``: a key that one map lacks is not in the result.
    """

    def combine(a: Any, b: Any) -> Any:
        if isinstance(a, tuple):
            return tuple(combine(x, y) for x, y in zip(a, b, strict=True))
        if isinstance(a, Map):
            return _in_both(a, b, combine) if needs_both else _in_either(a, b, combine)
        return operator(a, b)

    return combine


def aggregate(operator: Aggregate, count: int = 0) -> Operator:
    """Return the function of two values that an aggregation operator stands for."""
    match operator:
        case Aggregate.UNION:
            return _by_item(lambda a, b: a | b, needs_both=False)
        case Aggregate.INTERSECTION:
            return _by_item(lambda a, b: a & b, needs_both=True)
        case Aggregate.MINIMUM:
            return _by_item(min, needs_both=False)
        case Aggregate.MAXIMUM:
            return _by_item(max, needs_both=False)
        case Aggregate.SUM:
            return _by_item(_wrapped, needs_both=False)
        case Aggregate.AND:
            return _by_item(lambda a, b: a and b, needs_both=True)
        case Aggregate.OR:
            return _by_item(lambda a, b: a or b, needs_both=False)
        case Aggregate.TOP:
            return lambda a, b: top(union(a, b), count)


def top(value: Any, count: int) -> Any:
    """Return the greatest items of a set."""
    if isinstance(value, IntSet):
        return value.greatest(count)
    return frozenset(sorted(value, reverse=True)[:count])


# Storing


def _insert(old: Any, item: Any) -> Any:
    if isinstance(old, Map):
        return union(old, Map([item]))
    return old | (IntSet.of(item) if isinstance(old, IntSet) else frozenset((item,)))


def _remove(old: Any, item: Any) -> Any:
    if isinstance(old, Map):
        return old.without(item)
    return old - (IntSet.of(item) if isinstance(old, IntSet) else frozenset((item,)))


MERGES: dict[Merge, Operator] = {
    Merge.ASSIGN: lambda _, new: new,
    Merge.UNION: union,
    Merge.INTERSECTION: intersection,
    Merge.DIFFERENCE: difference,
    Merge.INSERT: _insert,
    Merge.REMOVE: _remove,
    Merge.ADD: BINARY[Binary.ADD],
    Merge.SUBTRACT: BINARY[Binary.SUBTRACT],
    Merge.MAXIMUM: max,
    Merge.MINIMUM: min,
    Merge.OR: lambda old, new: old or new,
    Merge.AND: lambda old, new: old and new,
}

_NEED_OLD = (Merge.SUBTRACT, Merge.REMOVE, Merge.DIFFERENCE)


def merged(merge: Merge, old: Value | None, new: Value, empty: Value) -> Value | None:
    """Return what a property holds after a new value went in; None: as before.

    ``empty``: what ``INSERT`` begins with where the property is absent.
    """
    if old is None:
        if merge in _NEED_OLD:
            return None
        if merge is not Merge.INSERT:
            return new
        old = empty
    result: Value | None = MERGES[merge](old, new)
    return result


def merged_at(merge: Merge, old: Value | None, key: Value, new: Value, empty: Value) -> Map | None:
    """As ``merged``, for one entry of a map: ``P[key] op new``; ``empty``: of an entry."""
    entries = old if isinstance(old, Map) else EMPTY_MAP
    result = merged(merge, entries.get(key), new, empty)
    return None if result is None else entries.with_item(key, result)
