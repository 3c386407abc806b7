"""The small files beside a log's segments: its mark, its memory and its losses.

The *mark* says how far the log is safe; it is written before anybody is told. The
file has two places, each a block of its own, which are written in turns: a
write that is torn leaves the other one whole. A mark names the first offset of
the log and the one after the last that is safe. Rows are on disk before the mark
that names them, so whatever lies before the mark and cannot be read was damaged
later, and whatever lies after it was never promised.

The *memory* is what a recorder knows of rows without reading them; see ``memory``.

The *losses* are offsets that a repair gave up: a recorder goes on without them.
Readers who must have every row are still told that these are gone; the file says
only that whoever runs the recorder knows of it.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import msgspec

from quicksilver.recorder.coverage import SenderRanges
from quicksilver.recorder.disk import Disk
from quicksilver.recorder.repeats import State
from quicksilver.stdx.ranges import RangeSet, parse_flat

T = TypeVar("T")

MARK_FILE: Final = "mark"
MEMORY_FILE: Final = "memory"
LOSSES_FILE: Final = "losses"
LOST_RANGES_MAX: Final = 1_000_000
_FIELDS = struct.Struct("<8sqqq")
_SUM = struct.Struct("<I")
_KIND: Final = b"qsmark02"
_PLACE_BYTES: Final = 4096
_TRIES: Final = 3


class Mark(msgspec.Struct, frozen=True):
    """Which offsets of a log are safely on disk."""

    first: int
    """Where the log begins: what lies before was taken by retention."""
    past: int
    """The offset after the last that is safe."""
    serial: int = 0
    """Marks are counted; the larger one counts."""
    is_whole: bool = True
    """False: one of the two places is damaged, and might have been the newer one."""


class MarkFile:
    """The mark of a log, for its one writer."""

    def __init__(self, disk: Disk, folder: Path, mark: Mark) -> None:
        """Begin with a mark; the file is made anew if it is missing or damaged."""
        self._disk = disk
        self._mark = mark
        path = folder / MARK_FILE
        found = load_mark(folder)
        if found is None or not found.is_whole:
            serial = mark.serial + mark.serial % 2
            places = (_pack(mark.first, mark.past, one) for one in (serial, serial + 1))
            disk.replace(path, b"".join(one.ljust(_PLACE_BYTES, b"\0") for one in places))
            found = self._mark = Mark(mark.first, mark.past, serial + 1)
        self._file: BinaryIO = disk.open(path)
        if (found.first, found.past) != (mark.first, mark.past):
            try:
                self.store(mark.first, mark.past)
            except BaseException:
                self.close()
                raise

    @property
    def first(self) -> int:
        """Where the log begins."""
        return self._mark.first

    def store(self, first: int, past: int) -> None:
        """Have a mark safe on disk; what it names must be safe before."""
        serial = self._mark.serial + 1
        place = (serial % 2) * _PLACE_BYTES
        self._disk.write_at(self._file, place, _pack(first, past, serial))
        self._disk.sync(self._file)
        self._mark = Mark(first, past, serial)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def load_mark(folder: Path) -> Mark | None:
    """Return the newest mark of a log; None if there is none that can be read.

    A place may be just being written: it is read again before it counts as damaged.
    """
    found: list[Mark] = []
    for _ in range(_TRIES):
        try:
            data = (folder / MARK_FILE).read_bytes()
        except FileNotFoundError:
            return None
        places = (_parse(data[:_PLACE_BYTES]), _parse(data[_PLACE_BYTES:]))
        found = [one for one in places if one is not None]
        if len(found) == len(places):
            break
    if not found:
        return None
    newest = max(found, key=lambda one: one.serial)
    return newest if len(found) == 2 else Mark(newest.first, newest.past, newest.serial, False)


def _pack(first: int, past: int, serial: int) -> bytes:
    fields = _FIELDS.pack(_KIND, serial, first, past)
    return fields + _SUM.pack(zlib.crc32(fields))


def _parse(data: bytes) -> Mark | None:
    if len(data) < _FIELDS.size + _SUM.size:
        return None
    (checksum,) = _SUM.unpack_from(data, _FIELDS.size)
    if zlib.crc32(data[: _FIELDS.size]) != checksum:
        return None
    kind, serial, first, past = _FIELDS.unpack_from(data)
    return Mark(first, past, serial) if kind == _KIND else None


class Memory(msgspec.Struct, frozen=True):
    """The content of the memory file."""

    first: int
    """Where the log begins."""
    past: int
    """Rows before this offset are counted; they are safe."""
    coverage: list[SenderRanges]
    """What was ever recorded."""
    kept: list[SenderRanges]
    """What of it is in the log."""
    repeats: State


def encode_memory(memory: Memory) -> bytes:
    """Return a memory as the file holds it."""
    return _with_checksum(memory)


def store_memory(disk: Disk, folder: Path, data: bytes) -> None:
    """Keep what ``encode_memory`` returned; the old file stays until the new one is safe.

    The rows that it knows must be safe: one that is known and lost is never
    recorded again.
    """
    disk.replace(folder / MEMORY_FILE, data)


def load_memory(folder: Path) -> Memory | None:
    """Return what was kept; None if there is no file or it is damaged."""
    return _load(folder / MEMORY_FILE, _memory_decoder)


def store_losses(disk: Disk, folder: Path, losses: RangeSet) -> None:
    """Keep which offsets were given up."""
    disk.replace(folder / LOSSES_FILE, _with_checksum(losses.to_flat()))


def load_losses(folder: Path) -> RangeSet:
    """Return the offsets that were given up; none if the file is missing or damaged.

    Then the damage counts as new, and a recorder refuses it again.
    """
    found = _load(folder / LOSSES_FILE, _losses_decoder)
    return (parse_flat(found, LOST_RANGES_MAX) if found else None) or RangeSet()


_encoder = msgspec.msgpack.Encoder()
_memory_decoder = msgspec.msgpack.Decoder(Memory)
_losses_decoder: msgspec.msgpack.Decoder[list[int]] = msgspec.msgpack.Decoder(list[int])


def _with_checksum(content: Memory | list[int]) -> bytes:
    data = _encoder.encode(content)
    return _SUM.pack(zlib.crc32(data)) + data


def _load(path: Path, decoder: msgspec.msgpack.Decoder[T]) -> T | None:
    """Return what follows a file's checksum; None if there is no file or it is damaged."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < _SUM.size or zlib.crc32(data[_SUM.size :]) != _SUM.unpack_from(data)[0]:
        return None
    try:
        return decoder.decode(data[_SUM.size :])
    except msgspec.MsgspecError:
        return None
