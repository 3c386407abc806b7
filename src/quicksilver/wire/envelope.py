"""What a message may carry besides its payload: a key, headers, and what it is in answer to.

Plain messages have none of it and pay nothing for it. On the wire a group has a second
number, ``enveloped_group(id)``; the payloads that travel under it begin with an envelope::

    size u16 (little endian) | envelope, MessagePack | body

Both numbers of a group share one sequence, so plain messages and those with an envelope
stay in the order in which they were sent, and one packet may carry both.

Messages that a gateway brings in from another network are numbered there and here. Consecutive
ones that have the same envelope travel as one, and are taken apart by whoever gets them::

    0xFFFF | size u16 | envelope, MessagePack | number u64 | sequence u64 | count u16 | length u32
    [one length u32 a message, unless all are equally long] | bodies
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from struct import Struct, pack, unpack_from
from typing import Any

import msgspec

from quicksilver.wire.packets import MESSAGES_PER_PACKET_MAX, Messages

ENVELOPE_BYTES_MAX = 32 << 10
"""Key, headers and what belongs to them, as they travel."""

HEADERS_MAX = 64
REPLY_BYTES_MAX = 255

_SIZE_BYTES = 2
_CARRIED = b"\xff\xff"
"""In place of a size, which is never as much."""
_NUMBER_LIMIT = 1 << 62
_RUN = Struct("<QQHI")
_UNEQUAL = 0xFFFF_FFFF
"""In place of the length that all messages of a run have."""
RUN_OVERHEAD = _RUN.size
PER_MESSAGE_RUN = 4
RUN_MESSAGES_MAX = MESSAGES_PER_PACKET_MAX
"""Bounds what a short run that declares many empty messages can cost."""
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
    """Brought in from another network: the header ``scope.sender`` names its sender there, who
    gave it ``number``. The messages of a run share one envelope, with the first one's number."""


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


def encode_run_head(envelope: Envelope) -> bytes:
    """Return what runs of carried messages with this envelope begin with, whatever their numbers.

    ValueError if the envelope is too long.
    """
    return _CARRIED + encode_enveloped(envelope, b"")


def encode_run(
    head: bytes, number: int, sequence: int, count: int, sizes: Sequence[int], bodies: bytes
) -> bytes:
    """Return consecutive carried messages as one, at most ``RUN_MESSAGES_MAX`` of them.

    ``number`` is that of the first one in the network that it was sent in, ``sequence`` the one
    that its gateway gives it here. ``bodies``: their bodies, one after the other, and ``sizes``
    how long each is; none: all are equally long.
    """
    if not sizes:
        return b"".join((head, _RUN.pack(number, sequence, count, len(bodies) // count), bodies))
    table = pack(f"<{count}I", *sizes)
    return b"".join((head, _RUN.pack(number, sequence, count, _UNEQUAL), table, bodies))


def parse_enveloped(payload: bytes) -> tuple[Envelope, bytes] | None:
    """Return envelope and body, or None where the bytes lie, or are a run."""
    found = _parse_head(payload, 0)
    return None if found is None else (found[0], payload[found[1] :])


def parse_run(payload: bytes) -> tuple[Envelope, int, list[bytes]] | None:
    """Return what a run of carried messages has: the envelope of all, the sequence number of the
    first, and their bodies; or None where the bytes lie.

    No more is allocated than a few times what the payload takes itself.
    """
    found = _parse_head(payload, len(_CARRIED))
    if found is None or len(payload) < found[1] + RUN_OVERHEAD:
        return None
    envelope, start = found
    number, sequence, count, size = _RUN.unpack_from(payload, start)
    start += RUN_OVERHEAD
    end = len(payload)
    if not 0 < count <= RUN_MESSAGES_MAX or max(number, sequence) > _NUMBER_LIMIT - count:
        return None
    if size != _UNEQUAL:
        # Several empty ones would have lengths: else a few bytes could stand for thousands.
        if start + count * size != end or (not size and count > 1):
            return None
        bodies = [payload[i : i + size] for i in range(start, end, size)] if size else [b""]
    else:
        if start + PER_MESSAGE_RUN * count > end:
            return None
        sizes = unpack_from(f"<{count}I", payload, start)
        start += PER_MESSAGE_RUN * count
        if start + sum(sizes) != end:
            return None
        bodies = []
        for size in sizes:
            bodies.append(payload[start : start + size])
            start += size
    return Envelope(envelope.key, envelope.headers, Kind.CARRIED, number), sequence, bodies


def _parse_head(payload: bytes, at: int) -> tuple[Envelope, int] | None:
    """Return the envelope whose size is at a place, and where it ends."""
    begin = at + _SIZE_BYTES
    size = int.from_bytes(payload[at:begin], "little")
    if not 0 < size <= min(ENVELOPE_BYTES_MAX, len(payload) - begin):
        return None
    try:
        envelope = _decode(payload[begin : begin + size])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if _find_problem(envelope, size) is not None:
        return None
    return envelope, begin + size


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


def distinct(envelopes: Sequence[Envelope]) -> Sequence[Envelope]:
    """Return envelopes without repetition, if all of them are those of one run."""
    return envelopes[:1] if envelopes and envelopes[0] is envelopes[-1] else envelopes


def open_envelopes(messages: Messages, group: int) -> tuple[Messages, list[Envelope], int]:
    """Return the messages with their bodies as payloads under the group's own number, their
    envelopes, and how many were left out because their bytes lie.

    The messages of a run are consecutive and have one envelope, the same object.
    """
    bodies: list[bytes] = []
    numbers: list[int] = []
    envelopes: list[Envelope] = []
    bad = 0
    for payload, number in zip(messages.payloads, messages.numbers(), strict=True):
        if payload.startswith(_CARRIED):
            run = parse_run(payload)
            if run is None:
                bad += 1
                continue
            envelope, first, found = run
            bodies += found
            numbers += range(first, first + len(found))
            envelopes += [envelope] * len(found)
            continue
        single = parse_enveloped(payload)
        if single is None:
            bad += 1
            continue
        envelopes.append(single[0])
        bodies.append(single[1])
        numbers.append(number)
    opened = Messages(
        messages.sender, messages.batch, bodies, None, 0, [group] * len(bodies), numbers
    )
    return opened, envelopes, bad
