"""What applications and the controller of their machine say to each other.

Frames (MessagePack) go through a Unix socket: requests, answers, news. Messages go through
shared memory, as the bodies of records; their layouts, little endian::

    messages for applications:
      sender u32 | origin u32 | batch u64 | first u64 | cluster u32 | count u32 | size u32
      | flags u32
      numbers u64 each (NUMBERED) | sizes u32 each (size is VARIED) | payloads
    messages of an application:
      group u32 | count u32 | size u32 | flags u32
      sizes u32 each (size is VARIED) | payloads
    the end of what a flush is about: number u64
    a frame that must not overtake messages: as in the socket

``origin`` is the application that sent the messages, if it is one of this machine; 0: none is.
Without NUMBERED, messages are numbered from ``first``. With ENVELOPED each payload begins with an
envelope.

Neither side believes the other: lengths are checked against the bytes at hand.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from struct import Struct, pack, unpack_from
from typing import NamedTuple

import msgspec

from quicksilver.wire.packets import MESSAGE_BYTES_MAX, SEQUENCE_MAX

VERSION = 1
FRAME_BYTES_MAX = 4 << 20
NAMES_MAX = 10_000
"""Groups in one request."""

KIND_MESSAGES = 1
KIND_SENT = 2
KIND_FLUSH = 3
KIND_FRAME = 4

NUMBERED = 1
ENVELOPED = 2
VARIED = 0xFFFF_FFFF

_HEAD = Struct("<IIQQIIII")
_SENT = Struct("<IIII")
_FLUSH = Struct("<Q")

# Words of the memory that an application and the controller both write.
WORD_APPLICATION_SLEEPS = 0
"""The application waits for its wake-up; whoever gives it one clears this."""
WORD_CONTROLLER_SLEEPS = 1
"""The controller waits for the application's bell."""
WORD_RING_FULL = 2
"""The controller has messages for which a ring lacks room: ring when a cursor moved."""
WORD_SENDING_FULL = 3
"""The application has messages for which its own ring lacks room: wake it when there is."""
WORD_SENT_CURSOR = 4
"""How far the controller has read the application's own ring."""
WORD_CURSORS = 8
"""Here and after: how far the application has read the ring of each of its groups."""


class Batch(NamedTuple):
    """Messages of one sender to one group, as they are in a ring."""

    sender: int
    origin: int
    batch: int
    cluster: int
    first: int
    numbers: tuple[int, ...]
    """Empty: consecutive from ``first``."""
    payloads: list[bytes]
    is_enveloped: bool


def encode_batch(
    sender: int,
    origin: int,
    batch: int,
    cluster: int,
    first: int,
    numbers: Sequence[int],
    payloads: Sequence[bytes],
    *,
    is_enveloped: bool = False,
) -> bytes:
    """Return the body of a record with messages for applications."""
    count = len(payloads)
    size, sizes = _sizes(payloads)
    flags = (NUMBERED if numbers else 0) | (ENVELOPED if is_enveloped else 0)
    head = _HEAD.pack(sender, origin, batch, first, cluster, count, size, flags)
    if numbers:
        return b"".join((head, pack(f"<{count}Q", *numbers), sizes, *payloads))
    return b"".join((head, sizes, *payloads))


def parse_batch(body: memoryview) -> Batch:
    """Return what ``encode_batch`` encoded, copied once; raises ValueError."""
    try:
        sender, origin, batch, first, cluster, count, size, flags = _HEAD.unpack_from(body)
        at = _HEAD.size
        numbers: tuple[int, ...] = ()
        _check_count(count, len(body) - at)
        if flags & NUMBERED:
            numbers = unpack_from(f"<{count}Q", body, at)
            at += 8 * count
        if max(numbers, default=first) > SEQUENCE_MAX:
            raise ValueError("a message has a number that no sender gives")
        payloads = _cut(body, at, count, size)
    except struct.error as error:
        raise ValueError(str(error)) from None
    is_enveloped = bool(flags & ENVELOPED)
    return Batch(sender, origin, batch, cluster, first, numbers, payloads, is_enveloped)


def encode_sent(group: int, payloads: Sequence[bytes], *, is_enveloped: bool) -> bytes:
    """Return the body of a record with messages that an application sends."""
    size, sizes = _sizes(payloads)
    head = _SENT.pack(group, len(payloads), size, ENVELOPED if is_enveloped else 0)
    return b"".join((head, sizes, *payloads))


def parse_sent(body: memoryview) -> tuple[int, list[bytes], bool]:
    """Return group, payloads and whether they have envelopes; raises ValueError."""
    try:
        group, count, size, flags = _SENT.unpack_from(body)
        _check_count(count, len(body) - _SENT.size)
        return group, _cut(body, _SENT.size, count, size), bool(flags & ENVELOPED)
    except struct.error as error:
        raise ValueError(str(error)) from None


def encode_flush(number: int) -> bytes:
    return _FLUSH.pack(number)


def parse_flush(body: memoryview) -> int:
    """Return the number of a flush; raises ValueError."""
    if len(body) != _FLUSH.size:
        raise ValueError("a flush has a number of 8 bytes")
    (number,) = _FLUSH.unpack(body)
    return int(number)


