"""The index of a segment: where each of its batches lies, and what they hash to.

An entry is written after its batch is safe on disk, so what the index names can
be read. Entries have a checksum of their own: the file ends, for a reader, where
the first one does not fit.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

_FIELDS = struct.Struct("<qIqqqqI")
_SUM = struct.Struct("<I")
ENTRY_BYTES = _FIELDS.size + _SUM.size


class Entry(msgspec.Struct, frozen=True):
    """One batch of rows in a segment."""

    first: int
    """Offset of its first row."""
    rows: int
    start: int
    """Where its bytes begin in the file."""
    end: int
    earliest_us: int
    latest_us: int
    checksum: int

    @property
    def past(self) -> int:
        """The offset after its last row."""
        return self.first + self.rows


def pack_entry(entry: Entry) -> bytes:
    """Return an entry as bytes."""
    fields = _FIELDS.pack(
        entry.first,
        entry.rows,
        entry.start,
        entry.end,
        entry.earliest_us,
        entry.latest_us,
        entry.checksum,
    )
    return fields + _SUM.pack(zlib.crc32(fields))


def parse_entries(data: bytes, first: int, data_bytes: int) -> list[Entry]:
    """Return the entries up to the first that is torn, wrong, or names bytes that are not there."""
    entries: list[Entry] = []
    offset, position = first, 0
    for at in range(0, len(data) - ENTRY_BYTES + 1, ENTRY_BYTES):
        fields = data[at : at + _FIELDS.size]
        (checksum,) = _SUM.unpack_from(data, at + _FIELDS.size)
        if zlib.crc32(fields) != checksum:
            break
        entry = Entry(*_FIELDS.unpack(fields))
        is_next = entry.first == offset and entry.rows > 0 and position <= entry.start < entry.end
        if not is_next or entry.end > data_bytes:
            break
        entries.append(entry)
        offset, position = entry.past, entry.end
    return entries


def load_entries(path: Path, first: int, data_bytes: int) -> list[Entry]:
    """Return the entries of an index file; none if there is no file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return parse_entries(data, first, data_bytes)


def find_entry(entries: Sequence[Entry], offset: int) -> int:
    """Return the index of the entry that holds an offset, or of the first after it."""
    low, high = 0, len(entries)
    while low < high:
        middle = (low + high) // 2
        if entries[middle].past <= offset:
            low = middle + 1
        else:
            high = middle
    return low
