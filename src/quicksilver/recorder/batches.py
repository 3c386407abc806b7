"""Where the batches of a segment lie, and their checksums: in the index, and in the segment.

An *index* says sooner what the seals in a segment say. It is never synced: what is
missing or damaged in it is read from the segment. An entry is written after its
batch and the mark that names it are safe, so what an index names was promised.
Entries have a checksum of their own, and those that do not fit are left out.

A *seal* is the checksum of a batch inside the segment: indexes can be made anew from it.
A segment is an Arrow stream. Each of its messages has metadata of a stated length, which
may be longer than what Arrow puts there; a seal lies in the last bytes of it. So every
reader of Arrow streams reads a segment, and whoever knows seals finds in a segment alone
which batch begins where, with which offset, and whether a bit of it has changed.

The seal has two checksums: one of what lies before the body, itself included,
and one of the body, which the first one covers. So batches are found one after
the other without reading bodies. An index entry holds the first checksum.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa


_SUM = struct.Struct("<I")

_FIELDS = struct.Struct("<qIqqqqI")
ENTRY_BYTES: Final = _FIELDS.size + _SUM.size

_PREFIX = struct.Struct("<II")
_CONTINUES: Final = 0xFFFFFFFF
_SEAL = struct.Struct("<8sqqqqIII")
SEAL_BYTES: Final = _SEAL.size + _SUM.size
assert SEAL_BYTES % 8 == 0, "Arrow's metadata is a multiple of eight bytes long"
MARK: Final = b"qsbatch2"
HEAD_BYTES_MAX: Final = 1 << 20


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


# Seals


class Sealed(msgspec.Struct, frozen=True):
    """A message of a segment, ready to be written."""

    head: bytes
    body: memoryview
    checksum: int
    """What an index entry holds."""

    @property
    def size(self) -> int:
        """Bytes in the segment."""
        return len(self.head) + len(self.body)


def seal(
    message: pa.Buffer, *, first: int, rows: int, earliest_us: int = 0, latest_us: int = 0
) -> Sealed:
    """Put a seal into a message of an Arrow stream; a stream's header has no rows."""
    data = memoryview(message)
    _, size = _PREFIX.unpack_from(data)
    body = data[_PREFIX.size + size :]
    head = _PREFIX.pack(_CONTINUES, size + SEAL_BYTES) + data[_PREFIX.size : len(data) - len(body)]
    head += _SEAL.pack(
        MARK,
        first,
        len(data) + SEAL_BYTES,
        earliest_us,
        latest_us,
        rows,
        zlib.crc32(body),
        0,
    )
    checksum = zlib.crc32(head)
    return Sealed(head + _SUM.pack(checksum), body, checksum)


def find_batch(handle: int, position: int) -> Entry | None:
    """Return the message that begins at a position of an open file; None if no seal fits.

    Its body is not looked at, and may be cut off.
    """
    prefix = os.pread(handle, _PREFIX.size, position)
    if len(prefix) < _PREFIX.size:
        return None
    size = min(_PREFIX.unpack(prefix)[1], HEAD_BYTES_MAX)
    return parse_head(prefix + os.pread(handle, size, position + _PREFIX.size), position)


def parse_head(data: bytes | memoryview, position: int) -> Entry | None:
    """Return the message whose first bytes are given; None if no seal fits."""
    found = _parse_seal(data)
    if found is None or found.mark != MARK or found.size < found.body_at:
        return None
    end = position + found.size
    return Entry(
        found.first, found.rows, position, end, found.earliest_us, found.latest_us, found.checksum
    )


def is_sealed(data: bytes | memoryview) -> bool:
    """Whether a message has the seal of any version, and its head is intact."""
    return _parse_seal(data) is not None


def is_intact(data: memoryview, entry: Entry) -> bool:
    """Whether the bytes of a batch are those that were written for an index entry."""
    found = _parse_seal(data)
    if found is None or found.mark != MARK or found.checksum != entry.checksum:
        return False
    return zlib.crc32(data[found.body_at :]) == found.body_checksum


class _Seal(msgspec.Struct, frozen=True):
    mark: bytes
    first: int
    size: int
    """Bytes of the whole message."""
    earliest_us: int
    latest_us: int
    rows: int
    body_checksum: int
    checksum: int
    """Of what lies before it."""
    body_at: int


def _parse_seal(data: bytes | memoryview) -> _Seal | None:
    if len(data) < _PREFIX.size:
        return None
    mark, size = _PREFIX.unpack_from(data)
    body_at = _PREFIX.size + size
    if mark != _CONTINUES or not SEAL_BYTES <= size <= HEAD_BYTES_MAX or body_at > len(data):
        return None
    (checksum,) = _SUM.unpack_from(data, body_at - _SUM.size)
    if zlib.crc32(data[: body_at - _SUM.size]) != checksum:
        return None
    kind, first, total, earliest_us, latest_us, rows, body_checksum, _ = _SEAL.unpack_from(
        data, body_at - SEAL_BYTES
    )
    return _Seal(kind, first, total, earliest_us, latest_us, rows, body_checksum, checksum, body_at)
