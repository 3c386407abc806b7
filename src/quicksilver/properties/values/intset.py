"""Sets of whole numbers that never change, kept as ranges (``stdx.ranges``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quicksilver.stdx.ranges import RangeSet


class IntSet:
    """A set of whole numbers; runs of neighbours cost as much as one number."""

    __slots__ = ("_hash", "_ranges")

    def __init__(self, ranges: RangeSet | Iterable[tuple[int, int]] = ()) -> None:
        """``ranges``: pairs of a first number and the one after the last, in any order.

        A ``RangeSet`` is kept as it is: whoever gives one changes it no more.
        """
        self._ranges = ranges if isinstance(ranges, RangeSet) else RangeSet(ranges)
        self._hash: int | None = None

    @staticmethod
    def of(*numbers: int) -> IntSet:
        """Return the set of these numbers."""
        return IntSet((n, n + 1) for n in numbers)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of a first number and the one after the last, ascending."""
        return iter(self._ranges)

    def range_count(self) -> int:
        return self._ranges.range_count()

    def __iter__(self) -> Iterator[int]:
        for start, stop in self._ranges:
            yield from range(start, stop)

    def __contains__(self, number: int) -> bool:
        return number in self._ranges

    def count(self) -> int:
        """Return how many numbers are in the set; it can be more than ``len`` could say."""
        return self._ranges.count()

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IntSet) and self._ranges == other._ranges

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._ranges))
        return self._hash

    def __le__(self, other: IntSet) -> bool:
        """Whether every number of this set is in the other."""
        return all(other._ranges.contains_range(start, stop) for start, stop in self._ranges)

    def __or__(self, other: IntSet) -> IntSet:
        return IntSet(self._ranges.union(other._ranges))

    def __and__(self, other: IntSet) -> IntSet:
        return IntSet(self._ranges.intersection(other._ranges))

    def __sub__(self, other: IntSet) -> IntSet:
        return IntSet(self._ranges.difference(other._ranges))

    def first(self) -> int:
        """Return the smallest number; ``ValueError`` if the set is empty."""
        return self._ranges.first()

    def last(self) -> int:
        """Return the greatest number; ``ValueError`` if the set is empty."""
        return self._ranges.last()

    def greatest(self, count: int) -> IntSet:
        """Return the ``count`` greatest numbers, or all if there are no more."""
        kept = RangeSet()
        for start, stop in reversed(list(self._ranges)):
            if count <= 0:
                break
            taken = min(count, stop - start)
            kept.add(stop - taken, stop)
            count -= taken
        return IntSet(kept)

    def __repr__(self) -> str:
        return f"IntSet({list(self._ranges)!r})"

    def __str__(self) -> str:
        """Return the set as programs write it."""
        parts = (
            str(start) if stop == start + 1 else f"{start}..{stop - 1}"
            for start, stop in self._ranges
        )
        return "{" + ", ".join(parts) + "}"
