"""What scope managers say to each other.

Over TCP, as frames of one MessagePack array each. A member connects to its owner and stays
connected: requests to subscribe travel up, views and orders travel down, one level each
(dissertation 3.2.2, 3.2.10). A node that is to work the source of a channel connects to the
manager of the target and asks where to send: sender and receiver, and no level is passed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.filters import PARTS_MAX, Filter
from quicksilver.scopes.names import Address, Name
from quicksilver.scopes.routing import Channel

PROTOCOL_VERSION = 2
"""Raised whenever an old manager could misread a new message."""

FRAME_BYTES_MAX = 1 << 20
GREETING_BYTES_MAX = 4096
"""The longest frame that a manager accepts, and the longest from a stranger."""

ABOVE_MAX = 64
"""Scopes above a scope that are told to its members."""

ENDS_MAX = 10_000
PEERS_MAX = 10_000
"""Ends of channels that an owner may give to a member for one topic, and peers in a view."""

REASON_MAX = 1_000
"""Characters of a reason."""

Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=ABOVE_MAX)]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_MAX)]


class Register(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """First frame of a member, or of a client, to an owner."""

    version: int
    name: Name
    address: Address
    """Where its own manager listens."""
    is_member: bool
    """Members may be given work, and are waited for. Clients are not."""
    grace_s: float
    """How long the scope goes on if its manager falls silent."""


class Registered(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The owner's answer."""

    name: Name
    above: Names
    """The owner's own owners, and theirs."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The other side wants no such member; the connection ends."""

    reason: Reason


class Above(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """From an owner: its own owners have changed."""

    names: Names


class Alive(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Sent now and then, so that silence means something."""


class Subscribe(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """From a member: what somebody in it wants of a topic; neither: nothing any more."""

    topic: Name
    domain: int
    """The member's own recovery domain for the topic."""
    publishes: bool
    subscribes: bool


class TopicRefused(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """From an owner: nobody above knows the topic's root, for example."""

    topic: Name
    reason: Reason


class Peer(msgspec.Struct, frozen=True, array_like=True):
    """A domain that is a member of the same domain one level up."""

    scope: Name
    domain: int


class DomainView(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """From an owner: which domains its domain for a topic has as members."""

    topic: Name
    domain: int
    view: int
    members: Annotated[tuple[Peer, ...], msgspec.Meta(max_length=PEERS_MAX)]


class Source(msgspec.Struct, frozen=True, array_like=True):
    """The beginning of a channel, which a member is to work or to hand on."""

    channel: Channel
    filters: Annotated[tuple[Filter, ...], msgspec.Meta(max_length=PARTS_MAX)]
    """Messages that pass one of these are carried."""
    address: Address
    """Of the target's manager."""
    waits: bool = True
    """Whether publishers wait if the target is slow; else it lags behind."""


class Orders(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """From an owner: all that a member has to do for a topic, whatever it was told before.

    Always the whole of it: whoever starts again, on either side, needs no history.
    """

    topic: Name
    sources: Annotated[tuple[Source, ...], msgspec.Meta(max_length=ENDS_MAX)]
    targets: Annotated[tuple[Channel, ...], msgspec.Meta(max_length=ENDS_MAX)]
    """Channels that end in the member, and that others may ask it for."""
    is_first: bool = True
    is_last: bool = True
    """What does not fit into a frame comes in parts, and counts once the last is here."""


class RequestChannel(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """From the node that works a channel's source to the manager of its target."""

    channel: Channel


class Referral(msgspec.Struct, frozen=True, tag="referral"):
    """The manager that knows more: of the member that the channel's end was handed to."""

    address: Address


class OfferChannel(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Where the messages of a channel are to be sent, or who knows."""

    channel: Channel
    """As it was asked for, with the target's end handed one step further."""
    where: Link | External | Referral


class ChannelRefused(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """The target has no such channel, or not yet."""

    channel: Channel
    reason: Reason


Message = (
    Register
    | Registered
    | Refused
    | Above
    | Alive
    | Subscribe
    | TopicRefused
    | DomainView
    | Orders
    | RequestChannel
    | OfferChannel
    | ChannelRefused
)

PART_BYTES_MAX = FRAME_BYTES_MAX // 2
"""Ends of channels in one part of orders; a single end that is longer is refused."""


def split_orders(orders: Orders) -> list[Orders]:
    """Return orders in parts that fit into frames each."""
    if len(encode(orders)) <= PART_BYTES_MAX:
        return [orders]
    parts: list[tuple[list[Source], list[Channel]]] = [([], [])]
    used = 0
    ends: tuple[Source | Channel, ...] = (*orders.sources, *orders.targets)
    for end in ends:
        size = len(encode(end))
        if used + size > PART_BYTES_MAX:
            parts.append(([], []))
            used = 0
        used += size
        if isinstance(end, Source):
            parts[-1][0].append(end)
        else:
            parts[-1][1].append(end)
    last = len(parts) - 1
    return [
        Orders(orders.topic, tuple(sources), tuple(targets), i == 0, i == last)
        for i, (sources, targets) in enumerate(parts)
    ]


_decode: Callable[[bytes], Message] = msgspec.msgpack.Decoder(Message).decode

encode = msgspec.msgpack.Encoder().encode


def parse(frame: bytes) -> Message | None:
    """Return what a frame says, or None if no manager of ours says that."""
    if len(frame) > FRAME_BYTES_MAX:
        return None
    try:
        return _decode(frame)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
