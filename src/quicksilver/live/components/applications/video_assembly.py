"""Frames in parts, and parts put together again.

A frame that lacks a part when a later one is whole will not be shown any more: it
is given up. What may be held is bounded in sources, frames and bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from quicksilver.live.components.applications.codec import BadMessageError

FRAME_BYTES_MAX: Final = 2 << 20
PART_BYTES_MIN: Final = 64
PART_BYTES_MAX: Final = 60_000
SOURCES_MAX: Final = 16
FRAMES_HELD_MAX: Final = 4
"""Frames of one source that may wait for parts."""


class Part(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A part of a frame; a frame sent whole has one."""

    source: int
    sequence: int
    index: int
    count: int
    data: bytes


class Frame(msgspec.Struct, frozen=True):
    """A frame that is whole, and how many before it will never be."""

    source: int
    sequence: int
    data: bytes
    lost: int


def split(source: int, sequence: int, data: bytes, part_bytes: int) -> Iterator[Part]:
    """Yield the parts of a frame."""
    count = max(1, -(-len(data) // part_bytes))
    for index in range(count):
        piece = data[index * part_bytes : (index + 1) * part_bytes]
        yield Part(source, sequence, index, count, piece)


class _Frame:
    __slots__ = ("bytes", "count", "parts")

    def __init__(self, count: int) -> None:
        self.count = count
        self.parts: dict[int, bytes] = {}
        self.bytes = 0


class _Source:
    __slots__ = ("frames", "shown")

    def __init__(self) -> None:
        self.shown = 0
        """The last frame that was whole."""
        self.frames: dict[int, _Frame] = {}


class Assembly:
    """Puts parts together."""

    def __init__(self) -> None:
        self._sources: dict[int, _Source] = {}
        self.late = 0
        """Parts of frames that were shown or given up before."""
        self.given_up = 0
        """Frames that were begun and never whole."""

    def add(self, part: Part) -> Frame | None:
        """Take a part; return the frame that it makes whole. Raises BadMessageError."""
        _check(part)
        source = self._sources.pop(part.source, None) or _Source()
        if len(self._sources) >= SOURCES_MAX:
            del self._sources[next(iter(self._sources))]  # silent longest
        self._sources[part.source] = source
        if part.sequence <= source.shown:
            self.late += 1
            return None
        held = source.frames.get(part.sequence)
        if held is None:
            held = self._begin(source, part)
            if held is None:
                return None
        self._put(held, part)
        if len(held.parts) < held.count:
            return None
        return self._complete(source, part, held)

    def _begin(self, source: _Source, part: Part) -> _Frame | None:
        if len(source.frames) >= FRAMES_HELD_MAX:
            oldest = min(source.frames)
            if part.sequence < oldest:
                self.late += 1
                return None
            del source.frames[oldest]
            self.given_up += 1
        held = source.frames[part.sequence] = _Frame(part.count)
        return held

    @staticmethod
    def _put(held: _Frame, part: Part) -> None:
        if part.count != held.count:
            raise BadMessageError("a part", "is of a frame of another number of parts")
        if part.index in held.parts:
            return
        if held.bytes + len(part.data) > FRAME_BYTES_MAX:
            raise BadMessageError("a frame", f"has more than {FRAME_BYTES_MAX} bytes")
        held.parts[part.index] = part.data
        held.bytes += len(part.data)

    def _complete(self, source: _Source, part: Part, held: _Frame) -> Frame:
        # Before the first frame of a source nothing was lost: one may come late to a stream.
        lost = part.sequence - source.shown - 1 if source.shown else 0
        source.shown = part.sequence
        over = [number for number in source.frames if number <= part.sequence]
        for number in over:
            del source.frames[number]
        self.given_up += len(over) - 1
        data = b"".join(held.parts[index] for index in range(held.count))
        return Frame(part.source, part.sequence, data, lost)


def _check(part: Part) -> None:
    if part.sequence <= 0 or not 0 <= part.index < part.count:
        raise BadMessageError("a part", "has numbers that make no sense")
    if part.count > -(-FRAME_BYTES_MAX // PART_BYTES_MIN):
        raise BadMessageError("a frame", "has too many parts")
