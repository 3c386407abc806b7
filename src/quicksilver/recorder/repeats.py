"""Telling rows that a job sent again from new ones.

A task that fails is run again, perhaps by another process, and sends its rows
again: same query, batch, partition and row number for the same row. Whoever
keeps what was seen as sets of rows can drop the repeats, whatever part of a run
it saw. A batch begins only after the one before it is complete, so few batches
of a partition need to be kept.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from quicksilver.recorder.envelope import Origin, pack_origin, parse_origin
from quicksilver.recorder.rows import ORIGIN_BYTES
from quicksilver.stdx.ranges import RangeSet, parse_flat

if TYPE_CHECKING:
    import pyarrow as pa

PUBLISHERS_KEPT_MAX = 10_000
BATCHES_KEPT_MAX = 4
BATCH_RANGES_MAX = 1_000
"""Rows of a batch come one after the other, so they are one range. Of a batch with more gaps than
that the lowest rows are forgotten, and count as new when they come again."""
RANGES_MAX = 100_000
"""The same over all batches, about 8 MB: partitions heard of longest ago are forgotten."""

_LAYOUT = np.dtype(
    [
        ("query", "<u8"),
        ("query_rest", "<u8"),
        ("batch", "<u8"),
        ("partition", "<u4"),
        ("row", "<u8"),
    ]
)
assert _LAYOUT.itemsize == ORIGIN_BYTES
_ROW_AT = ORIGIN_BYTES - 8

State = list[tuple[bytes, int, int, list[int]]]
"""Query, partition, batch, rows: what is kept on disk."""


class Repeats:
    """Which rows of which jobs a group has had.

    Of each query's partition the newest ``BATCHES_KEPT_MAX`` batches are known
    row by row; what comes from older ones counts as a repeat. Partitions heard
    of longest ago are forgotten past ``PUBLISHERS_KEPT_MAX`` of them and ``RANGES_MAX``
    ranges: what was forgotten counts as new.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[bytes, int], dict[int, RangeSet]] = OrderedDict()
        self._last_head = b""
        self._last_rows: RangeSet | None = None
        """Of the query, batch and partition that was heard last: rows come in long runs."""
        self.dropped = 0
        self.range_count = 0
        """Ranges of rows that are kept, of all batches."""

    def is_new(self, origin: Origin) -> bool:
        """Return whether a row is new, and note it: from now on it is a repeat."""
        return self.is_new_packed(pack_origin(origin))

    def is_new_packed(self, origin: bytes) -> bool:
        """The same for an origin as it is packed."""
        head = origin[:_ROW_AT]
        if head == self._last_head:
            rows = self._last_rows
        else:
            one = parse_origin(origin)
            rows = self._rows_of(one.query, one.partition, one.batch)
            self._last_head, self._last_rows = head, rows
        row = int.from_bytes(origin[_ROW_AT:], "little")
        if rows is None or row in rows:
            self.dropped += 1
            return False
        self._add(rows, row, row + 1)
        return True

    def _add(self, rows: RangeSet, start: int, stop: int) -> None:
        """Note rows of the batch that ``_rows_of`` returned last."""
        before = rows.range_count()
        if before >= BATCH_RANGES_MAX:
            rows.discard_below(rows.head(BATCH_RANGES_MAX // 2).last() + 1)
        rows.add(start, stop)
        self.range_count += rows.range_count() - before
        if self.range_count > RANGES_MAX:
            self._forget_oldest(rows)

    def _forget_oldest(self, newest: RangeSet) -> None:
        """Forget partitions until the rest is within the limit, but not the one of ``newest``."""
        for key, batches in list(self._seen.items()):
            if self.range_count <= RANGES_MAX:
                return
            if all(rows is not newest for rows in batches.values()):
                self._forget(batches)
                del self._seen[key]

    def _forget(self, batches: dict[int, RangeSet]) -> None:
        self.range_count -= sum(rows.range_count() for rows in batches.values())

    def _rows_of(self, query: bytes, partition: int, batch: int) -> RangeSet | None:
        """Return the set to note rows in; None for a batch that is over."""
        self._last_head = b""  # what is kept of it may be forgotten here
        key = (query, partition)
        batches = self._seen.get(key)
        if batches is None:
            batches = self._seen[key] = {}
            if len(self._seen) > PUBLISHERS_KEPT_MAX:
                self._forget(self._seen.popitem(last=False)[1])
        rows = batches.get(batch)
        if rows is not None:
            return rows
        if len(batches) >= BATCHES_KEPT_MAX:
            oldest = min(batches)
            if batch < oldest:
                return None
            self._forget({oldest: batches.pop(oldest)})
        rows = batches[batch] = RangeSet()
        self._seen.move_to_end(key)
        return rows

    def add_column(self, origins: pa.Array) -> None:
        """Note the origins of recorded rows, in the order of the log."""
        if origins.null_count == len(origins):
            return
        kept = origins.drop_null()
        data = b"".join(kept.to_pylist())
        table = np.frombuffer(data, _LAYOUT)
        row = table["row"].astype(np.int64)
        same = (
            (table["query"][1:] == table["query"][:-1])
            & (table["query_rest"][1:] == table["query_rest"][:-1])
            & (table["partition"][1:] == table["partition"][:-1])
            & (table["batch"][1:] == table["batch"][:-1])
            & (row[1:] == row[:-1] + 1)
        )
        starts = [0, *(np.flatnonzero(~same) + 1).tolist()]
        for start, stop in zip(starts, [*starts[1:], len(table)], strict=True):
            one = table[start]
            rows = self._rows_of(one.tobytes()[:16], int(one["partition"]), int(one["batch"]))
            if rows is not None:
                self._add(rows, int(row[start]), int(row[stop - 1]) + 1)

    def state(self) -> State:
        """Return all that is known, to be kept."""
        return [
            (query, partition, batch, rows.to_flat())
            for (query, partition), batches in self._seen.items()
            for batch, rows in batches.items()
        ]

    def restore(self, state: State) -> None:
        """Take back what ``state`` returned; entries that make no sense are left out."""
        for query, partition, batch, flat in state:
            rows = parse_flat(flat, RANGES_MAX)
            if rows is None or len(query) != 16:
                continue
            known = self._rows_of(query, partition, batch)
            if known is not None:
                for start, stop in rows:
                    self._add(known, start, stop)
