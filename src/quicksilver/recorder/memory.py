"""What a log remembers besides its rows: what it held before retention took it.

Coverage and repeats are read from the segments when a log is opened. What was
removed is kept in a small file, so that it is neither fetched again from another
recorder nor taken for new; the file also says up to which offset it counts, so
that opening reads only what came later.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import msgspec

from quicksilver.recorder.coverage import Coverage, SenderRanges
from quicksilver.recorder.reader import LogReader
from quicksilver.recorder.repeats import Repeats, State
from quicksilver.recorder.writer import sync_folder

MEMORY = "memory"


class Memory(msgspec.Struct, frozen=True):
    """The content of the file."""

    first: int
    """Where the log begins."""
    past: int
    """Rows before this offset are counted."""
    coverage: list[SenderRanges]
    """What was ever recorded."""
    kept: list[SenderRanges]
    """What of it is in the log."""
    repeats: State


class Known:
    """What a recorder knows of a log without reading it."""

    def __init__(self) -> None:
        self.coverage = Coverage()
        """What was ever recorded, and must not be again."""
        self.kept = Coverage()
        """What of it can be read."""
        self.repeats = Repeats()
        self.unreadable = 0
        """Rows whose batches are damaged: they may come again."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Memory)


def encode_memory(known: Known, first: int, past: int) -> bytes:
    """Return what is known of a log's rows from one offset to another."""
    coverage, kept = known.coverage.state(), known.kept.state()
    data = _encoder.encode(Memory(first, past, coverage, kept, known.repeats.state()))
    return zlib.crc32(data).to_bytes(4, "little") + data


def store_memory(folder: Path, data: bytes) -> None:
    """Keep what ``encode_memory`` returned; the old file stays until the new one is safe.

    The rows that it knows must be safe: one that is known and lost is never
    recorded again.
    """
    fresh = folder / f"{MEMORY}.new"
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / MEMORY)
    sync_folder(folder)


def load_memory(folder: Path) -> Memory | None:
    """Return what was kept; None if there is no file or it is damaged."""
    try:
        data = (folder / MEMORY).read_bytes()
    except FileNotFoundError:
        return None
    if len(data) < 4 or zlib.crc32(data[4:]) != int.from_bytes(data[:4], "little"):
        return None
    try:
        return _decoder.decode(data[4:])
    except msgspec.MsgspecError:
        return None


def restore(log: LogReader) -> Known:
    """Return what is known of a log: from its memory file, and from the rows since."""
    first, end = log.bounds()
    known = Known()
    memory = load_memory(log.folder)
    start = first
    # A memory of rows that the log lost is not believed: they may come again.
    if memory is not None and memory.past <= end:
        coverage, kept = Coverage.parse(memory.coverage), Coverage.parse(memory.kept)
        if coverage is not None and kept is not None:
            known.coverage = coverage
            known.repeats.restore(memory.repeats)
            if memory.first >= first:
                known.kept = kept
                start = max(start, memory.past)
    read = 0
    for batch in log.read(start, end, strict=False):
        columns = (batch.column("cluster"), batch.column("sender"), batch.column("sequence"))
        known.coverage.add_columns(*columns)
        known.kept.add_columns(*columns)
        known.repeats.add_column(batch.column("origin"))
        read += batch.num_rows
    known.unreadable = max(0, end - start) - read
    return known
