"""The index of a segment: where each of its batches lies, and what they hash to.

An index says sooner what the seals in a segment say. It is never synced: what is
missing or damaged in it is read from the segment. An entry is written after its
batch and the mark that names it are safe, so what an index names was promised.
Entries have a checksum of their own, and those that do not fit are left out.
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
    """Of the batch's head, which holds the checksum of its body: see ``seal``."""

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


def parse_entries(data: bytes) -> list[Entry]:
    """Return the entries that are whole, in order."""
    entries: list[Entry] = []
    for at in range(0, len(data) - ENTRY_BYTES + 1, ENTRY_BYTES):
        fields = data[at : at + _FIELDS.size]
        (checksum,) = _SUM.unpack_from(data, at + _FIELDS.size)
        if zlib.crc32(fields) == checksum:
            entries.append(Entry(*_FIELDS.unpack(fields)))
    return entries


def load_entries(path: Path, position: int = 0) -> tuple[list[Entry], int]:
    """Return the entries of an index from a position on, and the position after them.

    There are none if there is no file.
    """
    try:
        with path.open("rb") as file:
            file.seek(position)
            data = file.read()
    except FileNotFoundError:
        return [], 0
    return parse_entries(data), position + len(data) // ENTRY_BYTES * ENTRY_BYTES


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