def _sizes(payloads: Sequence[bytes]) -> tuple[int, bytes]:
    if len({*map(len, payloads)}) == 1:
        return len(payloads[0]), b""
    return VARIED, pack(f"<{len(payloads)}I", *map(len, payloads))


def _check_count(count: int, room: int) -> None:
    # Empty messages take no bytes: without a limit a short record could declare billions.
    if not 0 < count <= max(room, 1 << 16):
        raise ValueError("a record has no number of messages that fits it")


def _cut(body: memoryview, at: int, count: int, size: int) -> list[bytes]:
    if size != VARIED:
        if size > MESSAGE_BYTES_MAX or at + count * size != len(body):
            raise ValueError("a record is not as long as its messages")
        if count == 1:
            return [bytes(body[at:])]
        return list(_pieces(size, count).unpack_from(body, at))
    sizes = unpack_from(f"<{count}I", body, at)
    data = bytes(body[at + 4 * count :])
    if sum(sizes) != len(data) or max(sizes) > MESSAGE_BYTES_MAX:
        raise ValueError("a record is not as long as its messages")
    start = 0
    payloads = []
    for each in sizes:
        payloads.append(data[start : start + each])
        start += each
    return payloads


@lru_cache(maxsize=256)
def _pieces(size: int, count: int) -> Struct:
    """Cuts equally long messages out of a body: one call into C, one copy of each byte."""
    return Struct(f"{size}s" * count)


# Frames of applications


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """The first frame of a connection."""

    version: int
    name: str


class Subscribe(msgspec.Struct, frozen=True, tag="subscribe", kw_only=True):
    """Change which groups the application is in; ``Subscribed`` or ``Refused`` answers."""

    request: int
    join: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    waits: bool = True
    """Whether the groups' other readers, and senders, wait for this application."""
    behind: str | None = None
    empty: str | None = None


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """Ask for the statistics of the controller's node; ``Counted`` answers."""

    request: int


class Here(msgspec.Struct, frozen=True, tag="here"):
    """Answers ``AreYouThere``."""


FromApplication = Hello | Subscribe | Ask | Here


# Frames of the controller


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Answers ``Hello``. Descriptors: words, own ring, bell, wake-up."""

    version: int
    application: int
    """The number by which messages name it as their origin."""
    node: int
    cluster: int
    node_name: str


class Ring(msgspec.Struct, frozen=True):
    """Where an application reads a group that it has joined; comes with a descriptor."""

    name: str
    cursor: int
    """Where to begin."""
    messages: int
    """How many messages were written before that."""
    slot: int
    """Where the application writes its cursor, from ``WORD_CURSORS`` on."""


class Place(msgspec.Struct, frozen=True):
    """A group that was joined or opened."""

    name: str
    number: int
    """By which the application names it when it sends."""
    group: int
    """The group's number in the cluster."""
    is_empty: bool
    empty: str
    """What happens to messages then: the machine's choice."""


class Subscribed(msgspec.Struct, frozen=True, tag="subscribed"):
    """Answers ``Subscribe``; a descriptor for each ring comes with it."""

    request: int
    places: tuple[Place, ...]
    rings: tuple[Ring, ...]


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """A request, or (0) the whole application, is refused; the connection ends with the latter."""

    request: int
    reason: str


class ViewTold(msgspec.Struct, frozen=True, tag="view"):
    """A group has a new view."""

    view: msgspec.Raw
    is_member: bool
    """True for those who joined it, False for those who opened it."""


class EmptinessTold(msgspec.Struct, frozen=True, tag="emptiness"):
    """A group has no members any more, or has some again."""

    name: str
    is_empty: bool
    empty: str


class LostTold(msgspec.Struct, frozen=True, tag="lost"):
    """Messages of the application may be lost."""

    messages: msgspec.Raw


class FlushTold(msgspec.Struct, frozen=True, tag="flushed"):
    """A flush has ended."""

    number: int
    unconfirmed: msgspec.Raw


class Counted(msgspec.Struct, frozen=True, tag="counted"):
    """Answers ``Ask``."""

    request: int
    stats: msgspec.Raw


class NodeTold(msgspec.Struct, frozen=True, tag="node"):
    """The controller's node has another number: it was excluded and came back."""

    node: int
    cluster: int


class AreYouThere(msgspec.Struct, frozen=True, tag="there"):
    """The application holds others up: it is to answer ``Here``, or is cut off."""


FromController = (
    Welcome
    | Subscribed
    | Refused
    | ViewTold
    | EmptinessTold
    | LostTold
    | FlushTold
    | Counted
    | NodeTold
    | AreYouThere
)

_encode = msgspec.msgpack.Encoder().encode
_decode_application = msgspec.msgpack.Decoder(FromApplication).decode
_decode_controller = msgspec.msgpack.Decoder(FromController).decode


def encode(frame: FromApplication | FromController) -> bytes:
    return _encode(frame)


def parse_application(frame: bytes) -> FromApplication | None:
    """Return what an application says, or None where the bytes lie."""
    try:
        found: FromApplication = _decode_application(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if isinstance(found, Subscribe):
        names = (*found.join, *found.open, *found.leave, *found.close)
        return found if len(names) <= NAMES_MAX else None
    return found


def parse_controller(frame: bytes) -> FromController | None:
    """Return what a controller says, or None where the bytes lie."""
    try:
        found: FromController = _decode_controller(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found
