"""Types to JSON and back, never trusting a size or a depth.

The JSON form keeps titles, documentation and names of arguments; what is parsed
is equal to what was encoded, and encoding it again gives the same bytes.
"""

from __future__ import annotations

import re

import msgspec

from quicksilver.live.types.errors import TypeParseError
from quicksilver.live.types.model import (
    AnyType,
    Recur,
    Recursive,
    Term,
)
from quicksilver.live.types.walk import children, without_unions_of_one

TYPE_BYTES_MAX = 1 << 20
TYPE_DEPTH_MAX = 100
"""Nested brackets in the JSON form. A type inside a type costs two or three."""
TYPE_NODES_MAX = 20_000

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?')
_NOT_BRACKET = re.compile(rb"[^\[\]{}]+")
_PATH = re.compile(r"^(?P<problem>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyType] = msgspec.json.Decoder(AnyType)


def encode_type(type_: AnyType) -> bytes:
    """Write a type as JSON; equal types with equal hints give equal bytes."""
    return _encoder.encode(without_unions_of_one(type_))


def parse_type(data: bytes | str) -> AnyType:
    """Read a type from JSON, or raise TypeParseError that says where it is wrong."""
    data = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(data) > TYPE_BYTES_MAX:
        raise TypeParseError(f"{len(data)} bytes are over the limit of {TYPE_BYTES_MAX}")
    _check_depth(data)
    try:
        type_ = _decoder.decode(data)
    except msgspec.ValidationError as error:
        match = _PATH.match(str(error))
        assert match is not None
        raise TypeParseError(match["problem"], match["path"] or "") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TypeParseError(str(error)) from None
    check_closed(type_)
    return type_


def _check_depth(data: bytes) -> None:
    depth = 0
    for letter in _NOT_BRACKET.sub(b"", _STRING.sub(b"", data)):
        if letter in b"[{":
            depth += 1
            if depth > TYPE_DEPTH_MAX:
                raise TypeParseError(f"nested deeper than {TYPE_DEPTH_MAX} brackets")
        else:
            depth -= 1


def check_closed(type_: AnyType) -> None:
    """Raise TypeParseError for recursion without a binder, or for too many nodes."""
    nodes = 0
    pending: list[tuple[Term, int]] = [(type_, 0)]
    while pending:
        term, binders = pending.pop()
        nodes += 1
        if nodes > TYPE_NODES_MAX:
            raise TypeParseError(f"more than {TYPE_NODES_MAX} nodes")
        if isinstance(term, Recur) and term.index >= binders:
            raise TypeParseError(f"recursive use {term.index} has no binder around it")
        inner = binders + 1 if isinstance(term, Recursive) else binders
        pending.extend((child, inner) for child in children(term))
