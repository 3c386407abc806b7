"""What scope managers say to each other.

Over TCP, as frames of one MessagePack array each. A member connects to its owner and stays
connected: requests to subscribe travel up, views and orders travel down, one level each
(dissertation 3.2.2, 3.2.10). A node that is to work the source of a channel connects to the
manager of the target and asks where to send: sender and receiver, and no level is passed.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from quicksilver.scopes.channels import External, Link
from quicksilver.scopes.filters import Filter
from quicksilver.scopes.routing import Channel

PROTOCOL_VERSION = 1
"""Raised whenever an old manager could misread a new message."""

FRAME_BYTES_MAX = 1 << 20
GREETING_BYTES_MAX = 4096
"""The longest frame that a manager accepts, and the longest from a stranger."""

ABOVE_MAX = 64
"""Scopes above a scope that are told to its members."""


class Register(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """First frame of a member, or of a client, to an owner."""

    version: int
    name: str
    address: str
    """Where its own manager listens."""
    is_member: bool
    """Members may be given work, and are waited for. Clients are not."""
    grace_s: float
    """How long the scope goes on if its manager falls silent."""


class Registered(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The owner's answer."""

    name: str
    above: tuple[str, ...]
    """The owner's own owners, and theirs."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The other side wants no such member; the connection ends."""

    reason: str


class Above(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """From an owner: its own owners have changed."""

    names: tuple[str, ...]


class Alive(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Sent now and then, so that silence means something."""


class Subscribe(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """From a member: what somebody in it wants of a topic; neither: nothing any more."""

    topic: str
    domain: int
    """The member's own recovery domain for the topic."""
    publishes: bool
    subscribes: bool


class TopicRefused(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """From an owner: nobody above knows the topic's root, for example."""

    topic: str
    reason: str


class Peer(msgspec.Struct, frozen=True, array_like=True):
    """A domain that is a member of the same domain one level up."""

    scope: str
    domain: int


class DomainView(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """From an owner: which domains its domain for a topic has as members."""

    topic: str
    domain: int
    view: int
    members: tuple[Peer, ...]


class Source(msgspec.Struct, frozen=True, array_like=True):
    """The beginning of a channel, which a member is to work or to hand on."""

    channel: Channel
    filters: tuple[Filter, ...]
    """Messages that pass one of these are carried."""
    address: str
    """Of the target's manager."""


class Orders(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """From an owner: all that a member has to do for a topic, whatever it was told before.

    Always the whole of it: whoever starts again, on either side, needs no history.
    """

    topic: str
    sources: tuple[Source, ...]
    targets: tuple[Channel, ...]
    """Channels that end in the member, and that others may ask it for."""


class RequestChannel(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """From the node that works a channel's source to the manager of its target."""

    channel: Channel


class Referral(msgspec.Struct, frozen=True, tag="referral"):
    """The manager that knows more: of the member that the channel's end was handed to."""

    address: str


class OfferChannel(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Where the messages of a channel are to be sent, or who knows."""

    channel: Channel
    """As it was asked for, with the target's end handed one step further."""
    where: Link | External | Referral


class ChannelRefused(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """The target has no such channel, or not yet."""

    channel: Channel
    reason: str


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
