"""What a log remembers besides its rows: what it held before retention took it.

Coverage and repeats are read from the segments when a log is opened. What was
removed is kept in a small file, so that it is neither fetched again from another
recorder nor taken for new; the file also says up to which offset it counts, so
that opening reads only what came later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quicksilver.recorder.coverage import Coverage
from quicksilver.recorder.errors import (
    DamagedLogError,
    DamagedSegmentError,
    OffsetsLostError,
    OtherVersionError,
    StateFileError,
)
from quicksilver.recorder.reader import LogReader
from quicksilver.recorder.repeats import Repeats
from quicksilver.recorder.state_files import MEMORY_FILE, Memory, load_losses, load_memory

if TYPE_CHECKING:
    import pyarrow as pa


class Known:
    """What a recorder knows of a log without reading it."""

    def __init__(self) -> None:
        self.coverage = Coverage()
        """What was ever recorded, and must not be again."""
        self.kept = Coverage()
        """What of it can be read."""
        self.repeats = Repeats()
        self.unreadable = 0
        """Rows that a repair gave up: they may come again."""

    def add(self, batch: pa.RecordBatch) -> None:
        """Count recorded rows in."""
        columns = (batch.column("cluster"), batch.column("sender"), batch.column("sequence"))
        self.coverage.add_columns(*columns)
        self.kept.add_columns(*columns)
        self.repeats.add_column(batch.column("origin"))

    def to_memory(self, first: int, past: int) -> Memory:
        """Return what is known of a log's rows from one offset to another."""
        coverage, kept = self.coverage.state(), self.kept.state()
        return Memory(first, past, coverage, kept, self.repeats.state())


def restore(log: LogReader) -> Known:
    """Return what is known of a log: from its memory file, and from the rows since.

    Raises DamagedLogError if some of these rows are damaged and were not given up,
    StateFileError if nothing says what retention took.
    """
    first, end = log.bounds()
    known = Known()
    losses = load_losses(log.folder)
    memory = load_memory(log.folder)
    start = first
    if memory is not None:
        coverage, kept = Coverage.parse(memory.coverage), Coverage.parse(memory.kept)
        if coverage is not None and kept is not None:
            known.coverage = coverage
            known.repeats.restore(memory.repeats)
            if memory.first >= first:
                known.kept = kept
                start = max(start, memory.past)
    elif first > 0:
        consequence = "what retention took would be recorded again"
        raise StateFileError(log.folder / MEMORY_FILE, consequence)
    try:
        for batch in log.read(start, end, losses=losses):
            known.add(batch)
    except (DamagedSegmentError, OffsetsLostError, OtherVersionError) as error:
        raise DamagedLogError(error) from None
    known.unreadable = losses.clamped(first, end).count()
    return known
