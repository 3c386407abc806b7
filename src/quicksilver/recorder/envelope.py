"""What a message may carry besides its value: a key, headers, and who published it when.

Messages of groups are plain bytes. One that is published by a job that may be
run again begins with an envelope that says which query, batch, partition and
row it is; whoever receives it drops what was there before. The mark at the
beginning tells the two apart: a plain message that happens to begin with it and
to be well-formed to its end would be taken for an envelope.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import msgspec

MARK = b"\xf5qs\x01"
_HEAD = struct.Struct("<4sB16sQIQ")
_ORIGIN = struct.Struct("<16sQIQ")
_ORIGIN_AT = _HEAD.size - _ORIGIN.size
"""An envelope's head is the mark, the flags, and the origin as it is packed."""
_SIZE = struct.Struct("<I")
_HAS_KEY, _HAS_HEADERS = 1, 2

KEY_BYTES_MAX = 1 << 20
HEADERS_BYTES_MAX = 1 << 20

Headers = list[tuple[str, bytes]]
_headers_encoder = msgspec.msgpack.Encoder()
_headers_decoder = msgspec.msgpack.Decoder(Headers)


class Origin(msgspec.Struct, frozen=True, order=True):
    """Which row of which run of which query a message is."""

    query: bytes
    """16 bytes that no other query has."""
    partition: int
    batch: int
    row: int


def pack_origin(origin: Origin) -> bytes:
    """Return an origin as the 36 bytes that a log keeps."""
    return _ORIGIN.pack(origin.query, origin.batch, origin.partition, origin.row)


def parse_origin(data: bytes) -> Origin:
    """Read what ``pack_origin`` wrote; there are 36 bytes."""
    query, batch, partition, row = _ORIGIN.unpack(data)
    return Origin(query, partition, batch, row)


class Envelope(msgspec.Struct, frozen=True):
    """A message taken apart."""

    origin: Origin
    value: bytes
    key: bytes | None = None
    headers: Headers | None = None


def as_recorded(headers: Mapping[str, str | bytes]) -> Headers | None:
    """Return a message's headers as a log keeps them: all values are bytes."""
    if not headers:
        return None
    return [
        (name, value.encode() if isinstance(value, str) else value)
        for name, value in headers.items()
    ]


def pack_envelope(
    origin: Origin, value: bytes, key: bytes | None = None, headers: Headers | None = None
) -> bytes:
    """Return a message with its envelope."""
    flags = (_HAS_KEY if key is not None else 0) | (_HAS_HEADERS if headers is not None else 0)
    head = _HEAD.pack(MARK, flags, origin.query, origin.batch, origin.partition, origin.row)
    if not flags:
        return head + value
    parts = [head]
    if key is not None:
        parts += (_SIZE.pack(len(key)), key)
    if headers is not None:
        packed = _headers_encoder.encode(headers)
        parts += (_SIZE.pack(len(packed)), packed)
    parts.append(value)
    return b"".join(parts)


def parse_envelope(message: bytes) -> Envelope | None:
    """Return a message taken apart; None if it is a plain one."""
    parts = split_envelope(message)
    if parts is None:
        return None
    origin, value, key, headers = parts
    return Envelope(parse_origin(origin), value, key, headers)


def split_envelope(message: bytes) -> tuple[bytes, bytes, bytes | None, Headers | None] | None:
    """Return a message's origin (as ``pack_origin`` has it), value, key and headers.

    None if it is a plain one. A recorder takes hundreds of thousands of these
    apart in a second: nothing is made of them here that a log does not keep.
    """
    if not message.startswith(MARK) or len(message) < _HEAD.size:
        return None
    flags = message[_ORIGIN_AT - 1]
    if flags & ~(_HAS_KEY | _HAS_HEADERS):
        return None
    origin = message[_ORIGIN_AT : _HEAD.size]
    if not flags:
        return origin, message[_HEAD.size :], None, None
    at = _HEAD.size
    key: bytes | None = None
    headers: Headers | None = None
    if flags & _HAS_KEY:
        found = _take(message, at, KEY_BYTES_MAX)
        if found is None:
            return None
        key, at = found
    if flags & _HAS_HEADERS:
        found = _take(message, at, HEADERS_BYTES_MAX)
        if found is None:
            return None
        packed, at = found
        try:
            headers = _headers_decoder.decode(packed)
        except (msgspec.MsgspecError, ValueError):
            return None
    return origin, message[at:], key, headers


def _take(message: bytes, at: int, bytes_max: int) -> tuple[bytes, int] | None:
    if len(message) - at < _SIZE.size:
        return None
    (size,) = _SIZE.unpack_from(message, at)
    at += _SIZE.size
    if size > bytes_max or len(message) - at < size:
        return None
    return message[at : at + size], at + size
