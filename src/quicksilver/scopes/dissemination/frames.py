"""What nodes say to each other over the links that carry messages.

A link is a stream of frames in order. The source of a channel opens the channel on it; the
target answers with what it has; the source says where the streams begin that are new to the
target, gives what is lacking, and says how far that goes. What is missing below that mark it
cannot give. Usually the source makes the link as well. Where it cannot reach the target, the
target does, and says so (``Attach``).

Links that lose messages (``udp``) and mechanisms that reach all members of a scope at once
(``multicast``) have datagrams instead. Nothing is negotiated over them.

Managers talk over connections of the same kind. The first number of a frame tells them apart:
those of managers are below ``TAG_MIN``, those of links are not. So a node listens at one port.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Annotated

import msgspec

from quicksilver.scopes.dissemination.holdings import STREAMS_MAX
from quicksilver.scopes.dissemination.packets import Mark, Packet, Sender
from quicksilver.scopes.names import Name
from quicksilver.scopes.routing import Channel
from quicksilver.stdx.ranges import VALUE_MAX

FRAME_BYTES_MAX = 16 << 20
"""The longest frame that a node accepts."""

DATAGRAM_BYTES_MAX = 60_000
"""The longest datagram that a node sends; with its headers it fits into an IP packet."""

TAG_MIN = 64
TAG_MAX = 127
"""The first numbers of frames of links. Each is a single byte, the second of the frame."""

Marks = Annotated[tuple[tuple[Sender, Mark], ...], msgspec.Meta(max_length=STREAMS_MAX)]
"""A number for each of some senders."""


class OpenChannel(msgspec.Struct, frozen=True, array_like=True, tag=64):
    """From a channel's source: its messages come over this link from now on."""

    channel: Channel


class Have(msgspec.Struct, frozen=True, array_like=True, tag=65):
    """From a channel's target: which message of each sender it lacks first."""

    channel: Channel
    lows: Marks


class Carry(msgspec.Struct, frozen=True, array_like=True, tag=66):
    """From a channel's source: some messages."""

    channel: Channel
    packet: Packet


class CloseChannel(msgspec.Struct, frozen=True, array_like=True, tag=67):
    """From either end: the channel is over, or never was."""

    channel: Channel


class Begin(msgspec.Struct, frozen=True, array_like=True, tag=68):
    """From a channel's source: the first message of a sender that it can give."""

    channel: Channel
    sender: Sender
    first: Mark
    missed: Mark = VALUE_MAX
    """Before ``first`` if the target was away meanwhile and is to get what follows this."""


class Given(msgspec.Struct, frozen=True, array_like=True, tag=69):
    """From a channel's source: below these numbers it has given all that it can."""

    channel: Channel
    marks: Marks
    is_answer: bool
    """True: to a ``Have``. False: the source has itself passed over messages."""


class Attach(msgspec.Struct, frozen=True, array_like=True, tag=70):
    """From a channel's target, which has made this link because the source could not: the
    source is to use it for the channel."""

    channel: Channel


class AgentSays(msgspec.Struct, frozen=True, array_like=True, tag=71):
    """From an agent of recovery domains to the agents of another node."""

    node: Name
    """Who says it."""
    data: bytes


class Probe(msgspec.Struct, frozen=True, array_like=True, tag=72):
    """From whoever made a link, now and then; the other end answers with the same."""


class LossyCarry(msgspec.Struct, frozen=True, array_like=True, tag=73):
    """In a datagram from a channel's source to its target: some messages."""

    channel: Channel
    first: Mark
    """Where the stream begins for a target that has nothing of it."""
    missed: Mark
    """As in ``Begin``."""
    packet: Packet


class Cast(msgspec.Struct, frozen=True, array_like=True, tag=74):
    """In a datagram from a member of a scope to all others: some messages.

    Their record is the sender's; whoever gets it says by itself that it came here.
    """

    scope: Name
    first: Mark
    missed: Mark
    """As in ``Begin``."""
    packet: Packet


ChannelFrame = OpenChannel | Have | Carry | CloseChannel | Begin | Given | Attach
Frame = ChannelFrame | AgentSays | Probe
Datagram = LossyCarry | Cast | AgentSays

_decode: Callable[[bytes], Frame] = msgspec.msgpack.Decoder(Frame).decode
_decode_datagram: Callable[[bytes], Datagram] = msgspec.msgpack.Decoder(Datagram).decode

encode = msgspec.msgpack.Encoder().encode


def is_link_frame(data: bytes) -> bool:
    """Whether a frame is one of links, if it is understood at all; else it is a manager's."""
    return len(data) > 1 and 0x90 <= data[0] <= 0x9F and TAG_MIN <= data[1] <= TAG_MAX


def parse_frame(data: bytes) -> Frame | None:
    """Return what a frame says, or None if no node of ours says that."""
    if len(data) > FRAME_BYTES_MAX:
        return None
    try:
        return _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def parse_datagram(data: bytes) -> Datagram | None:
    """Return what a datagram says, or None if no node of ours says that."""
    try:
        return _decode_datagram(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def find_intact(
    datagram: LossyCarry | Cast, data: bytes, holes: Sequence[tuple[int, int]]
) -> list[LossyCarry | Cast]:
    """Return what is left of a datagram of which parts of ``data`` are missing.

    Its messages are at the end. Those that are all there come in packets of their own; nothing
    comes if what is missing begins before the messages.
    """
    packet = datagram.packet
    body = packet.bundle.body
    start = len(data) - len(body)
    if not data.endswith(body) or any(hole[0] < start for hole in holes):
        return []
    ends = list(accumulate(packet.bundle.lengths(), initial=start))
    found: list[LossyCarry | Cast] = []
    first = 0
    for hole_start, hole_stop in [*holes, (len(data) + 1, len(data) + 1)]:
        # The first message that ends in the hole or after it, and the first that begins after it.
        stop = first
        while stop < packet.count and ends[stop + 1] <= hole_start:
            stop += 1
        if stop > first:
            part = packet.cut(packet.number + first, packet.number + stop)
            found.append(with_packet(datagram, part))
        first = max(first, stop)
        while first < packet.count and ends[first] < hole_stop:
            first += 1
    return found


def with_packet(datagram: LossyCarry | Cast, packet: Packet) -> LossyCarry | Cast:
    """Return a datagram with other messages."""
    if isinstance(datagram, Cast):
        return Cast(datagram.scope, datagram.first, datagram.missed, packet)
    return LossyCarry(datagram.channel, datagram.first, datagram.missed, packet)
