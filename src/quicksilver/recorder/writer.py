"""Appending to the log of one group.

Rows gather in memory and go to disk together: batch, fdatasync, mark, fdatasync,
index entry. What the mark names survives a crash; what came after it in the file
was never promised. An index entry needs no sync: see ``recovery``.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from quicksilver.recorder.batches import ENTRY_BYTES, Entry, pack_entry, seal
from quicksilver.recorder.disk import Disk
from quicksilver.recorder.errors import LogBrokenError
from quicksilver.recorder.folders import data_path, folder_of, index_path, segment_stems
from quicksilver.recorder.recovery import Opening, examine
from quicksilver.recorder.rows import PendingRows, segment_schema
from quicksilver.recorder.state_files import MarkFile, load_memory


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a log is cut into files, and when it is safe."""

    segment_bytes: int = 64 << 20
    """A file is finished when it is larger."""
    flush_bytes: int = 4 << 20
    """Rows are written when there are so many bytes of them, or earlier by the recorder's clock."""
    does_sync: bool = True
    """False: the kernel decides when bytes reach the disk. Faster, but when the machine stops
    safe rows may be lost, and the recorder then refuses to go on without ``--repair``."""


class LogWriter:
    """The log of one group, for its one writer.

    ``pending`` takes rows; ``cut`` takes them away, and ``write`` makes what was
    cut safe, perhaps in another thread, one call at a time and in the order of
    the cuts.
    """

    def __init__(
        self,
        path: Path,
        group: str,
        config: LogConfig | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Open a log, or begin one.

        Raises DamagedLogError, StateFileError, OtherVersionError, LogBrokenError.
        """
        self.group = group
        self.config = config if config is not None else LogConfig()
        self.disk = Disk(does_sync=self.config.does_sync) if disk is None else disk
        self.folder = folder_of(path, group)
        self._schema = segment_schema(group)
        self._data: BinaryIO | None = None
        self._index: BinaryIO | None = None
        self._mark: MarkFile | None = None
        self._position = 0
        self._index_position = 0
        self._segment_first = 0
        self._problem: OSError | None = None
        self.durable = 0
        """The offset after the last row that is safe."""
        self.pending = PendingRows()
        try:
            self.disk.make_folder(self.folder)
            memory = load_memory(self.folder)
            self._open(examine(self.folder, 0 if memory is None else memory.past))
        except BaseException as error:
            self.abandon()
            if isinstance(error, OSError):
                raise LogBrokenError(self.folder, error.strerror or str(error)) from error
            raise

    # Opening

    def _open(self, opening: Opening) -> None:
        disk = self.disk
        for one in opening.leftovers:
            self._remove_segment(one)
        for one, entries in opening.indexes.items():
            disk.replace(index_path(self.folder, one), b"".join(map(pack_entry, entries)))
        first = opening.segment
        if first is not None:
            self._data = disk.open(data_path(self.folder, first))
            # A write that failed may be in the kernel's memory and not on the disk, and
            # counts as written there; only writing it again makes it reach the disk.
            count = opening.end - opening.promised_end
            self._data.seek(opening.promised_end)
            disk.write_at(self._data, opening.promised_end, self._data.read(count))
            disk.truncate(self._data, opening.end)
            disk.sync(self._data)
            index = index_path(self.folder, first)
            self._index = disk.open(index) if index.exists() else disk.create(index)
            self._index_position = index.stat().st_size // ENTRY_BYTES * ENTRY_BYTES
            self._position = opening.end
            self._segment_first = first
        self._mark = MarkFile(disk, self.folder, opening.mark)
        self.durable = opening.mark.past

    # Rows

    @property
    def is_broken(self) -> bool:
        """Whether a write failed: rows that were taken may be lost."""
        return self._problem is not None

    @property
    def is_full(self) -> bool:
        """Whether enough rows wait to be written."""
        return self.pending.size_bytes >= self.config.flush_bytes

    def cut(self) -> PendingRows | None:
        """Take away the rows that wait; None if there are none."""
        if not self.pending:
            return None
        rows, self.pending = self.pending, PendingRows()
        return rows

    def write(self, rows: PendingRows) -> int:
        """Make rows safe; return the offset after the last safe one.

        After an error nothing more is written: what the disk holds beyond the
        last safe row is unknown until the log is opened again.
        """
        if self._problem is not None:
            raise LogBrokenError(self.folder, self._problem.strerror or str(self._problem))
        first = self.durable
        try:
            self._write(rows.to_batch(first), first, len(rows))
        except OSError as error:
            self._problem = error
            raise LogBrokenError(self.folder, error.strerror or str(error)) from error
        self.durable = first + len(rows)
        return self.durable

    def flush(self) -> int:
        """Make safe what waits; return the offset after the last safe row."""
        rows = self.cut()
        return self.durable if rows is None else self.write(rows)

    def _write(self, batch: pa.RecordBatch, first: int, count: int) -> None:
        if self._data is None or self._position >= self.config.segment_bytes:
            self._begin_segment(first)
        assert self._data is not None
        assert self._index is not None
        assert self._mark is not None
        times = pc.min_max(batch.column("timestamp").cast(pa.int64()))
        earliest_us, latest_us = times["min"].as_py(), times["max"].as_py()
        sealed = seal(
            batch.serialize(),
            first=first,
            rows=count,
            earliest_us=earliest_us,
            latest_us=latest_us,
        )
        start = self._position
        # 1. The rows. 2. The mark that names them: they are promised from here on.
        end = self.disk.write_at(self._data, start, sealed.head, sealed.body)
        self.disk.sync(self._data)
        self._mark.store(self._mark.first, first + count)
        # 3. The index, which nobody needs.
        entry = Entry(first, count, start, end, earliest_us, latest_us, sealed.checksum)
        self._index_position = self.disk.write_at(
            self._index, self._index_position, pack_entry(entry)
        )
        self._position = end

    def _begin_segment(self, first: int) -> None:
        self._close_files()
        header = seal(self._schema.serialize(), first=first, rows=0)
        self.disk.remove(index_path(self.folder, first))
        self._data = self.disk.create(data_path(self.folder, first))
        self._index = self.disk.create(index_path(self.folder, first))
        self._position = self.disk.write_at(self._data, 0, header.head)
        self._index_position = 0
        self._segment_first = first
        self.disk.sync_folder(self.folder)

    # Retention

    def remove_before(self, offset: int) -> int:
        """Remove finished segments that lie wholly before an offset; return how many."""
        assert self._mark is not None
        going: list[int] = []
        begins = self._mark.first
        for first, following in pairwise(segment_stems(self.folder)):
            if following > offset or first == self._segment_first:
                break
            going.append(first)
            begins = max(begins, following)
        if not going:
            return 0
        # The mark goes first: what lies before it is not missed.
        self._mark.store(begins, self.durable)
        for first in going:
            self._remove_segment(first)
        return len(going)

    def _remove_segment(self, first: int) -> None:
        # The index goes first: an index without a segment is a segment that was lost.
        self.disk.remove(index_path(self.folder, first))
        self.disk.remove(data_path(self.folder, first))

    def close(self) -> None:
        """Write what waits and close the files."""
        try:
            if self._problem is None:
                self.flush()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the files without writing what waits."""
        self._close_files()
        if self._mark is not None:
            self._mark.close()
            self._mark = None

    def _close_files(self) -> None:
        for file in (self._data, self._index):
            if file is not None:
                file.close()
        self._data = self._index = None
