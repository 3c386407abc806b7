"""The file in which a log's memory is kept; see ``memory``."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec

from quicksilver.recorder.coverage import SenderRanges
from quicksilver.recorder.disk import Disk
from quicksilver.recorder.repeats import State

MEMORY = "memory"


class Memory(msgspec.Struct, frozen=True):
    """The content of the file."""

    first: int
    """Where the log begins."""
    past: int
    """Rows before this offset are counted; they are safe."""
    coverage: list[SenderRanges]
    """What was ever recorded."""
    kept: list[SenderRanges]
    """What of it is in the log."""
    repeats: State


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Memory)


def encode_memory(memory: Memory) -> bytes:
    """Return a memory as the file holds it."""
    data = _encoder.encode(memory)
    return zlib.crc32(data).to_bytes(4, "little") + data


def store_memory(disk: Disk, folder: Path, data: bytes) -> None:
    """Keep what ``encode_memory`` returned; the old file stays until the new one is safe.

    The rows that it knows must be safe: one that is known and lost is never
    recorded again.
    """
    disk.replace(folder / MEMORY, data)


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
