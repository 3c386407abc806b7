"""The shared image: formats by their first bytes, regions, limits."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.live.codec import BadMessageError
from quicksilver.live.components.applications.image import Picture, read_picture
from quicksilver.live.references.builder import primitive
from tests.live.applications.desk import Desk, User

IMAGE = primitive("quicksilver.image", channel=primitive("test.checkpointed", group="i"))


def png(width: int, height: int, shade: int = 0) -> bytes:
    """A grey PNG, whole and sound."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    rows = (b"\0" + bytes([shade]) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000") + bytes.fromhex(
    "ffc0001108000a001403012200021101031101"
)
GIF = b"GIF89a" + struct.pack("<HH", 7, 9) + b"\0\0\0;"
BMP = b"BM" + bytes(12) + struct.pack("<IiiHH", 40, 5, -6, 1, 24) + bytes(24)


@pytest.mark.parametrize(
    ("data", "picture"),
    [
        (png(3, 4), Picture("png", 3, 4)),
        (JPEG, Picture("jpeg", 20, 10)),
        (GIF, Picture("gif", 7, 9)),
        (BMP, Picture("bmp", 5, 6)),
    ],
)
def test_format_and_size_are_read(data: bytes, picture: Picture) -> None:
    assert read_picture(data) == picture


@pytest.mark.parametrize(
    "data", [b"", b"<svg/>", png(3, 4)[:20], JPEG[:25], GIF[:8], png(0, 4), png(20_000, 1)]
)
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(BadMessageError):
        read_picture(data)


@given(st.sampled_from([b"\xff\xd8\xff", b"BM", b"GIF89a", b"\x89PNG\r\n\x1a\n"]), st.binary())
def test_any_bytes_are_read_or_refused(start: bytes, rest: bytes) -> None:
    try:
        read_picture(start + rest)
    except BadMessageError:
        pass


def look(user: User) -> list[tuple[int, int, int, int]]:
    """The regions that a user sees: the picture first."""
    seen: list[tuple[int, int, int, int]] = []
    for event, *values in user.seen:
        match event:
            case "shown":
                seen = [(0, 0, values[1], values[2])]
            case "drawn":
                seen.append((values[0], values[1], values[2], values[3]))
            case "cleared":
                seen = []
    return seen


def test_everybody_sees_the_picture_and_what_is_drawn_into_it() -> None:
    desk = Desk()
    users = [desk.join(IMAGE, "Image") for _ in range(2)]
    desk.run()
    users[0].port.replace(png(100, 100))
    users[1].port.draw(10, 10, png(20, 20))
    users[0].port.draw(50, 50, png(5, 5))
    users[1].port.draw(5, 5, png(40, 40))
    desk.run()
    late = desk.join(IMAGE, "Image")
    desk.run()
    assert look(users[0]) == look(users[1])
    # The first region is covered whole by the last: a late comer need not have it.
    assert look(late) == [(0, 0, 100, 100), (50, 50, 5, 5), (5, 5, 40, 40)]
    assert late.got("shown")[0][3] == png(100, 100)


def test_a_region_over_everything_becomes_the_picture() -> None:
    desk = Desk()
    user = desk.join(IMAGE, "Image")
    desk.run()
    user.port.replace(png(10, 10))
    user.port.draw(1, 1, png(2, 2))
    user.port.draw(0, 0, png(10, 10, 200))
    desk.run()
    state = user.component.save()
    assert state.data == png(10, 10, 200)
    assert state.regions == []
    user.port.clear()
    desk.run()
    assert user.component.save().data == b""


def test_what_lies_outside_or_is_no_picture_or_too_large_changes_nothing() -> None:
    desk = Desk()
    user = desk.join(IMAGE, "Image")
    desk.run()
    user.port.draw(0, 0, png(2, 2))
    user.port.replace(png(10, 10))
    user.port.draw(9, 9, png(2, 2))
    user.port.draw(-1, 0, png(2, 2))
    user.port.replace(b"not a picture")
    user.port.replace(png(10, 10) + bytes(5 << 20))
    desk.run()
    assert look(user) == [(0, 0, 10, 10)]
    assert user.component.bad_updates == 3
    assert len(user.got("refused")) == 2


def test_regions_have_a_limit_for_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quicksilver.live.components.applications.image.REGIONS_MAX", 3)
    desk = Desk()
    users = [desk.join(IMAGE, "Image") for _ in range(2)]
    desk.run()
    users[0].port.replace(png(100, 100))
    for x in range(5):
        users[0].port.draw(10 * x, 0, png(3, 3))
    desk.run()
    assert [len(user.component.save().regions) for user in users] == [3, 3]
    assert [user.component.bad_updates for user in users] == [2, 2]
