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
from quicksilver.recorder.reading import LogReader
from quicksilver.recorder.repeats import Repeats, State
from quicksilver.recorder.writing import sync_folder

MEMORY = "memory"


class Memory(msgspec.Struct, frozen=True):
    """The content of the file."""

    past: int
    """Rows before this offset are counted."""
    coverage: list[SenderRanges]
    repeats: State


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Memory)


def encode_memory(past: int, coverage: Coverage, repeats: Repeats) -> bytes:
    """Return what is known of the rows before an offset."""
    data = _encoder.encode(Memory(past, coverage.state(), repeats.state()))
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


def load_memory(folder: Path) -> tuple[int, Coverage, Repeats]:
    """Return what was kept; nothing, if there is no file or it is damaged."""
    repeats = Repeats()
    try:
        data = (folder / MEMORY).read_bytes()
    except FileNotFoundError:
        return 0, Coverage(), repeats
    if len(data) < 4 or zlib.crc32(data[4:]) != int.from_bytes(data[:4], "little"):
        return 0, Coverage(), repeats
    try:
        kept = _decoder.decode(data[4:])
    except msgspec.MsgspecError:
        return 0, Coverage(), repeats
    coverage = Coverage.parse(kept.coverage)
    if coverage is None:
        return 0, Coverage(), repeats
    repeats.restore(kept.repeats)
    return kept.past, coverage, repeats


def restore(log: LogReader) -> tuple[Coverage, Repeats, int]:
    """Return coverage and repeats of a log, and how many rows could not be read."""
    past, coverage, repeats = load_memory(log.folder)
    first, end = log.bounds()
    if past > end:
        # The file knows rows that the log lost: they may come again, so they are not counted.
        past, coverage, repeats = 0, Coverage(), Repeats()
    start = max(first, past)
    read = 0
    for batch in log.read(start, end, strict=False):
        coverage.add_columns(
            batch.column("cluster"), batch.column("sender"), batch.column("sequence")
        )
        repeats.add_column(batch.column("origin"))
        read += batch.num_rows
    return coverage, repeats, max(0, end - start) - read
