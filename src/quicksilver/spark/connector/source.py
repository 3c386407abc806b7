"""``spark.read`` and ``spark.readStream`` of recorded groups.

Planning and reading happen in different processes, and a micro-batch is run
again by its offsets after a crash: so the source reads a recording, and the
same offsets are the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from quicksilver.recorder.errors import OffsetsLostError
from quicksilver.recorder.retention import store_commit
from quicksilver.spark.connector.columns import find_decoder, to_rows
from quicksilver.spark.connector.offsets import Offsets, Positions, limit_rows
from quicksilver.spark.connector.options import SourceOptions

if TYPE_CHECKING:
    import pyarrow as pa


class Range(InputPartition):
    """Rows of one group, for one task."""

    def __init__(self, group: str, first: int, past: int) -> None:
        super().__init__((group, first, past))
        self.group = group
        self.first = first
        self.past = past


class _Reading:
    """What batch and stream readers share; pickled to the workers."""

    def __init__(self, options: SourceOptions) -> None:
        self._options_data = msgspec.json.encode(options)

    @property
    def options(self) -> SourceOptions:
        return msgspec.json.decode(self._options_data, type=SourceOptions)

    def plan(self, positions: Positions, start: Offsets, end: Offsets) -> list[Range]:
        """Cut what lies between two positions into tasks."""
        options = self.options
        groups = [group for group, past in end.items() if past > start.get(group, 0)]
        total = sum(end[group] - start.get(group, 0) for group in groups)
        ranges: list[Range] = []
        for group in groups:
            first, past = start.get(group, 0), end[group]
            if options.fails_on_loss:
                there = positions.bounds(group)[0]
                if first < there:
                    why = f"the log begins with {there}; failOnDataLoss=false reads what is left"
                    raise OffsetsLostError(group, first, there, why)
            parts = -(-options.partitions_min * (past - first) // total)
            ranges += [
                Range(group, *cut) for cut in positions.reader(group).splits(first, past, parts)
            ]
        return ranges

    def read_range(self, partition: Range) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        options = self.options
        log = Positions(options).reader(partition.group)
        batches = log.read(partition.first, partition.past, strict=options.fails_on_loss)
        rows = to_rows(batches, partition.group, options)
        if options.schema is None:
            return rows
        return find_decoder(options.schema).decode(rows)


class GroupReader(DataSourceReader):
    """A batch query."""

    def __init__(self, options: SourceOptions) -> None:
        self._reading = _Reading(options)

    def partitions(self) -> Sequence[InputPartition]:
        """Cut the query into tasks."""
        positions = Positions(self._reading.options)
        return self._reading.plan(positions, positions.start(), positions.end())

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task; Spark runs one without a partition where there are none."""
        if partition is None:
            return iter(())
        assert isinstance(partition, Range)
        return self._reading.read_range(partition)


def _check_not_replaced(begun: Offsets, latest: Offsets) -> None:
    """Raise OffsetsLostError if a log ends before a position that was read."""
    for group, offset in begun.items():
        past = latest.get(group)
        if past is None and offset:
            why = "the recording is gone; failOnDataLoss=false goes on without it"
            raise OffsetsLostError(group, 0, offset, why)
        if past is not None and past < offset:
            why = f"the log ends with {past - 1}: was the recording replaced? Use a new checkpoint"
            raise OffsetsLostError(group, past, offset, why)


class GroupStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query."""

    def __init__(self, options: SourceOptions) -> None:
        self._reading = _Reading(options)
        self._positions: Positions | None = None
        self._target: Offsets | None = None

    @property
    def positions(self) -> Positions:
        """The logs; opened in the process that asks."""
        if self._positions is None:
            self._positions = Positions(self._reading.options)
        return self._positions

    def initialOffset(self) -> Offsets:  # noqa: N802  # Spark's name
        """Return where a new query begins."""
        return self.positions.start()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """Return how much a micro-batch reads."""
        rows_max = self._reading.options.rows_max
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> Offsets:  # noqa: N802
        """Return how far the next micro-batch goes."""
        latest = self._target if self._target is not None else self.positions.latest()
        begun = dict(start)
        if self._reading.options.fails_on_loss:
            _check_not_replaced(begun, latest)
        # A group that came to be recorded later is read from its beginning.
        end = {**begun, **{group: max(past, begun.get(group, 0)) for group, past in latest.items()}}
        for group in end.keys() - begun.keys():
            begun[group] = self.positions.bounds(group)[0]
        if isinstance(limit, ReadMaxRows):
            return limit_rows(begun, end, limit.max_rows)
        return end

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Fix how far a query goes that ends when it has caught up."""
        self._target = self.positions.latest()

    def reportLatestOffset(self) -> Offsets:  # noqa: N802  # Spark's name
        """Return the ends of the logs, from which Spark shows the lag."""
        return self.positions.latest()

    def partitions(
        self, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Sequence[InputPartition]:
        """Cut a micro-batch into tasks."""
        begun = dict(start)
        for group in end.keys() - begun.keys():
            begun[group] = self.positions.bounds(group)[0]
        return self._reading.plan(self.positions, begun, dict(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task."""
        assert isinstance(partition, Range)
        return self._reading.read_range(partition)

    def commit(self, end: Mapping[str, int]) -> None:
        """Spark is done with what lies before: a consumer that has a name says so to retention."""
        consumer = self._reading.options.consumer
        if consumer is None:
            return
        for group, offset in end.items():
            store_commit(self.positions.reader(group).folder, consumer, offset)

    def stop(self) -> None:
        """Nothing is held."""

    def __getstate__(self) -> dict[str, object]:
        return {"_reading": self._reading, "_positions": None, "_target": self._target}
