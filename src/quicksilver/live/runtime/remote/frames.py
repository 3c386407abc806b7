"""What two processes say to each other: a length of four bytes, then MessagePack.

    joining     Hello(token, type) →
    publishing  ← Welcome(type), or Refused(reason)
    joining     Ready() →                   both have seen that the types match
    publishing  ← Ready()                   and its endpoint is connected
    both        Event(name, value) ...      an empty frame says "still here"
    both        Bye(reason)

A frame longer than allowed is never read: the connection ends. A frame that is no
message, in a connection that is open, is counted and dropped.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeAlias

import msgspec

from quicksilver.live.runtime.remote.errors import FrameError

VERSION: Final = 1
FRAME_BYTES_MAX: Final = 4 << 20
REASON_CHARACTERS_MAX: Final = 500
_LENGTH = struct.Struct(">I")


class Hello(msgspec.Struct, frozen=True, tag="hello", tag_field="kind", array_like=True):
    """Somebody wants to connect an endpoint of this type to the one that has the token."""

    version: int
    token: str
    type: bytes


class Welcome(msgspec.Struct, frozen=True, tag="welcome", tag_field="kind", array_like=True):
    """The published endpoint is of this type, and matches."""

    type: bytes


class Ready(msgspec.Struct, frozen=True, tag="ready", tag_field="kind", array_like=True):
    """This side finds that they match; said by both, events may pass."""


class Refused(msgspec.Struct, frozen=True, tag="refused", tag_field="kind", array_like=True):
    """No, and why."""

    reason: str


class Event(msgspec.Struct, frozen=True, tag="event", tag_field="kind", array_like=True):
    """An event of the endpoint, from the side that says it."""

    name: str
    value: Any = None


class Bye(msgspec.Struct, frozen=True, tag="bye", tag_field="kind", array_like=True):
    """The connection ends here."""

    reason: str


Frame: TypeAlias = Hello | Welcome | Ready | Refused | Event | Bye

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)

IDLE: Final = _LENGTH.pack(0)
"""The empty frame."""


def encode(frame: Frame) -> bytes:
    """Return a frame with its length before it; raises FrameError if it cannot be."""
    try:
        body = _encoder.encode(frame)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise FrameError(f"cannot be sent: {error}") from None
    if len(body) > FRAME_BYTES_MAX:
        raise FrameError(f"{len(body)} bytes are over the limit of {FRAME_BYTES_MAX}")
    return _LENGTH.pack(len(body)) + body


def parse_length(header: bytes) -> int:
    """Return how long a frame is; raises FrameError if that is too long."""
    length: int = _LENGTH.unpack(header)[0]
    if length > FRAME_BYTES_MAX:
        raise FrameError(f"a frame of {length} bytes is over the limit of {FRAME_BYTES_MAX}")
    return length


def parse(body: bytes) -> Frame:
    """Read a frame; raises FrameError."""
    try:
        return _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise FrameError(f"no frame: {error}") from None


def shorten(reason: str) -> str:
    """Return a reason that fits a frame and a line."""
    return " ".join(reason.split())[:REASON_CHARACTERS_MAX]
