"""Rows of a DataFrame as messages.

A task that is run again must number the same rows alike. So the rows of a
partition that go to one group are put in the order of their content first,
unless the plan is known to give rows in the same order every time.

Sorting is done on lists of bytes: 1 µs a row of 1000 bytes, where Arrow's sort
of a table took 9, and the lists are needed anyway to send them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from quicksilver.analysis.errors import BadInputError
from quicksilver.recorder.envelope import MARK

_PREFIX = struct.Struct("<4sB16sQI")
_ROW = struct.Struct("<Q")
_SIZE = struct.Struct("<I")
_HAS_KEY, _HAS_HEADERS = 1, 2

CHUNK_ROWS = 10_000

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


class Part:
    """Rows for one group; columns that no row has are None."""

    __slots__ = ("headers", "keys", "values")

    def __init__(self, rows: pa.RecordBatch) -> None:
        self.values: list[bytes] = rows.column("value").to_pylist()
        self.keys = _optional(rows.column("key"))
        self.headers = _optional(rows.column("headers"))

    def extend(self, other: Part) -> None:
        """Add the rows of another."""
        before, more = len(self.values), len(other.values)
        self.keys = _joined(self.keys, before, other.keys, more)
        self.headers = _joined(self.headers, before, other.headers, more)
        self.values += other.values

    def sort(self) -> None:
        """Put the rows in the one order that depends on nothing but them."""
        if self.keys is None and self.headers is None:
            self.values.sort()
            return
        count = len(self.values)
        keys, headers = self.keys or [None] * count, self.headers or [None] * count
        rows = sorted(
            (key is not None, key or b"", value, head is not None, head or b"")
            for key, value, head in zip(keys, self.values, headers, strict=True)
        )
        self.values = [row[2] for row in rows]
        self.keys = [row[1] if row[0] else None for row in rows]
        self.headers = [row[4] if row[3] else None for row in rows]


def _optional(column: pa.Array) -> list[bytes | None] | None:
    if column.null_count == len(column):
        return None
    found: list[bytes | None] = column.to_pylist()
    return found


def _joined(
    left: list[bytes | None] | None,
    left_count: int,
    right: list[bytes | None] | None,
    right_count: int,
) -> list[bytes | None] | None:
    if left is None and right is None:
        return None
    return (left or [None] * left_count) + (right or [None] * right_count)


def split(batch: pa.RecordBatch) -> Iterator[tuple[str, Part]]:
    """Yield the rows of a batch by group."""
    topics = batch.column("topic")
    names = pc.unique(topics).to_pylist()
    if len(names) == 1:
        yield names[0], Part(batch)
        return
    for name in names:
        yield name, Part(batch.filter(pc.equal(topics, name)))


class Packer:
    """Puts the rows of one run of one task into envelopes, numbered for each group."""

    def __init__(self, query: bytes, batch: int, partition: int) -> None:
        self._prefixes = [
            _PREFIX.pack(MARK, flags, query, batch, partition)
            for flags in (0, _HAS_KEY, _HAS_HEADERS, _HAS_KEY | _HAS_HEADERS)
        ]
        self._rows: dict[str, int] = {}

    def messages(
        self, batches: Iterable[pa.RecordBatch], *, by_content: bool
    ) -> Iterator[tuple[str, list[bytes]]]:
        """Yield groups and messages for them; ``by_content`` holds a whole partition in memory."""
        if not by_content:
            for batch in batches:
                for topic, part in split(batch):
                    yield from self._pack(topic, part)
            return
        parts: dict[str, Part] = {}
        for batch in batches:
            for topic, part in split(batch):
                if topic in parts:
                    parts[topic].extend(part)
                else:
                    parts[topic] = part
        for topic in sorted(parts):
            part = parts.pop(topic)
            part.sort()
            yield from self._pack(topic, part)

    def _pack(self, topic: str, part: Part) -> Iterator[tuple[str, list[bytes]]]:
        """Yield messages some at a time: what was sent need not be kept."""
        first = self._rows.get(topic, 0)
        values = part.values
        self._rows[topic] = first + len(values)
        row = _ROW.pack
        for start in range(0, len(values), CHUNK_ROWS):
            some = values[start : start + CHUNK_ROWS]
            numbers = range(first + start, first + start + len(some))
            if part.keys is None and part.headers is None:
                prefix = self._prefixes[0]
                yield (
                    topic,
                    [
                        prefix + row(number) + value
                        for number, value in zip(numbers, some, strict=True)
                    ],
                )
                continue
            keys = part.keys or [None] * len(values)
            headers = part.headers or [None] * len(values)
            yield (
                topic,
                [
                    self._pack_one(number, keys[at], headers[at], value)
                    for number, (at, value) in zip(numbers, enumerate(some, start), strict=True)
                ],
            )

    def _pack_one(
        self, number: int, key: bytes | None, headers: bytes | None, value: bytes
    ) -> bytes:
        flags = (key is not None) * _HAS_KEY | (headers is not None) * _HAS_HEADERS
        message = self._prefixes[flags] + _ROW.pack(number)
        if key is not None:
            message += _SIZE.pack(len(key)) + key
        if headers is not None:
            message += _SIZE.pack(len(headers)) + headers
        return message + value
