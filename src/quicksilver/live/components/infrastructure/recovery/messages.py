"""What the two ends of a loss recovery say to each other; bounded."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

RANGES_MAX = 64
ACKS_MAX = 32


class Data(msgspec.Struct, frozen=True, array_like=True, tag=1, gc=False):
    """A message and its number."""

    sender: int
    number: int
    payload: bytes


class State(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """What a sender has: messages from ``first`` to before ``next`` can be had again."""

    sender: int
    first: int
    next: int


class Nak(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Somebody lacks messages: (first, last) of each hole."""

    receiver: int
    sender: int
    holes: list[tuple[int, int]]


class Acks(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Somebody has everything of senders before these numbers."""

    receiver: int
    next: list[tuple[int, int]]


Message: TypeAlias = Data | State | Nak | Acks

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


def encode(message: Message) -> bytes:
    """Return a message as it travels."""
    return _ENCODER.encode(message)


def parse(data: bytes) -> Message | None:
    """Read a message; None for bytes that make no sense."""
    try:
        message: Message = _DECODER.decode(data)
    except (msgspec.MsgspecError, ValueError):
        return None
    if isinstance(message, Nak) and len(message.holes) > RANGES_MAX:
        return None
    if isinstance(message, Acks) and len(message.next) > ACKS_MAX:
        return None
    if isinstance(message, Data) and message.number < 1:
        return None
    return message
