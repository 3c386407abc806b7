"""Rows of a DataFrame as messages, column by column.

A task that is run again must number the same rows alike. So a partition is put
in the order of its content first, unless the plan is known to give rows in the
same order every time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from quicksilver.recorder.envelope import MARK
from quicksilver.spark.errors import BadInputError

_PREFIX = struct.Struct("<4sB16sQI")
_HAS_KEY, _HAS_HEADERS = 1, 2
_SORTED_BY = [("topic", "ascending"), ("key", "ascending"), ("value", "ascending")]

NORMAL = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.binary()),
    ]
)
"""What is sent: headers are packed already."""


def normalise(batch: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
    """Return the columns as they are sent; raises BadInputError.

    ``topic`` overrides the column.
    """
    count = batch.num_rows
    given = {name: batch.column(name) for name in batch.schema.names}
    value = given["value"].cast(pa.binary())
    if value.null_count:
        raise BadInputError("a row has a null in column value: filter it, or coalesce it to ''")
    if topic is not None:
        topics = pa.repeat(pa.scalar(topic, pa.string()), count)
    else:
        topics = given["topic"].cast(pa.string())
        if topics.null_count:
            raise BadInputError("a row has a null in column topic: it would go nowhere")
    key = given["key"].cast(pa.binary()) if "key" in given else pa.nulls(count, pa.binary())
    headers = (
        _pack_headers(given["headers"]) if "headers" in given else pa.nulls(count, pa.binary())
    )
    return pa.RecordBatch.from_arrays([topics, key, value, headers], schema=NORMAL)


def _pack_headers(column: pa.Array) -> pa.Array:
    encode = msgspec.msgpack.Encoder().encode
    packed = [
        None
        if one is None
        else encode([(header["key"] or "", bytes(header["value"] or b"")) for header in one])
        for one in column.to_pylist()
    ]
    return pa.array(packed, pa.binary())


def in_order(batches: Iterable[pa.RecordBatch], by_content: bool) -> Iterator[pa.RecordBatch]:
    """Yield a partition's rows in the order in which they are numbered."""
    if not by_content:
        yield from batches
        return
    table = pa.Table.from_batches(list(batches), NORMAL)
    by = list(_SORTED_BY)
    if table.column("headers").null_count < table.num_rows:
        by.append(("headers", "ascending"))
    constant = [name for name, _ in by if _is_constant(table.column(name))]
    by = [one for one in by if one[0] not in constant]
    if by:
        table = table.take(pc.sort_indices(table, sort_keys=by))
    yield from table.to_batches(max_chunksize=20_000)


def _is_constant(column: pa.ChunkedArray) -> bool:
    """Whether all values are the same: there is nothing to sort by."""
    if column.null_count == len(column):
        return True
    if column.null_count:
        return False
    return all(chunk[0] == column.chunk(0)[0] for chunk in column.chunks if len(chunk)) and all(
        bool(pc.all(pc.equal(chunk, chunk[0])).as_py()) for chunk in column.chunks if len(chunk)
    )


class Packer:
    """Puts the rows of one run of one task into envelopes."""

    def __init__(self, query: bytes, batch: int, partition: int) -> None:
        self._prefixes = [
            _PREFIX.pack(MARK, flags, query, batch, partition)
            for flags in (0, _HAS_KEY, _HAS_HEADERS, _HAS_KEY | _HAS_HEADERS)
        ]
        self.row = 0
        """The number of the next row."""

    def pack(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return the messages of some rows."""
        count = batch.num_rows
        numbers = _fixed(np.arange(self.row, self.row + count, dtype="<u8"), 8)
        self.row += count
        key, value, headers = (batch.column(name) for name in ("key", "value", "headers"))
        if key.null_count == count and headers.null_count == count:
            prefix = pa.scalar(self._prefixes[0], pa.binary())
            return _join(prefix, numbers, value)
        if headers.null_count == count and not key.null_count:
            prefix = pa.scalar(self._prefixes[1], pa.binary())
            return _join(prefix, numbers, _lengths(key), key, value)
        flags = np.zeros(count, np.int64)
        flags += np.where(key.is_valid().to_numpy(zero_copy_only=False), _HAS_KEY, 0)
        flags += np.where(headers.is_valid().to_numpy(zero_copy_only=False), _HAS_HEADERS, 0)
        prefixes = pa.array(self._prefixes, pa.binary()).take(pa.array(flags))
        parts = [prefixes, numbers]
        for column in (key, headers):
            filled = column.fill_null(b"")
            is_there = column.is_valid()
            parts.append(pc.if_else(is_there, _lengths(filled), pa.scalar(b"", pa.binary())))
            parts.append(filled)
        return _join(*parts, value)


def _lengths(column: pa.Array) -> pa.Array:
    sizes = pc.binary_length(column).to_numpy(zero_copy_only=False).astype("<u4")
    return _fixed(sizes, 4)


def _fixed(numbers: Any, width: int) -> pa.Array:
    """Return numbers as their bytes."""
    data = pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(pa.binary(width), len(numbers), [None, data]).cast(pa.binary())


def _join(*parts: Any) -> list[bytes]:
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))
    found: list[bytes] = joined.to_pylist()
    return found
