"""Appending to the log of one group.

Rows gather in memory and go to disk together: batch, fsync, index entry, fsync.
What the index names survives a crash; what came after it in the file is cut off
when the log is opened again.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from quicksilver.recorder.folders import data_path, folder_of, index_path, segment_stems
from quicksilver.recorder.index import ENTRY_BYTES, Entry, load_entries, pack_entry
from quicksilver.recorder.schema import COLUMNS, segment_schema


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How a log is cut into files, and when it is safe."""

    segment_bytes: int = 64 << 20
    """A file is finished when it is larger."""
    flush_bytes: int = 4 << 20
    """Rows are written when there are so many bytes of them, or earlier by the recorder's clock."""
    does_sync: bool = True
    """False leaves it to the kernel when bytes reach the disk: faster; lost with the machine."""


class LogWriter:
    """The log of one group, for its one writer."""

    def __init__(self, path: Path, group: str, config: LogConfig | None = None) -> None:
        self.group = group
        self.config = config if config is not None else LogConfig()
        self.folder = folder_of(path, group)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._schema = segment_schema(group)
        self._data: BinaryIO | None = None
        self._index: BinaryIO | None = None
        self._position = 0
        self._segment_first = 0
        self.durable = 0
        """The offset after the last row that is safe."""
        self._senders: list[int] = []
        self._sequences: list[int] = []
        self._batches: list[int] = []
        self._times: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes] = []
        self._headers: list[list[tuple[str, bytes]] | None] = []
        self._has_keys = False
        self._has_headers = False
        self.waiting_bytes = 0
        self._recover()

    # Opening

    def _recover(self) -> None:
        stems = segment_stems(self.folder)
        if not stems:
            return
        first = stems[-1]
        data, index = data_path(self.folder, first), index_path(self.folder, first)
        entries = load_entries(index, first, data.stat().st_size)
        header = self._schema.serialize().size
        end = entries[-1].end if entries else header
        self.durable = entries[-1].past if entries else first
        if data.stat().st_size < header:
            data.write_bytes(bytes(self._schema.serialize()))
        self._data = data.open("r+b")
        self._data.truncate(end)
        self._data.seek(end)
        self._index = index.open("a+b")
        self._index.truncate(len(entries) * ENTRY_BYTES)
        self._position = end
        self._segment_first = first

    # Rows

    def append(
        self,
        values: Sequence[bytes],
        *,
        sender: int,
        sequences: Sequence[int],
        batch: int,
        at_us: int,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[list[tuple[str, bytes]] | None] | None = None,
    ) -> None:
        """Add messages of one sender; they are safe after the next ``flush``."""
        count = len(values)
        self._values += values
        self._sequences += sequences
        self._senders += [sender] * count
        self._batches += [batch] * count
        self._times += [at_us] * count
        if keys is not None:
            self._has_keys = True
        if headers is not None:
            self._has_headers = True
        self._keys += keys if keys is not None else [None] * count
        self._headers += headers if headers is not None else [None] * count
        self.waiting_bytes += sum(map(len, values)) + 40 * count

    @property
    def waiting(self) -> int:
        """Rows that are not on disk."""
        return len(self._values)

    @property
    def is_full(self) -> bool:
        """Whether enough rows wait to be written."""
        return self.waiting_bytes >= self.config.flush_bytes

    def flush(self) -> int:
        """Write what waits and make it safe; return the offset after the last safe row."""
        if self._values:
            first = self.durable
            count = len(self._values)
            self._write(self._take(first), first, count)
            self.durable = first + count
        return self.durable

    def _take(self, first: int) -> pa.RecordBatch:
        count = len(self._values)
        empty = pa.nulls
        arrays = [
            pa.array(range(first, first + count), pa.int64()),
            pa.array(self._times, pa.int64()).cast(COLUMNS.field("timestamp").type),
            pa.array(self._senders, pa.int64()),
            pa.array(self._sequences, pa.int64()),
            pa.array(self._batches, pa.int64()),
            pa.array(self._keys, pa.binary()) if self._has_keys else empty(count, pa.binary()),
            pa.array(self._values, pa.binary()),
            self._take_headers(count),
        ]
        for column in (
            self._values,
            self._times,
            self._senders,
            self._sequences,
            self._batches,
            self._keys,
            self._headers,
        ):
            column.clear()
        self._has_keys = self._has_headers = False
        self.waiting_bytes = 0
        return pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)

    def _take_headers(self, count: int) -> pa.Array:
        type_ = COLUMNS.field("headers").type
        if not self._has_headers:
            return pa.nulls(count, type_)
        rows = [
            None if one is None else [{"key": key, "value": value} for key, value in one]
            for one in self._headers
        ]
        return pa.array(rows, type_)

    def _write(self, batch: pa.RecordBatch, first: int, count: int) -> None:
        if self._data is None or self._position >= self.config.segment_bytes:
            self._begin_segment(first)
        assert self._data is not None
        assert self._index is not None
        data = batch.serialize()
        start = self._position
        self._data.write(data)
        self._sync(self._data)
        times = batch.column("timestamp").cast(pa.int64())
        entry = Entry(
            first,
            count,
            start,
            start + data.size,
            pc.min(times).as_py(),
            pc.max(times).as_py(),
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
        """Write what waits and let go of the files."""
        self.flush()
        self._close_files()

    def _close_files(self) -> None:
        for file in (self._data, self._index):
            if file is not None:
                file.close()
        self._data = self._index = None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder safe."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
