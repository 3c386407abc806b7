"""What nodes say to each other over the links that carry messages.

A link is a stream of frames in order. The source of a channel makes it and opens the channel;
the target answers with what it has; the source says where the streams begin that are new to
the target, gives what is lacking, and says how far that goes. What is missing below that mark
it cannot give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from quicksilver.scopes.dissemination.holdings import STREAMS_MAX, Mark, Packet, Sender
from quicksilver.scopes.routing import Channel

FRAME_BYTES_MAX = 16 << 20
"""The longest frame that a node accepts."""

Marks = Annotated[tuple[tuple[Sender, Mark], ...], msgspec.Meta(max_length=STREAMS_MAX)]
"""A number for each of some senders."""


class OpenChannel(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """From a channel's source: its messages come over this link from now on."""

    channel: Channel


class Have(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """From a channel's target: which message of each sender it lacks first."""

    channel: Channel
    lows: Marks


class Carry(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """From a channel's source: a message."""

    channel: Channel
    packet: Packet


class CloseChannel(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """From either end: the channel is over, or never was."""

    channel: Channel


class Begin(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """From a channel's source: the first message of a sender that it can give."""

    channel: Channel
    sender: Sender
    first: Mark


class Given(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """From a channel's source: below these numbers it has given all that it can."""

    channel: Channel
    marks: Marks
    is_answer: bool
    """True: to a ``Have``. False: the source has itself passed over messages."""


Frame = OpenChannel | Have | Carry | CloseChannel | Begin | Given

_decode: Callable[[bytes], Frame] = msgspec.msgpack.Decoder(Frame).decode

encode = msgspec.msgpack.Encoder().encode


def parse_frame(data: bytes) -> Frame | None:
    """Return what a frame says, or None if no node of ours says that."""
    if len(data) > FRAME_BYTES_MAX:
        return None
    try:
        return _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
