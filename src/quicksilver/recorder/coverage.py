"""Which messages a log holds, as ranges of each sender's sequence numbers.

A message is the same in every recorder: cluster, sender and sequence name it.
So a log's coverage tells what comes twice, and the difference of two coverages
what one recorder can give another.

Ranges are as many as there are holes, and holes may be many: a coverage has room for
``RANGES_MAX``. Past that the oldest holes of the sender that has most are given up: they
count as messages that are there, so that nothing is ever recorded twice.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np

from quicksilver.stdx.ranges import RangeSet, parse_flat

if TYPE_CHECKING:
    import pyarrow as pa

SENDERS_KEPT_MAX = 100_000
RANGES_MAX = 200_000
"""Ranges of all senders together, each of some hundred bytes; a sender without holes has one."""

Source: TypeAlias = tuple[int, int]
"""Cluster and sender."""
Run: TypeAlias = tuple[int, int, int, int]
"""Cluster, sender, first sequence and the one past the last."""


class SenderRanges(msgspec.Struct, frozen=True, array_like=True):
    """One sender's messages, in the form that travels and is kept."""

    cluster: int
    sender: int
    flat: list[int]


class Coverage:
    """The messages that are there; senders heard of longest ago are forgotten past a limit."""

    def __init__(self) -> None:
        self._ranges: OrderedDict[Source, RangeSet] = OrderedDict()
        self.range_count = 0
        """Of all senders; at most ``RANGES_MAX``."""
        self.given_up = 0
        """Messages that are not there and count as if they were."""

    def __iter__(self) -> Iterator[tuple[Source, RangeSet]]:
        return iter(self._ranges.items())

    def __len__(self) -> int:
        return len(self._ranges)

    def ranges(self, cluster: int, sender: int) -> RangeSet:
        """Return what is there of a sender; not to be changed."""
        return self._ranges.get((cluster, sender)) or RangeSet()

    def add(self, cluster: int, sender: int, start: int, stop: int) -> None:
        """Count messages in."""
        key = (cluster, sender)
        found = self._ranges.get(key)
        if found is None:
            found = self._ranges[key] = RangeSet()
            if len(self._ranges) > SENDERS_KEPT_MAX:
                self.range_count -= self._ranges.popitem(last=False)[1].range_count()
        before = found.range_count()
        found.add(start, stop)
        self.range_count += found.range_count() - before
        if self.range_count > RANGES_MAX:
            self._give_up_holes()

    def discard(self, cluster: int, sender: int, start: int, stop: int) -> None:
        """Count messages out."""
        found = self._ranges.get((cluster, sender))
        if found is not None:
            before = found.range_count()
            found.discard(start, stop)
            self.range_count += found.range_count() - before
            if not found:
                del self._ranges[cluster, sender]
            elif self.range_count > RANGES_MAX:
                self._give_up_holes()

    def _give_up_holes(self) -> None:
        """Close the older half of the holes of the sender that has most."""
        worst = max(self._ranges.values(), key=RangeSet.range_count)
        before, count = worst.range_count(), worst.count()
        older = worst.head(before // 2 + 1)
        worst.add(older.first(), older.last() + 1)
        self.range_count += worst.range_count() - before
        self.given_up += worst.count() - count

    def is_fresh(self, cluster: int, sender: int, start: int, stop: int) -> bool:
        """Whether none of the messages is there."""
        found = self._ranges.get((cluster, sender))
        if found is None:
            return True
        return not found or found.last() < start or not found.clamped(start, stop)

    def contains(self, cluster: int, sender: int, sequence: int) -> bool:
        """Whether a message is there."""
        found = self._ranges.get((cluster, sender))
        return found is not None and sequence in found

    def add_columns(self, clusters: pa.Array, senders: pa.Array, sequences: pa.Array) -> None:
        """Count recorded rows in, run by run."""
        for cluster, sender, start, stop in find_runs(clusters, senders, sequences):
            self.add(cluster, sender, start, stop)

    def missing_from(self, other: Coverage) -> dict[Source, RangeSet]:
        """Return what is there and not in another."""
        found: dict[Source, RangeSet] = {}
        for (cluster, sender), ranges in self:
            lacking = ranges.difference(other.ranges(cluster, sender))
            if lacking:
                found[cluster, sender] = lacking
        return found

    def state(self) -> list[SenderRanges]:
        """Return all of it in the form that travels."""
        return to_state(self._ranges.items())

    @staticmethod
    def parse(state: Sequence[SenderRanges]) -> Coverage | None:
        """Read what ``state`` returned; None if nobody honest wrote it."""
        result = Coverage()
        if len(state) > SENDERS_KEPT_MAX:
            return None
        for one in state:
            ranges = parse_flat(one.flat, RANGES_MAX - result.range_count)
            if ranges is None:
                return None
            known = result._ranges.get((one.cluster, one.sender))
            result.range_count += ranges.range_count() - (known.range_count() if known else 0)
            result._ranges[one.cluster, one.sender] = ranges
        return result


def to_state(items: Iterable[tuple[Source, RangeSet]]) -> list[SenderRanges]:
    """Return ranges by sender in the form that travels."""
    return [SenderRanges(cluster, sender, ranges.to_flat()) for (cluster, sender), ranges in items]


def find_runs(clusters: pa.Array, senders: pa.Array, sequences: pa.Array) -> Iterator[Run]:
    """Yield runs of rows that follow each other."""
    if not len(sequences):
        return
    cluster, sender, sequence = (
        one.to_numpy(zero_copy_only=False) for one in (clusters, senders, sequences)
    )
    goes_on = (
        (cluster[1:] == cluster[:-1])
        & (sender[1:] == sender[:-1])
        & (sequence[1:] == sequence[:-1] + 1)
    )
    starts = [0, *(np.flatnonzero(~goes_on) + 1).tolist()]
    for start, stop in zip(starts, [*starts[1:], len(sequence)], strict=True):
        yield (
            int(cluster[start]),
            int(sender[start]),
            int(sequence[start]),
            (int(sequence[stop - 1]) + 1),
        )
