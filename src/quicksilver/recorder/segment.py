"""One file of a log, opened for reading."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from quicksilver.recorder.batches import Entry, find_batch, is_intact, is_sealed, load_entries
from quicksilver.recorder.errors import (
    DamagedSegmentError,
    OffsetsLostError,
    OtherVersionError,
    RecorderError,
)
from quicksilver.recorder.folders import data_path, group_of, index_path
from quicksilver.recorder.rows import COLUMNS, VERSION, VERSION_KEY

NOT_THERE = "they are not in the log (retention, or a file was removed)"


class Segment:
    """A segment and its index; neither is changed.

    Which batches there are is read from the index, and where the index lacks one
    from the seals in the segment.
    """

    def __init__(self, folder: Path, first: int) -> None:
        self.path = data_path(folder, first)
        self._index = index_path(folder, first)
        self.first = first
        self._group = group_of(folder)
        self._map: pa.Buffer | None = None
        self._entries: list[Entry] = []
        self._named: dict[int, Entry] = {}
        """Entries of the index that are not among ``_entries`` yet, by offset."""
        self._named_bytes = 0

    def entries(self, past: int) -> list[Entry]:
        """Return where the batches before an offset are; damaged ones are left out.

        ``past`` is where the segment ends or how far it is safe. Later entries
        than that may follow.
        """
        if self._reached < past:
            self._read_index()
            self._extend(past)
        return self._entries

    @property
    def _reached(self) -> int:
        return self._entries[-1].past if self._entries else self.first

    def _read_index(self) -> None:
        found, self._named_bytes = load_entries(self._index, self._named_bytes)
        self._named.update((entry.first, entry) for entry in found if entry.rows > 0)

    def _extend(self, past: int) -> None:
        try:
            handle = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return  # retention took the segment
        try:
            size = os.fstat(handle).st_size
            while self._reached < past:
                entry = self._named.pop(self._reached, None) or self._find(handle, size)
                if entry is None:
                    break
                self._entries.append(entry)
        finally:
            os.close(handle)

    def _find(self, handle: int, size: int) -> Entry | None:
        """Return the next batch by its seal, or else the next that the index names."""
        position: int | None
        if self._entries:
            position = self._entries[-1].end
        else:
            header = find_batch(handle, 0)
            position = None if header is None or header.rows else header.end
        entry = None if position is None else find_batch(handle, position)
        if entry is not None and entry.rows and entry.first == self._reached and entry.end <= size:
            return entry
        later = [first for first in self._named if first > self._reached]
        return self._named.pop(min(later)) if later else None

    def read(self, entry: Entry) -> pa.RecordBatch:
        """Return a batch; raises DamagedSegmentError, OtherVersionError, OffsetsLostError."""
        data = self._mapped(entry)
        part = data.slice(entry.start, entry.end - entry.start)
        if not is_intact(memoryview(part), entry):
            raise self.problem(entry.first, entry.past, "bytes have changed")
        try:
            return pa.ipc.read_record_batch(pa.ipc.read_message(part), COLUMNS)
        except (pa.ArrowInvalid, OSError) as error:
            raise DamagedSegmentError(self.path, entry.first, entry.past, str(error)) from None

    def lost(self, first: int, end: int) -> RecorderError:
        """Return why the batches before ``end`` are not found in this segment."""
        reached = max((one.end for one in self._entries if one.past <= first), default=-1)
        try:
            is_whole = self.path.stat().st_size == reached
        except FileNotFoundError:
            is_whole = True
        if is_whole:  # then what should follow is in a file that is not there
            return OffsetsLostError(self._group, first, end, NOT_THERE)
        return self.problem(first, end, "a batch is missing")

    def problem(self, first: int, end: int, what: str) -> DamagedSegmentError | OtherVersionError:
        """Return why offsets of this segment cannot be read."""
        try:
            with pa.memory_map(str(self.path)) as file:
                data = file.read_buffer()
            schema = pa.ipc.read_schema(pa.ipc.read_message(data))
        except (pa.ArrowException, OSError, EOFError):
            return DamagedSegmentError(self.path, first, end, what)
        version = (schema.metadata or {}).get(VERSION_KEY, b"").decode("utf-8", "replace")
        # The first version had no seals; a header of a later one must be intact to be believed.
        is_believed = version == "1" or is_sealed(memoryview(data))
        if version != VERSION and is_believed:
            return OtherVersionError(self.path, version, VERSION)
        return DamagedSegmentError(self.path, first, end, what)

    def _mapped(self, entry: Entry) -> pa.Buffer:
        if self._map is None or self._map.size < entry.end:
            try:
                with pa.memory_map(str(self.path)) as file:
                    mapped = file.read_buffer()
            except FileNotFoundError:
                why = "the segment was removed"
                raise OffsetsLostError(self._group, entry.first, entry.past, why) from None
            except OSError as error:  # an empty file cannot be mapped
                raise DamagedSegmentError(
                    self.path, entry.first, entry.past, error.strerror or str(error)
                ) from None
            if mapped.size < entry.end:
                raise self.problem(entry.first, entry.past, "the file is cut off")
            self._map = mapped
        elif self._is_cut_off(entry):
            # Bytes of a mapped file that are not there any more end the process.
            raise self.problem(entry.first, entry.past, "the file is cut off")
        return self._map

    def _is_cut_off(self, entry: Entry) -> bool:
        try:
            return self.path.stat().st_size < entry.end
        except FileNotFoundError:
            return False  # retention took it: what is mapped stays
