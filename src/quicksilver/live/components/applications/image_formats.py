"""Pictures as bytes: which format they are in and how large they are, by their first bytes.

Nothing is decoded: a header is read, within bounds, and whoever shows the
picture decodes it.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from quicksilver.live.components.applications.codec import BadMessageError

SIDE_MAX: Final = 16_384
"""Pixels of a side; a picture of more is more likely an attack than a picture."""

Format: TypeAlias = Literal["png", "jpeg", "gif", "bmp"]

_JPEG_SEGMENTS_MAX = 1000
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class Picture(msgspec.Struct, frozen=True):
    """What the first bytes of a picture say."""

    format: Format
    width: int
    height: int


def read_picture(data: bytes) -> Picture:
    """Return format and size; raises BadMessageError."""
    picture = _read(data)
    if picture is None:
        raise BadMessageError("the image", "is neither PNG, JPEG, GIF nor BMP, or is cut short")
    if not (0 < picture.width <= SIDE_MAX and 0 < picture.height <= SIDE_MAX):
        size = f"{picture.width} by {picture.height}"
        raise BadMessageError("the image", f"is {size} pixels; sides are from 1 to {SIDE_MAX}")
    return picture


def _read(data: bytes) -> Picture | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR" and len(data) >= 33:
        return Picture("png", _big(data, 16, 4), _big(data, 20, 4))
    if data[:6] in {b"GIF87a", b"GIF89a"} and len(data) >= 13:
        return Picture("gif", _little(data, 6, 2), _little(data, 8, 2))
    if data.startswith(b"BM") and len(data) >= 54 and _little(data, 14, 4) >= 40:
        height = int.from_bytes(data[22:26], "little", signed=True)
        return Picture("bmp", _little(data, 18, 4), abs(height))
    if data.startswith(b"\xff\xd8\xff"):
        return _read_jpeg(data)
    return None


def _read_jpeg(data: bytes) -> Picture | None:
    """Go from segment to segment until one says the size."""
    at = 2
    for _ in range(_JPEG_SEGMENTS_MAX):
        while at < len(data) and data[at] == 0xFF and data[at + 1 : at + 2] == b"\xff":
            at += 1  # bytes that fill
        if at + 9 > len(data) or data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker in _JPEG_FRAMES:
            return Picture("jpeg", _big(data, at + 7, 2), _big(data, at + 5, 2))
        length = _big(data, at + 2, 2)
        if length < 2:
            return None
        at += 2 + length
    return None


def _big(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "big")


def _little(data: bytes, start: int, size: int) -> int:
    return int.from_bytes(data[start : start + size], "little")
