"""The least work a Python data source can do: rows from memory, rows into nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

BATCH_ROWS = 4_000
"""As many as a recorder's batch of 1000-byte rows has."""


class MemorySource(DataSource):
    """The same columns as the connector's, made in memory once a task."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "memory_batches"

    def schema(self) -> str:
        """Return the columns."""
        return (
            "key binary, value binary, topic string, partition int, offset bigint, "
            "timestamp timestamp"
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader."""
        return MemoryReader(int(self.options["rows"]), int(self.options["size"]))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the sink that counts and forgets."""
        return Discard()


class MemoryReader(DataSourceReader):
    """Two tasks that yield one batch over and over."""

    def __init__(self, rows: int, size: int) -> None:
        self._rows = rows
        self._size = size

    def partitions(self) -> Sequence[InputPartition]:
        """Return as many tasks as there are cores."""
        return [InputPartition(0), InputPartition(1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        values = [bytes([n % 251]) * self._size for n in range(BATCH_ROWS)]
        count = len(values)
        batch = pa.RecordBatch.from_arrays(
            [
                pa.nulls(count, pa.binary()),
                pa.array(values, pa.binary()),
                pa.repeat(pa.scalar("group", pa.string()), count),
                pa.repeat(pa.scalar(0, pa.int32()), count),
                pa.array(range(count), pa.int64()),
                pa.repeat(pa.scalar(0, pa.timestamp("us", tz="UTC")), count),
            ],
            names=["key", "value", "topic", "partition", "offset", "timestamp"],
        )
        left = self._rows // 2
        while left > 0:
            yield batch if left >= count else batch.slice(0, left)
            left -= count


class Discard(DataSourceArrowWriter):
    """Looks at every batch and forgets it."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Count the rows of one partition."""
        rows = 0
        for batch in iterator:
            rows += batch.num_rows
        assert rows >= 0
        return WriterCommitMessage()
