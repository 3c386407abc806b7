"""The rows of a log: their columns, and those that wait to be written.

``offset`` counts the messages of one group in one log. ``cluster``, ``sender``
and ``sequence`` say which message it is, wherever it was recorded (a new GMS
without its old state begins a new cluster, with the same numbers for other
nodes); ``batch`` is the membership batch that fixes the view it was committed
to. ``origin`` is the row of a job that the message is, if a job sent it.

Rows that wait are plain lists, until they become one Arrow batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from quicksilver.recorder.envelope import Headers

T = TypeVar("T")

VERSION: Final = "2"
"""Version 1 had no checksums in its segments; it is not read."""
VERSION_KEY: Final = b"quicksilver.segment"
GROUP_KEY: Final = b"quicksilver.group"
ORIGIN_BYTES: Final = 36

HEADERS_TYPE: Final = pa.list_(
    pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
)

COLUMNS: Final = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("cluster", pa.int64(), nullable=False),
        pa.field("sender", pa.int64(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("batch", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("headers", HEADERS_TYPE),
        pa.field("origin", pa.binary(ORIGIN_BYTES)),
    ]
)


def segment_schema(group: str) -> pa.Schema:
    """Return the columns with what identifies a segment."""
    return COLUMNS.with_metadata({VERSION_KEY: VERSION.encode(), GROUP_KEY: group.encode()})


ROW_BYTES = 56
"""What a row costs in a segment besides its value, roughly."""


class PendingRows:
    """Columns that grow; those that few messages have are made only if one has them."""

    __slots__ = (
        "_batches",
        "_clusters",
        "_counts",
        "_headers",
        "_keys",
        "_origins",
        "_senders",
        "_sequences",
        "_times",
        "_values",
        "size_bytes",
    )

    def __init__(self) -> None:
        # What is the same for all messages that were added together, and how many those are:
        # a quarter of the work of a list of numbers for each column.
        self._counts: list[int] = []
        self._times: list[int] = []
        self._clusters: list[int] = []
        self._senders: list[int] = []
        self._batches: list[int] = []
        self._sequences: list[Sequence[int]] = []
        self._values: list[bytes] = []
        self._keys: list[bytes | None] | None = None
        self._headers: list[Headers | None] | None = None
        self._origins: list[bytes | None] | None = None
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def append(
        self,
        values: Sequence[bytes],
        *,
        cluster: int,
        sender: int,
        sequences: Sequence[int],
        batch: int,
        at_us: int,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        origins: Sequence[bytes | None] | None = None,
    ) -> None:
        """Add messages of one sender."""
        before, count = len(self._values), len(values)
        self._keys = _grow(self._keys, keys, before, count)
        self._headers = _grow(self._headers, headers, before, count)
        self._origins = _grow(self._origins, origins, before, count)
        self._values += values
        self._sequences.append(sequences)
        self._counts.append(count)
        self._clusters.append(cluster)
        self._senders.append(sender)
        self._batches.append(batch)
        self._times.append(at_us)
        self.size_bytes += sum(map(len, values)) + ROW_BYTES * count

    def to_batch(self, first: int) -> pa.RecordBatch:
        """Return the rows with offsets that begin with ``first``."""
        count = len(self._values)
        sequences = np.concatenate(
            [
                np.arange(one.start, one.stop, dtype=np.int64)
                if type(one) is range and one.step == 1
                else np.array(one, np.int64)
                for one in self._sequences
            ]
        )
        arrays = [
            pa.array(np.arange(first, first + count, dtype=np.int64)),
            self._spread(self._times).cast(COLUMNS.field("timestamp").type),
            self._spread(self._clusters),
            self._spread(self._senders),
            pa.array(sequences),
            self._spread(self._batches),
            _column(self._keys, count, pa.binary()),
            pa.array(self._values, pa.binary()),
            self._header_column(count),
            _column(self._origins, count, pa.binary(ORIGIN_BYTES)),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)

    def _spread(self, numbers: list[int]) -> pa.Array:
        """Return a column in which each number stands for all that were added with it."""
        return pa.array(np.repeat(np.array(numbers, np.int64), self._counts))

    def _header_column(self, count: int) -> pa.Array:
        if self._headers is None:
            return pa.nulls(count, HEADERS_TYPE)
        shaped = [
            None if one is None else [{"key": key, "value": value} for key, value in one]
            for one in self._headers
        ]
        return pa.array(shaped, HEADERS_TYPE)


def _grow(
    column: list[T | None] | None, more: Sequence[T | None] | None, before: int, count: int
) -> list[T | None] | None:
    if column is None:
        if more is None:
            return None
        column = [None] * before
    column += more if more is not None else [None] * count
    return column


def _column(values: list[bytes | None] | None, count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind) if values is None else pa.array(values, kind)
