"""A picture that many people look at and draw into.

The state is a picture, and smaller ones that were laid over it, in order. A region
that covers another whole replaces it, and one that covers everything becomes the
picture, so the state does not grow with the number of strokes at one place.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal, Protocol, TypeAlias

import msgspec

from quicksilver.live.codec import (
    STATE_BYTES_MAX,
    BadMessageError,
    Codec,
    Packed,
)
from quicksilver.live.components.interfaces import CheckpointedChannel
from quicksilver.live.components.shared_object import SharedObject
from quicksilver.live.runtime.components import component
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

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


IMAGE_BYTES_MAX: Final = 4 << 20
REGIONS_BYTES_MAX: Final = 4 << 20
REGIONS_MAX: Final = 1000


class ImageRequests(Protocol):
    """Events that users send to a shared image; pictures are PNG, JPEG, GIF or BMP.."""

    def replace(self, data: bytes) -> None:
        """Show another picture, without regions."""

    def draw(self, x: int, y: int, data: bytes) -> None:
        """Lay a picture over part of the one that is there; it must lie within."""

    def clear(self) -> None:
        """Show nothing."""


class ImageChanges(Protocol):
    """Events that a shared image sends to its users."""

    def shown(self, format: str, width: int, height: int, data: bytes) -> None:  # noqa: A002
        """Show a picture; regions that lie over it follow."""

    def drawn(self, x: int, y: int, width: int, height: int, data: bytes) -> None:
        """Lay a picture over part of the one that is there."""

    def cleared(self) -> None:
        """Show nothing."""

    def refused(self, reason: str) -> None:
        """Hear that a request was not carried out."""


class Replaced(Packed, frozen=True, tag="replace"):
    """Another picture."""

    data: bytes


class Drawn(Packed, frozen=True, tag="draw"):
    """A picture over part of the one that is there."""

    x: int
    y: int
    data: bytes


class Cleared(Packed, frozen=True, tag="clear"):
    """No picture."""


Update: TypeAlias = Replaced | Drawn | Cleared


class Drawing(Packed, frozen=True):
    """The state."""

    data: bytes
    regions: list[Drawn]


class _Region(msgspec.Struct, frozen=True):
    drawn: Drawn
    width: int
    height: int

    def covers(self, other: _Region) -> bool:
        """Whether nothing of the other can be seen; pictures that let see through do not count."""
        mine, theirs = self.drawn, other.drawn
        return (
            mine.x <= theirs.x
            and mine.y <= theirs.y
            and mine.x + self.width >= theirs.x + other.width
            and mine.y + self.height >= theirs.y + other.height
        )


@component("quicksilver.image", type_name="Image")
@live_object(title="Image")
class Image(SharedObject[Update, Drawing]):
    """a picture that many people look at and draw into

    PNG, JPEG, GIF or BMP of at most 4 MiB, and at most 1,000 regions of 4 MiB together.
    Regions are opaque: what a new one covers whole is forgotten.
    """

    updates: ClassVar = Codec[Update](Update, "the image", IMAGE_BYTES_MAX + 64)
    states: ClassVar = Codec[Drawing](Drawing, "a picture", STATE_BYTES_MAX)

    image = endpoint(
        ImageRequests,
        ImageChanges,
        provides=[("delivery", "total"), ("temporal", "drawn -> (not cleared) since shown")],
        name="Image",
    )

    def __init__(self, channel: Given[Ref[CheckpointedChannel]]) -> None:
        super().__init__(channel)
        self._whole: _Region | None = None
        self._regions: list[_Region] = []

    # The user

    def image_replace(self, data: bytes) -> None:
        """Show everybody another picture."""
        self._check_and_submit(Replaced(data))

    def image_draw(self, x: int, y: int, data: bytes) -> None:
        """Lay a picture over everybody's."""
        self._check_and_submit(Drawn(x, y, data))

    def image_clear(self) -> None:
        """Show everybody nothing."""
        self.submit(Cleared())

    def image_connected(self) -> None:
        """Begin with what is there."""
        if self.is_ready:
            self.announce()

    def _check_and_submit(self, update: Replaced | Drawn) -> None:
        try:
            read_picture(update.data)
        except BadMessageError as error:
            self.refuse(str(error))
            return
        self.submit(update)

    # The state

    def load(self, state: Drawing | None) -> None:
        self._whole, self._regions = None, []
        if state is not None and state.data:
            self._whole = _region(Drawn(0, 0, state.data))
            for drawn in state.regions:
                self._draw(drawn)

    def save(self) -> Drawing:
        """Return the picture and what lies over it."""
        data = b"" if self._whole is None else self._whole.drawn.data
        return Drawing(data, [region.drawn for region in self._regions])

    def apply(self, update: Update) -> None:
        match update:
            case Replaced(data):
                self._whole = _region(Drawn(0, 0, data))
                self._regions.clear()
                self._say_whole(self._whole)
            case Drawn():
                region = self._draw(update)
                self._say(region)
            case Cleared():
                self._whole = None
                self._regions.clear()
                self.image.cleared()

    def _draw(self, drawn: Drawn) -> _Region:
        region = _region(drawn)
        whole = self._whole
        if whole is None or not whole.covers(region):
            raise BadMessageError("a region", "lies outside the picture")
        kept = [one for one in self._regions if not region.covers(one)]
        if region.covers(whole):
            self._whole = region
        else:
            kept.append(region)
        if len(kept) > REGIONS_MAX or _bytes_of(kept) > REGIONS_BYTES_MAX:
            raise BadMessageError("the picture", "has too many regions; replace it")
        self._regions = kept
        return region

    def announce(self) -> None:
        if self._whole is None:
            self.image.cleared()
            return
        self._say_whole(self._whole)
        for region in list(self._regions):
            self._say(region)

    def refuse(self, reason: str) -> None:
        self.image.refused(reason)

    def _say_whole(self, whole: _Region) -> None:
        picture = read_picture(whole.drawn.data)
        self.image.shown(picture.format, picture.width, picture.height, whole.drawn.data)

    def _say(self, region: _Region) -> None:
        drawn = region.drawn
        self.image.drawn(drawn.x, drawn.y, region.width, region.height, drawn.data)


def _region(drawn: Drawn) -> _Region:
    picture = read_picture(drawn.data)
    return _Region(drawn, picture.width, picture.height)


def _bytes_of(regions: list[_Region]) -> int:
    return sum(len(region.drawn.data) for region in regions)
