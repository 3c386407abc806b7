"""What a message may carry besides its payload: a key, headers, and what it is in answer to.

Plain messages have none of it and pay nothing for it. On the wire a group has a second
number, ``enveloped_group(id)``; the payloads that travel under it begin with an envelope::

    size u16 (little endian) | envelope, MessagePack | body

Both numbers of a group share one sequence, so plain messages and those with an envelope
stay in the order in which they were sent, and one packet may carry both.

Messages that a gateway brings in from another network come in runs whose envelopes differ by
their numbers alone. There the number has a place of its own, so the rest is parsed once for all
that come in one packet::

    0xFFFF | size u16 | envelope, MessagePack | number u64 | body
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from quicksilver.wire.packets import Messages

ENVELOPE_BYTES_MAX = 32 << 10
"""Key, headers and what belongs to them, as they travel."""

HEADERS_MAX = 64
REPLY_BYTES_MAX = 255

_SIZE_BYTES = 2
_CARRIED = b"\xff\xff"
"""In place of a size, which is never as much."""
_NUMBER_LIMIT = 1 << 62
CARRIED_NUMBER_BYTES = 8
_MEMORY_BYTES = 160
"""What an envelope takes besides its texts."""


class Kind(enum.IntEnum):
    """What a message with an envelope is."""

    MESSAGE = 0
    REQUEST = 1
    """``number`` is the requester's, and ``reply`` names the group that takes the answer."""
    ANSWER = 2
    """``number`` is the request's."""
    FAILURE = 3
    """An answer: the body is the text of the error in place of a payload."""
    RETAINED = 4
    """A value sent again for newcomers: members since ``number`` or before have had it."""
    CARRIED = 5
    """Brought in from another network: ``number`` is the one that its sender there gave it, and
    the header ``scope.sender`` names that sender."""


CARRIED_SENDER = "scope.sender"
"""Header of a carried message: the scope, the life and the name of its sender, with colons
between them."""

CARRIED_AFTER = "scope.after"
"""Header of a carried message before which some are missing: the number of the first of them.
Nobody can give those any more."""


class Envelope(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The part of a message that is not its payload."""

    key: bytes | None = None
    headers: dict[str, Any] = {}
    """Text or bytes by name: checked by hand, which msgspec cannot do for the two."""
    kind: Kind = Kind.MESSAGE
    number: int = 0
    reply: str = ""


EMPTY = Envelope()

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Envelope).decode


def encode_enveloped(envelope: Envelope, body: bytes) -> bytes:
    """Return a payload with its envelope; ValueError if the envelope is too long."""
    head = _encode(envelope)
    problem = _find_problem(envelope, len(head))
    if problem is not None:
        raise ValueError(problem)
    return b"".join((len(head).to_bytes(_SIZE_BYTES, "little"), head, body))


def encode_carried(envelope: Envelope) -> bytes:
    """Return what carried messages with this envelope begin with, whatever their numbers.

    The number, in ``CARRIED_NUMBER_BYTES`` (little endian), and the body follow. ValueError if
    the envelope is too long.
    """
    return _CARRIED + encode_enveloped(envelope, b"")


def parse_enveloped(payload: bytes) -> tuple[Envelope, bytes] | None:
    """Return envelope and body, or None where the bytes lie."""
    begin = _SIZE_BYTES
    is_carried = payload.startswith(_CARRIED)
    if is_carried:
        begin += len(_CARRIED)
    start = begin + int.from_bytes(payload[begin - _SIZE_BYTES : begin], "little")
    if len(payload) < start or start <= begin:
        return None
    try:
        envelope = _decode(payload[begin:start])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if _find_problem(envelope, start - begin) is not None:
        return None
    if not is_carried:
        return envelope, payload[start:]
    end = start + CARRIED_NUMBER_BYTES
    number = int.from_bytes(payload[start:end], "little")
    if len(payload) < end or number >= _NUMBER_LIMIT:
        return None
    return Envelope(envelope.key, envelope.headers, Kind.CARRIED, number), payload[end:]


def _parse_run(payloads: list[bytes]) -> list[tuple[Envelope, bytes] | None]:
    """Parse the payloads of one packet: 0.25 µs for a carried message like the one before it,
    where to parse each took 0.7."""
    found: list[tuple[Envelope, bytes] | None] = []
    prefix, start, end = _CARRIED + _CARRIED, 0, 0  # of no payload
    key, headers, carried = EMPTY.key, EMPTY.headers, Kind.CARRIED
    for payload in payloads:
        if payload.startswith(prefix) and len(payload) >= end:
            number = int.from_bytes(payload[start:end], "little")
            if number < _NUMBER_LIMIT:
                # They share one mapping of headers, which nobody changes.
                found.append((Envelope(key, headers, carried, number), payload[end:]))
                continue
        each = parse_enveloped(payload)
        if each is not None and payload.startswith(_CARRIED):
            key, headers = each[0].key, each[0].headers
            end = len(payload) - len(each[1])
            start = end - CARRIED_NUMBER_BYTES
            prefix = payload[:start]
        found.append(each)
    return found


def _find_problem(envelope: Envelope, size: int) -> str | None:
    if size > ENVELOPE_BYTES_MAX:
        return f"key and headers take {size} bytes, the limit is {ENVELOPE_BYTES_MAX}"
    if len(envelope.headers) > HEADERS_MAX:
        return f"there are {len(envelope.headers)} headers, the limit is {HEADERS_MAX}"
    for value in envelope.headers.values():
        if type(value) is not str and type(value) is not bytes:
            return f"a header is {type(value).__name__}, not text or bytes"
    if len(envelope.reply) > REPLY_BYTES_MAX or not 0 <= envelope.number < _NUMBER_LIMIT:
        return "the envelope has a number or a name that no sender makes"
    return None


def envelope_bytes(envelope: Envelope) -> int:
    """Return about how much memory key and headers take."""
    headers = sum(len(name) + len(value) for name, value in envelope.headers.items())
    return _MEMORY_BYTES + len(envelope.key or b"") + headers


def open_envelopes(messages: Messages, group: int) -> tuple[Messages, list[Envelope], int]:
    """Return the messages with their bodies as payloads under the group's own number, their
    envelopes, and how many were left out because their bytes lie."""
    found = _parse_run(messages.payloads)
    sequences = messages.sequences or range(messages.first, messages.first + len(found))
    good = [(each, number) for each, number in zip(found, sequences, strict=True) if each]
    opened = Messages(
        messages.sender,
        messages.batch,
        [body for (_, body), _ in good],
        None,
        0,
        [group] * len(good),
        [number for _, number in good],
    )
    return opened, [envelope for (envelope, _), _ in good], len(found) - len(good)
