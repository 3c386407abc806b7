"""What agents of one domain say to each other, as bytes.

Every message names its domain and the view that it belongs to: what belongs to another view is
dropped. Members are named by their places among the seats of the view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from quicksilver.recovery.gossip import REPORTS_SENT_MAX
from quicksilver.recovery.pacing import SKIPPED_MAX
from quicksilver.scopes.dissemination.packets import Mark, Packet, Sender
from quicksilver.scopes.names import Name, Path
from quicksilver.scopes.posts import SEATS_MAX, DomainId
from quicksilver.scopes.reliability.records import SEGMENTS_MAX, Gathered, Seat

FRAME_BYTES_MAX = 4 << 20
"""The longest message that an agent takes."""

PACKETS_MAX = 1024
"""Packets in one answer."""

RoundNumber = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Skipped = Annotated[tuple[Seat, ...], msgspec.Meta(max_length=SKIPPED_MAX)]
Absent = Annotated[tuple[Seat, ...], msgspec.Meta(max_length=SEATS_MAX)]
Packets = Annotated[tuple[Packet, ...], msgspec.Meta(max_length=PACKETS_MAX)]


class Copies(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Messages that a member lacked."""

    way: Path
    """Where the giver is, from a member of the domain's scope down to a node."""
    packets: Packets


class Item(msgspec.Struct, frozen=True, array_like=True):
    """Messages that all are asked for."""

    topic: Name
    sender: Sender
    start: Mark
    stop: Mark


class Pull(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """From a member that lacks messages to one that has them."""

    topic: Name
    sender: Sender
    ranges: Annotated[tuple[Mark, ...], msgspec.Meta(max_length=2 * SEGMENTS_MAX)]
    """As ``RangeSet.to_flat`` gives them."""


class TokenBody(msgspec.Struct, frozen=True, array_like=True, tag=3):
    round: RoundNumber
    leader: Seat
    skipped: Skipped
    content: Gathered | None
    is_confirmed: bool


class WakeBody(msgspec.Struct, frozen=True, array_like=True, tag=4):
    pass


class ReceiptBody(msgspec.Struct, frozen=True, array_like=True, tag=5):
    leader: Seat
    round: RoundNumber


class ReportBody(msgspec.Struct, frozen=True, array_like=True, tag=6):
    round: RoundNumber
    leader: Seat
    absent: Absent
    content: Gathered


class RumoursBody(msgspec.Struct, frozen=True, array_like=True, tag=7):
    round: RoundNumber
    leader: Seat
    skipped: Skipped
    content: Gathered
    reports: Annotated[tuple[tuple[Seat, Gathered], ...], msgspec.Meta(max_length=REPORTS_SENT_MAX)]


class AskBody(msgspec.Struct, frozen=True, array_like=True, tag=8):
    item: Item


class GiftBody(msgspec.Struct, frozen=True, array_like=True, tag=9):
    item: Item
    copies: Copies
    waited_s: Annotated[float, msgspec.Meta(ge=0.0, le=3600.0)]


class NotHere(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """From a node that was told something for an agent which it does not host."""


class Here(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """From an agent that nobody can dial: what is for it goes over this link, in any view."""

    member: Name


Body = (
    Copies
    | Pull
    | TokenBody
    | WakeBody
    | ReceiptBody
    | ReportBody
    | RumoursBody
    | AskBody
    | GiftBody
    | NotHere
    | Here
)


class Frame(msgspec.Struct, frozen=True, array_like=True, tag=128):
    """From one agent to another; links and managers use smaller tags."""

    domain: DomainId
    view: int
    origin: Seat
    to: Seat
    body: Body


_decode: Callable[[bytes], Frame] = msgspec.msgpack.Decoder(Frame).decode

encode = msgspec.msgpack.Encoder().encode


def parse_frame(data: bytes) -> Frame | None:
    """Return what a message says, or None if no agent of ours says that."""
    if len(data) > FRAME_BYTES_MAX:
        return None
    try:
        return _decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
