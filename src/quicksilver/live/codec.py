"""Values as bytes: MessagePack of declared types, bounded, and checked on arrival.

All that live objects send to each other, or keep on disk, goes through a ``Codec``.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

import msgspec

from quicksilver.stdx.errors import QuicksilverError

T = TypeVar("T")

DEPTH_MAX: Final = 16
"""Lists and mappings inside each other, in a value that an application chooses."""

UPDATE_BYTES_MAX: Final = 64 << 10
"""An update, unless its object says otherwise."""

STATE_BYTES_MAX: Final = 15 << 20
"""A state; a message of the engine holds 16 MiB."""


class BadMessageError(QuicksilverError, ValueError):
    """Bytes, or a value, that cannot be an update or a state of an object."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(what, problem)
        self.what = what
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.what} {self.problem}"


class Packed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base of structs that go through a codec: arrays without names, with no fields to spare."""


class Codec(Generic[T]):
    """Encodes and decodes values of one type; either raises BadMessageError."""

    def __init__(self, type_: Any, what: str, bytes_max: int) -> None:
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(type_)
        self._encoder = msgspec.msgpack.Encoder()
        self._what = what
        self.bytes_max = bytes_max

    def encode(self, value: T) -> bytes:
        """Return the bytes of a value."""
        try:
            data = self._encoder.encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise BadMessageError(self._what, f"cannot be sent: {error}") from error
        if len(data) > self.bytes_max:
            raise self._size_error(data)
        return data

    def decode(self, data: bytes) -> T:
        """Return the value of the bytes that somebody sent."""
        if len(data) > self.bytes_max:
            raise self._size_error(data)
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
            raise BadMessageError(self._what, f"is malformed: {error}") from error

    def _size_error(self, data: bytes) -> BadMessageError:
        return BadMessageError(self._what, f"has {len(data)} bytes of at most {self.bytes_max}")


def check_plain(value: Any, what: str = "the value", depth: int = DEPTH_MAX) -> None:
    """Refuse whatever is not plain data; raises BadMessageError.

    Plain are nothing, truth, numbers, text, bytes, lists and mappings from text.
    """
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return
        case list() | dict() if depth == 0:
            raise BadMessageError(what, f"is more than {DEPTH_MAX} levels deep")
        case list():
            for item in value:
                check_plain(item, what, depth - 1)
        case dict():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise BadMessageError(what, f"has a key that is no text but {key!r:.40}")
                check_plain(item, what, depth - 1)
        case _:
            raise BadMessageError(what, f"is no plain data but a {type(value).__name__}")
