"""Keys and headers as applications give them, checked at the call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quicksilver.node.errors import MessageTooLargeError, OptionError
from quicksilver.node.messages import Headers
from quicksilver.wire.envelope import Envelope, Kind, encode_enveloped
from quicksilver.wire.packets import MESSAGE_BYTES_MAX


def enveloped(
    body: bytes,
    key: Any,
    headers: Headers | None,
    *,
    kind: Kind = Kind.MESSAGE,
    number: int = 0,
    reply: str = "",
) -> bytes:
    """Return a message with its key and headers as it travels.

    Raises:
        OptionError: for a key or headers that cannot be sent.
        MessageTooLargeError: the message and its envelope are too long together.
    """
    envelope = Envelope(_check_key(key), _check_headers(headers), kind, number, reply)
    try:
        payload = encode_enveloped(envelope, body)
    except ValueError as error:
        raise OptionError("headers", f"{error}; put large values into the payload") from None
    if len(payload) > MESSAGE_BYTES_MAX:
        raise MessageTooLargeError(len(payload), MESSAGE_BYTES_MAX)
    return payload


def _check_key(key: Any) -> bytes | None:
    if key is None or type(key) is bytes:
        return key
    if isinstance(key, str):
        return key.encode()
    if isinstance(key, bytes | bytearray | memoryview):
        return bytes(key)
    raise OptionError("key", f"must be bytes or text, not {type(key).__name__}")


def _check_headers(headers: Any) -> dict[str, str | bytes]:
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise OptionError("headers", f"must be a mapping, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str | bytes):
            raise OptionError(
                "headers", f"must have text as names and text or bytes as values; see {name!r}"
            )
    return dict(headers)
