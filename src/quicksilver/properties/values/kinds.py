"""Kinds of values, and what a property of each kind begins with.

Values are ordinary Python objects that never change and can be compared and hashed:

=============  ==========================================================
kind           value
=============  ==========================================================
``int``        ``int`` of 64 bits, signed
``bool``       ``bool``
``address``    ``str``: the name of a node
``intset``     ``IntSet``
``set<T>``     ``frozenset``
``pair<A, B>`` ``tuple`` of two
``map<K, V>``  ``Map``
=============  ==========================================================

``None`` stands for *absent*: nobody has said yet what the value is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, assert_never

from quicksilver.properties.values.intset import IntSet

INT_MIN = -(1 << 63)
INT_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class IntKind:
    """Whole numbers of 64 bits, signed."""

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True, slots=True)
class BoolKind:
    """True or false."""

    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True, slots=True)
class AddressKind:
    """Names of nodes."""

    def __str__(self) -> str:
        return "address"


@dataclass(frozen=True, slots=True)
class IntSetKind:
    """Sets of whole numbers, kept as ranges."""

    def __str__(self) -> str:
        return "intset"


@dataclass(frozen=True, slots=True)
class SetKind:
    """Sets of addresses, or of pairs."""

    item: Kind

    def __str__(self) -> str:
        return f"set<{self.item}>"


@dataclass(frozen=True, slots=True)
class PairKind:
    first: Kind
    second: Kind

    def __str__(self) -> str:
        return f"pair<{self.first}, {self.second}>"


@dataclass(frozen=True, slots=True)
class MapKind:
    """Maps from whole numbers or addresses to anything else."""

    key: Kind
    value: Kind

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


Kind = IntKind | BoolKind | AddressKind | IntSetKind | SetKind | PairKind | MapKind

INT = IntKind()
BOOL = BoolKind()
ADDRESS = AddressKind()
INTSET = IntSetKind()


class Map:
    """A map that never changes. A key that is not there has no value, not an empty one."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[tuple[Any, Any]] = ()) -> None:
        self._items: dict[Any, Any] = dict(sorted(items, key=itemgetter(0)))

    def get(self, key: Value) -> Value | None:
        found: Value | None = self._items.get(key)
        return found

    def keys(self) -> Iterable[Value]:
        """Return the keys in ascending order."""
        return self._items.keys()

    def items(self) -> Iterable[tuple[Value, Value]]:
        """Return pairs of key and value, by ascending keys."""
        return self._items.items()

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Value]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Map) and self._items == other._items

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __repr__(self) -> str:
        return f"Map({list(self._items.items())!r})"

    def with_item(self, key: Value, value: Value) -> Map:
        return Map([*((k, v) for k, v in self._items.items() if k != key), (key, value)])

    def without(self, key: Value) -> Map:
        return Map((k, v) for k, v in self._items.items() if k != key)


Value = int | bool | str | IntSet | frozenset[Any] | tuple[Any, Any] | Map

EMPTY_MAP = Map()
NOTHING = IntSet()


def default_of(kind: Kind) -> Value:
    """Return what stands for a property that says no initial value, where one is needed."""
    match kind:
        case IntKind():
            return 0
        case BoolKind():
            return False
        case AddressKind():
            return ""
        case IntSetKind():
            return NOTHING
        case SetKind():
            return frozenset()
        case PairKind(first, second):
            return (default_of(first), default_of(second))
        case MapKind():
            return EMPTY_MAP
        case _:
            assert_never(kind)


def is_collection(kind: Kind) -> bool:
    """Whether values of the kind can be empty: sets and maps, which never begin absent."""
    return isinstance(kind, IntSetKind | SetKind | MapKind)


def has_kind(value: object, kind: Kind) -> bool:
    """Whether a value is one of the kind, down to the last item."""
    match kind:
        case IntKind():
            return (
                isinstance(value, int)
                and not isinstance(value, bool)
                and INT_MIN <= value <= INT_MAX
            )
        case BoolKind():
            return isinstance(value, bool)
        case AddressKind():
            return isinstance(value, str)
        case IntSetKind():
            return isinstance(value, IntSet)
        case SetKind(item):
            return isinstance(value, frozenset) and all(has_kind(each, item) for each in value)
        case PairKind(first, second):
            return (
                isinstance(value, tuple)
                and len(value) == 2
                and has_kind(value[0], first)
                and has_kind(value[1], second)
            )
        case MapKind(key, item):
            return isinstance(value, Map) and all(
                has_kind(k, key) and has_kind(v, item) for k, v in value.items()
            )
        case _:
            assert_never(kind)
