"""Reading a recorded group: from any process, while it is being written.

Segments are memory-mapped, and batches are handed out as they lie in the file.
A reader sees what the index names, which is what is safe on disk.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pyarrow as pa

from quicksilver.recorder.errors import (
    DamagedSegmentError,
    NewerVersionError,
    NoLogError,
    OffsetsLostError,
)
from quicksilver.recorder.folders import (
    data_path,
    folder_of,
    index_path,
    recorded_groups,
    segment_stems,
)
from quicksilver.recorder.index import Entry, find_entry, load_entries
from quicksilver.recorder.schema import COLUMNS, VERSION, VERSION_KEY


class Segment:
    """One file of a log, opened for reading."""

    def __init__(self, folder: Path, first: int) -> None:
        self.path = data_path(folder, first)
        self._index = index_path(folder, first)
        self.first = first
        self._map: pa.Buffer | None = None
        self._entries: list[Entry] = []
        self._read_size = -1

    def entries(self) -> list[Entry]:
        """Return where its batches are; looks at the index again if that has grown."""
        try:
            size = self._index.stat().st_size
            if size != self._read_size:
                self._entries = load_entries(self._index, self.first, self.path.stat().st_size)
                self._read_size = size
        except FileNotFoundError:
            self._entries = []  # the index is not there yet, or retention took the segment
        return self._entries

    def read(self, entry: Entry) -> pa.RecordBatch:
        """Return a batch; raises DamagedSegmentError, NewerVersionError."""
        data = self._mapped(entry.end)
        part = data.slice(entry.start, entry.end - entry.start)
        if zlib.crc32(part) != entry.checksum:
            raise DamagedSegmentError(self.path, entry.first, "bytes have changed")
        try:
            return pa.ipc.read_record_batch(pa.ipc.read_message(part), COLUMNS)
        except (pa.ArrowInvalid, OSError) as error:
            raise DamagedSegmentError(self.path, entry.first, str(error)) from None

    def _mapped(self, end: int) -> pa.Buffer:
        if self._map is None or self._map.size < end:
            try:
                with pa.memory_map(str(self.path)) as file:
                    mapped = file.read_buffer()
            except FileNotFoundError:
                raise OffsetsLostError("", self.first, end, "the segment was removed") from None
            self._check_version(mapped)
            self._map = mapped
        return self._map

    def _check_version(self, data: pa.Buffer) -> None:
        try:
            schema = pa.ipc.read_schema(pa.ipc.read_message(data))
        except (pa.ArrowInvalid, OSError) as error:
            raise DamagedSegmentError(self.path, self.first, str(error)) from None
        version = (schema.metadata or {}).get(VERSION_KEY, b"").decode("utf-8", "replace")
        if version != VERSION:
            raise NewerVersionError(self.path, version or "unknown", VERSION)


class LogReader:
    """The log of one group."""

    def __init__(self, path: Path, group: str) -> None:
        self.group = group
        self.folder = folder_of(path, group)
        if not self.folder.is_dir():
            raise NoLogError(path, tuple(recorded_groups(path)))
        self._segments: dict[int, Segment] = {}

    def segments(self) -> list[Segment]:
        """Return the segments there are now, in order."""
        stems = segment_stems(self.folder)
        self._segments = {
            first: self._segments.get(first) or Segment(self.folder, first) for first in stems
        }
        return [self._segments[first] for first in stems]

    def bounds(self) -> tuple[int, int]:
        """Return the first offset that is there, and the one after the last."""
        segments = self.segments()
        if not segments:
            return (0, 0)
        for segment in reversed(segments):
            entries = segment.entries()
            if entries:
                return (segments[0].first, entries[-1].past)
        return (segments[0].first, segments[-1].first)

    def find_time(self, timestamp_us: int) -> int:
        """Return the offset of the first row at or after a time; the end if there is none.

        Only indexes are looked at, and the one batch that has the row. Times do
        not always ascend: rows that were fetched from another recorder keep theirs.
        """
        for segment in self.segments():
            entries = segment.entries()
            newest = list(accumulate((entry.latest_us for entry in entries), max))
            at = bisect_left(newest, timestamp_us)
            if at == len(entries):
                continue
            times = segment.read(entries[at]).column("timestamp").cast(pa.int64())
            is_late = times.to_numpy() >= timestamp_us
            return entries[at].first + int(is_late.argmax())
        return self.bounds()[1]

    def read(self, first: int, past: int, *, strict: bool = True) -> Iterator[pa.RecordBatch]:
        """Yield the rows from one offset up to another.

        What is not there raises OffsetsLostError, or is left out if not ``strict``;
        damaged batches raise DamagedSegmentError, segments of another version
        NewerVersionError, or are left out.
        """
        expected = first
        for segment in self.segments():
            entries = segment.entries()
            if not entries or entries[-1].past <= first:
                continue
            if segment.first >= past:
                break
            for entry in entries[find_entry(entries, first) :]:
                if entry.first >= past:
                    break
                if entry.first > expected and strict:
                    why = "they are not in the log (retention, or a file was removed)"
                    raise OffsetsLostError(self.group, expected, entry.first, why)
                try:
                    batch = segment.read(entry)
                except (DamagedSegmentError, NewerVersionError, OffsetsLostError):
                    if strict:
                        raise
                    continue
                start = max(0, first - entry.first)
                yield batch.slice(start, min(entry.rows, past - entry.first) - start)
                expected = entry.past
        if expected < past and strict:
            raise OffsetsLostError(self.group, expected, past, "the log ends before them")

    def splits(self, first: int, past: int, parts: int) -> list[tuple[int, int]]:
        """Cut a range of offsets into about equal parts, where batches begin."""
        if past <= first:
            return []
        wanted = max(1, parts)
        size = -(-(past - first) // wanted)
        cuts = [first]
        for segment in self.segments():
            for entry in segment.entries():
                if entry.first >= past:
                    break
                if entry.first > first and entry.first - cuts[-1] >= size:
                    cuts.append(entry.first)
        return list(zip(cuts, [*cuts[1:], past], strict=True))
