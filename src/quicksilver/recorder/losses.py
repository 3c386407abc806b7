"""Offsets that a repair gave up: a recorder goes on without them.

Readers who must have every row are still told that these are gone; the file says
only that whoever runs the recorder knows of it.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec

from quicksilver.recorder.disk import Disk
from quicksilver.stdx.ranges import RangeSet, parse_flat

LOSSES_FILE = "losses"
RANGES_MAX = 1_000_000
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[list[int]] = msgspec.msgpack.Decoder(list[int])


def store_losses(disk: Disk, folder: Path, losses: RangeSet) -> None:
    """Keep which offsets were given up."""
    data = _encoder.encode(losses.to_flat())
    disk.replace(folder / LOSSES_FILE, zlib.crc32(data).to_bytes(4, "little") + data)


def load_losses(folder: Path) -> RangeSet:
    """Return the offsets that were given up; none if the file is missing or damaged.

    Then the damage counts as new, and a recorder refuses it again.
    """
    try:
        data = (folder / LOSSES_FILE).read_bytes()
    except FileNotFoundError:
        return RangeSet()
    if len(data) < 4 or zlib.crc32(data[4:]) != int.from_bytes(data[:4], "little"):
        return RangeSet()
    try:
        return parse_flat(_decoder.decode(data[4:]), RANGES_MAX) or RangeSet()
    except msgspec.MsgspecError:
        return RangeSet()
