"""Sets of integers kept as sorted, disjoint, half-open ranges.

Acknowledgements, caches and missing packets are long runs with a few holes, so
a set costs two integers a run, whatever the number of packets in it. Runs are
held in two parallel lists and found by bisection; every operation touches only
the runs that it changes.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

VALUE_MAX = (1 << 63) - 1
"""The largest integer that ``parse_flat`` lets into a set."""


class RangeSet:
    """A set of integers; adjacent ranges are merged as they meet."""

    __slots__ = ("_starts", "_stops")

    _starts: list[int]
    """Strictly ascending; ``_starts[i] < _stops[i]``."""

    _stops: list[int]
    """Exclusive ends; ``_stops[i] < _starts[i + 1]``, so neighbours never touch."""

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self._starts = []
        self._stops = []
        for start, stop in pairs:
            self.add(start, stop)

    def add(self, start: int, stop: int) -> None:
        """Include every integer from ``start`` to ``stop - 1``."""
        if start >= stop:
            return
        starts, stops = self._starts, self._stops
        # The common case by far: the next packet in sequence, or one after a gap.
        if not stops or start > stops[-1]:
            starts.append(start)
            stops.append(stop)
            return
        if start >= starts[-1]:
            if stop > stops[-1]:
                stops[-1] = stop
            return
        low = bisect_left(stops, start)
        high = bisect_right(starts, stop)
        if low < high:
            start = min(start, starts[low])
            stop = max(stop, stops[high - 1])
        starts[low:high] = [start]
        stops[low:high] = [stop]

    def discard(self, start: int, stop: int) -> None:
        """Exclude every integer from ``start`` to ``stop - 1``."""
        if start >= stop:
            return
        starts, stops = self._starts, self._stops
        low = bisect_right(stops, start)
        high = bisect_left(starts, stop)
        if low >= high:
            return
        kept_starts: list[int] = []
        kept_stops: list[int] = []
        if starts[low] < start:
            kept_starts.append(starts[low])
            kept_stops.append(start)
        if stops[high - 1] > stop:
            kept_starts.append(stop)
            kept_stops.append(stops[high - 1])
        starts[low:high] = kept_starts
        stops[low:high] = kept_stops

    def discard_below(self, n: int) -> None:
        """Exclude every integer smaller than ``n``."""
        starts, stops = self._starts, self._stops
        if not starts or starts[0] >= n:
            return
        gone = bisect_right(stops, n)
        del starts[:gone]
        del stops[:gone]
        if starts and starts[0] < n:
            starts[0] = n

    def __contains__(self, value: int) -> bool:
        at = bisect_right(self._starts, value) - 1
        return at >= 0 and value < self._stops[at]

    def contains_range(self, start: int, stop: int) -> bool:
        """Whether every integer from ``start`` to ``stop - 1`` is in the set."""
        if start >= stop:
            return True
        at = bisect_right(self._starts, start) - 1
        return at >= 0 and stop <= self._stops[at]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges as ``(start, stop)``, ascending."""
        return zip(self._starts, self._stops, strict=True)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        return self._starts == other._starts and self._stops == other._stops

    __hash__ = None  # type: ignore[assignment]  # mutable, like a built-in set

    def __repr__(self) -> str:
        return f"RangeSet({list(self)!r})"

    def count(self) -> int:
        """Return how many integers are in the set."""
        return sum(self._stops) - sum(self._starts)

    def range_count(self) -> int:
        """Return how many ranges the set consists of."""
        return len(self._starts)

    def first(self) -> int:
        """Return the smallest integer; ``ValueError`` if the set is empty."""
        if not self._starts:
            raise ValueError("an empty range set has no first integer")
        return self._starts[0]

    def last(self) -> int:
        """Return the largest integer; ``ValueError`` if the set is empty."""
        if not self._stops:
            raise ValueError("an empty range set has no last integer")
        return self._stops[-1] - 1

    def copy(self) -> RangeSet:
        """Return an independent set of the same integers."""
        return _from_lists(self._starts.copy(), self._stops.copy())

    def union(self, other: RangeSet) -> RangeSet:
        """Return the integers that are in either set."""
        few, many = self, other
        if len(few._starts) > len(many._starts):
            few, many = many, few
        result = many.copy()
        for start, stop in few:
            result.add(start, stop)
        return result

    def intersection(self, other: RangeSet) -> RangeSet:
        """Return the integers that are in both sets."""
        starts: list[int] = []
        stops: list[int] = []
        i = j = 0
        while i < len(self._starts) and j < len(other._starts):
            start = max(self._starts[i], other._starts[j])
            stop = min(self._stops[i], other._stops[j])
            if start < stop:
                starts.append(start)
                stops.append(stop)
            if self._stops[i] <= other._stops[j]:
                i += 1
            else:
                j += 1
        return _from_lists(starts, stops)

    def difference(self, other: RangeSet) -> RangeSet:
        """Return the integers of this set that are not in the other."""
        result = self.copy()
        for start, stop in other:
            result.discard(start, stop)
        return result

    def clamped(self, start: int, stop: int) -> RangeSet:
        """Return the integers that lie from ``start`` to ``stop - 1``."""
        if start >= stop:
            return RangeSet()
        low = bisect_right(self._stops, start)
        high = bisect_left(self._starts, stop)
        starts = self._starts[low:high]
        stops = self._stops[low:high]
        if starts:
            starts[0] = max(starts[0], start)
            stops[-1] = min(stops[-1], stop)
        return _from_lists(starts, stops)

    def head(self, k: int) -> RangeSet:
        """Return the first ``k`` ranges."""
        k = max(k, 0)
        return _from_lists(self._starts[:k], self._stops[:k])

    def values(self, limit: int) -> list[int]:
        """Return the smallest integers, ascending, at most ``limit`` of them."""
        found: list[int] = []
        for start, stop in self:
            room = limit - len(found)
            if room <= 0:
                break
            found.extend(range(start, min(stop, start + room)))
        return found

    def to_flat(self) -> list[int]:
        """Return start, length, start, length ...: the form that travels."""
        flat: list[int] = []
        for start, stop in self:
            flat.append(start)
            flat.append(stop - start)
        return flat

    @staticmethod
    def parse_flat(flat: Sequence[int], limit_ranges: int) -> RangeSet | None:
        """Read what ``to_flat`` wrote; see the function of the same name."""
        return parse_flat(flat, limit_ranges)


def parse_flat(flat: Sequence[int], limit_ranges: int) -> RangeSet | None:
    """Read what ``to_flat`` wrote, or return None if no honest peer wrote it.

    Refused are odd lengths, more than ``limit_ranges`` ranges, negative or
    too large integers, empty ranges and ranges out of order. Ranges that touch
    are accepted and merged.
    """
    size = len(flat)
    if size % 2 or size > 2 * limit_ranges:
        return None
    starts: list[int] = []
    stops: list[int] = []
    end = 0
    for at in range(0, size, 2):
        start, length = flat[at], flat[at + 1]
        stop = start + length
        if start < end or length <= 0 or stop > VALUE_MAX + 1:
            return None
        if stops and start == end:
            stops[-1] = stop
        else:
            starts.append(start)
            stops.append(stop)
        end = stop
    return _from_lists(starts, stops)


def _from_lists(starts: list[int], stops: list[int]) -> RangeSet:
    result = RangeSet()
    result._starts = starts
    result._stops = stops
    return result
