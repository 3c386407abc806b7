"""Appending to the log of one group.

Rows gather in memory and go to disk together: batch, fsync, index entry, fsync.
What the index names survives a crash; what came after it in the file is cut off
when the log is opened again.
"""

from __future__ import annotations

import os
import zlib
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from quicksilver.recorder.errors import LogBrokenError
from quicksilver.recorder.folders import data_path, folder_of, index_path, segment_stems
from quicksilver.recorder.index import ENTRY_BYTES, Entry, load_entries, pack_entry
from quicksilver.recorder.pending_rows import PendingRows
from quicksilver.recorder.schema import segment_schema


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a log is cut into files, and when it is safe."""

    segment_bytes: int = 64 << 20
    """A file is finished when it is larger."""
    flush_bytes: int = 4 << 20
    """Rows are written when there are so many bytes of them, or earlier by the recorder's clock."""
    does_sync: bool = True
    """False: the kernel decides when bytes reach the disk. Faster, but a crash may lose them."""


class LogWriter:
    """The log of one group, for its one writer.

    ``pending`` takes rows; ``cut`` takes them away, and ``write`` makes what was
    cut safe, perhaps in another thread, one call at a time and in the order of
    the cuts.
    """

    def __init__(self, path: Path, group: str, config: LogConfig | None = None) -> None:
        self.group = group
        self.config = config if config is not None else LogConfig()
        self.folder = folder_of(path, group)
        is_new = not self.folder.is_dir()
        self.folder.mkdir(parents=True, exist_ok=True)
        if is_new and self.config.does_sync:
            sync_folder(path)
        self._schema = segment_schema(group)
        self._data: BinaryIO | None = None
        self._index: BinaryIO | None = None
        self._position = 0
        self._segment_first = 0
        self._problem: OSError | None = None
        self.durable = 0
        """The offset after the last row that is safe."""
        self.pending = PendingRows()
        self._recover()

    # Opening

    def _recover(self) -> None:
        stems = segment_stems(self.folder)
        if not stems:
            return
        first = stems[-1]
        data, index = data_path(self.folder, first), index_path(self.folder, first)
        header = self._schema.serialize()
        if data.stat().st_size < header.size:
            # The machine stopped while the file was begun: nothing in it was promised.
            data.write_bytes(header)
            index.write_bytes(b"")
        entries = load_entries(index, first, data.stat().st_size)
        end = entries[-1].end if entries else header.size
        self.durable = entries[-1].past if entries else first
        self._data = data.open("r+b")
        self._data.truncate(end)
        self._data.seek(end)
        self._index = index.open("a+b")
        self._index.truncate(len(entries) * ENTRY_BYTES)
        self._position = end
        self._segment_first = first

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
        data = batch.serialize()
        start = self._position
        self._data.write(data)
        self._sync(self._data)
        times = pc.min_max(batch.column("timestamp").cast(pa.int64()))
        entry = Entry(
            first,
            count,
            start,
            start + data.size,
            times["min"].as_py(),
            times["max"].as_py(),
            zlib.crc32(data),
        )
        self._index.write(pack_entry(entry))
        self._sync(self._index)
        self._position = entry.end

    def _begin_segment(self, first: int) -> None:
        self._close_files()
        header = self._schema.serialize()
        self._data = data_path(self.folder, first).open("w+b")
        self._data.write(header)
        self._index = index_path(self.folder, first).open("w+b")
        self._position = header.size
        self._segment_first = first
        if self.config.does_sync:
            sync_folder(self.folder)

    def _sync(self, file: BinaryIO) -> None:
        file.flush()
        if self.config.does_sync:
            os.fdatasync(file.fileno())

    # Retention

    def remove_before(self, offset: int) -> int:
        """Remove finished segments that lie wholly before an offset; return how many."""
        stems = segment_stems(self.folder)
        removed = 0
        for first, following in pairwise(stems):
            if following > offset or first == self._segment_first:
                break
            # The index goes first: a segment without one has nothing to read.
            index_path(self.folder, first).unlink(missing_ok=True)
            data_path(self.folder, first).unlink(missing_ok=True)
            removed += 1
        return removed

    def close(self) -> None:
        """Write what waits and close the files."""
        try:
            if self._problem is None:
                self.flush()
        finally:
            self._close_files()

    def _close_files(self) -> None:
        for file in (self._data, self._index):
            if file is not None:
                file.close()
        self._data = self._index = None


def sync_folder(folder: Path) -> None:
    """Have the names of a folder's files written to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
