"""What scope managers say to each other.

Over TCP, as frames of one MessagePack array each. A member connects to its owner and stays
connected: requests to subscribe travel up, orders and posts of agents travel down, one level
each (dissertation 3.2.2, 3.2.10). A node that is to work the source of a channel connects to
the manager of the target and asks where to send: sender and receiver, and no level is passed.
Agents find their peers in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec

from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.filters import PARTS_MAX, Filter
from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.scopes.names import Address, Name, Path
from quicksilver.scopes.posts import SEATS_MAX, DomainId, Post, Seat
from quicksilver.scopes.routing import Channel

PROTOCOL_VERSION = 5
"""Raised whenever an old manager could misread a new message."""

FRAME_BYTES_MAX = 1 << 20
GREETING_BYTES_MAX = 4096
"""The longest frame that a manager accepts, and the longest from a stranger."""

ABOVE_MAX = 64
"""Scopes above a scope that are told to its members."""

ENDS_MAX = 10_000
"""Ends of channels that an owner may give to a member for one topic."""

SESSIONS_MAX = 4
MEDIA_MAX = 64
REGIONS_MAX = 64
"""Sessions of a topic at one time, and mechanisms that a member uses for one topic."""

ROWS_MAX = 200
FACTS_MAX = 32
"""Rows of one answer about a scope, and what is said in one row."""

NO_DOMAIN = -1
"""In place of a domain's number: the member recovers nothing for the topic."""

REASON_MAX = 1_000
"""Characters of a reason."""

Names = Annotated[tuple[Name, ...], msgspec.Meta(max_length=ABOVE_MAX)]
Reason = Annotated[str, msgspec.Meta(max_length=REASON_MAX)]


class Register(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """First frame of a member, or of a client, to an owner."""

    version: int
    name: Name
    address: Address
    """Where its own manager listens; empty: it cannot be dialled."""
    is_member: bool
    """Members may be given work, and are waited for. Clients are not."""
    grace_s: float
    """How long the scope goes on if its manager falls silent."""


class Registered(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """The owner's answer."""

    name: Name
    above: Names
    """The owner's own owners, and theirs."""
    is_all: bool = True
    """False: one of them is out of reach since the owner started, so there may be more."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The other side wants no such member; the connection ends."""

    reason: Reason


class Above(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """From an owner: its own owners have changed."""

    names: Names
    is_all: bool = True


class Alive(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Sent now and then, so that silence means something."""


class Subscribe(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """From a member: what somebody in it wants of a topic; neither: nothing any more."""

    topic: Name
    domain: int
    """The member's own recovery domain for the topic; 0: it is a node; or ``NO_DOMAIN``."""
    publishes: bool
    subscribes: bool


class TopicRefused(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """From an owner: nobody above knows the topic's root, for example."""

    topic: Name
    reason: Reason


class Source(msgspec.Struct, frozen=True, array_like=True):
    """The beginning of a channel, which a member is to work or to hand on."""

    channel: Channel
    filters: Annotated[tuple[Filter, ...], msgspec.Meta(max_length=PARTS_MAX)]
    """Messages that pass one of these are carried."""
    address: Address
    """Of the target's manager; empty: the target cannot be dialled, and comes by itself."""
    waits: bool = True
    """Whether a target that is slow holds up publishers, or misses messages."""


class Target(msgspec.Struct, frozen=True, array_like=True):
    """The end of a channel, which a member is to work or to hand on."""

    channel: Channel
    address: Address = ""
    """Of the source's manager, if this end has to dial; else others may ask the member for it."""


class Medium(msgspec.Struct, frozen=True, array_like=True):
    """A mechanism between the members of a scope that a member is to use, or to hand on."""

    scope: Name
    where: External
    """Where it listens …"""
    path: Path
    """The scope's member, then who it was handed to, down to a node."""
    to: Annotated[tuple[External, ...], msgspec.Meta(max_length=REGIONS_MAX)] = ()
    """… and where it sends; empty: to where it listens."""


class Flavour(msgspec.Struct, frozen=True, array_like=True):
    """What a session promises (dissertation 3.2.7, 3.2.8)."""

    reliability: Annotated[str, msgspec.Meta(max_length=16)] = "repair"
    """``none`` or ``repair``."""
    ordering: Annotated[str, msgspec.Meta(max_length=16)] = "fifo"
    """``fifo`` or ``total``."""
    key: Name = ""
    """The key that messages are sealed with, by its name; empty: none."""


class Session(msgspec.Struct, frozen=True, array_like=True):
    """A session of a topic, as its root numbered it."""

    number: int
    flavour: Flavour
    is_flushing: bool = False
    """True: nobody sends in it any more."""
    sequencer: Sender | None = None
    """Of a session with a total order: the node that says the order, once one is chosen; …"""
    term: int = 0
    """… numbers those nodes, across all sessions; 0: there was none yet."""
    is_firm: bool = False
    """True: everybody has been told of this one, so nobody follows the one before it."""


class Orders(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """From an owner: all that a member has to do for a topic, whatever it was told before.

    Always the whole of it: whoever starts again, on either side, needs no history.
    """

    topic: Name
    sources: Annotated[tuple[Source, ...], msgspec.Meta(max_length=ENDS_MAX)]
    targets: Annotated[tuple[Target, ...], msgspec.Meta(max_length=ENDS_MAX)]
    """Channels that end in the member, and that others may ask it for."""
    media: Annotated[tuple[Medium, ...], msgspec.Meta(max_length=MEDIA_MAX)] = ()
    sessions: Annotated[tuple[Session, ...], msgspec.Meta(max_length=SESSIONS_MAX)] = ()
    """The oldest first; none: the owner does not know them yet."""
    recovers: bool = False
    """Whether the member's domain for the topic belongs to one of the owner's."""
    is_publisher: bool = False
    is_subscriber: bool = False
    """What the member wants, as far as all owners know it: these orders follow from that."""
    is_first: bool = True
    is_last: bool = True
    """What does not fit into a frame comes in parts, and counts once the last is here."""


class PostAgent(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """From an owner: an agent that the member is to host or to hand on; again with every view."""

    post: Post


class ReviseAgent(msgspec.Struct, frozen=True, array_like=True, tag=21):
    """From an owner: the domain of an agent that it posted before has a new view.

    In a large domain a view is long, and what changes is little.
    """

    domain: DomainId
    member: Name
    """Whom the agent speaks for."""
    base: int
    """The view that the member has …"""
    view: int
    """… and the new one."""
    gone: Annotated[tuple[Name, ...], msgspec.Meta(max_length=SEATS_MAX)]
    come: Annotated[tuple[Seat, ...], msgspec.Meta(max_length=SEATS_MAX)]
    """Seats that are new, or whose address is another one."""


class WithdrawAgent(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """From an owner: an agent is no longer the member's."""

    domain: DomainId
    member: Name
    """Whom the agent speaks for."""


class PostsTold(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """From an owner, once on each connection: all posts were told again; others are withdrawn."""


class Confirm(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """From a member: how far all of it has come with the sessions of a topic."""

    topic: Name
    installed: int
    """The newest session that all of it may send in."""
    flushed: int
    """All of it is done with sessions up to this one."""


class Nominate(msgspec.Struct, frozen=True, array_like=True, tag=22):
    """From a member, passed on to the root: a node offers to say the order of a session."""

    topic: Name
    session: int
    term: int
    """The one that the node knows of, and wants to follow; another is chosen only once."""
    sender: Sender


class ChangeSession(msgspec.Struct, frozen=True, array_like=True, tag=23):
    """From anybody who can reach the root of a topic: begin a new session."""

    topic: Name
    flavour: Flavour


class SessionAsked(msgspec.Struct, frozen=True, array_like=True, tag=24):
    """The answer: why not, or nothing; whether it is done is seen with ``Inspect``."""

    topic: Name
    reason: Reason


class RequestChannel(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """From the node that works an end of a channel to the manager of the other end."""

    channel: Channel
    of_source: bool = False
    """True: the target asks where the source is, in order to dial it."""


class Referral(msgspec.Struct, frozen=True, tag="referral"):
    """The manager that knows more: of the member that it was handed to."""

    address: Address


class OfferChannel(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Where the messages of a channel are to be sent, or who knows."""

    channel: Channel
    """As it was asked for, with the end that was asked for handed one step further."""
    where: Link | External | Referral
    of_source: bool = False


class ChannelRefused(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """There is no such channel, or not yet."""

    channel: Channel
    reason: Reason
    of_source: bool = False


class RequestAgent(msgspec.Struct, frozen=True, array_like=True, tag=16):
    """From an agent's host to the manager that knows where another agent of the domain is."""

    domain: DomainId
    path: Path
    """The member that the other agent speaks for, then who it was handed to, as far as known."""


class OfferAgent(msgspec.Struct, frozen=True, array_like=True, tag=17):
    """Where an agent is hosted, or who knows."""

    domain: DomainId
    path: Path
    """As it was asked for, and one step further."""
    where: Link | Referral


class AgentRefused(msgspec.Struct, frozen=True, array_like=True, tag=18):
    """There is no such agent, or not yet."""

    domain: DomainId
    path: Path
    reason: Reason


class Inspect(msgspec.Struct, frozen=True, array_like=True, tag=19):
    """From anybody: what is a scope made of, or who does what for a topic and why?"""

    topic: Name
    """Empty: the scope itself."""
    first: int
    """The number of the first row that is wanted."""


class Row(msgspec.Struct, frozen=True, array_like=True):
    """One thing about a scope."""

    kind: Name
    """``scope``, ``owner``, ``member``, ``topic``, ``channel``, ``domain``, ``agent``, …"""
    name: Annotated[str, msgspec.Meta(max_length=REASON_MAX)]
    facts: Annotated[dict[Name, Reason], msgspec.Meta(max_length=FACTS_MAX)]


class Inspected(msgspec.Struct, frozen=True, array_like=True, tag=20):
    """Some of the rows, and the number of the first one that is not here; 0: these are all."""

    topic: Name
    first: int
    rows: Annotated[tuple[Row, ...], msgspec.Meta(max_length=ROWS_MAX)]
    next: int


Message = (
    Register
    | Registered
    | Refused
    | Above
    | Alive
    | Subscribe
    | TopicRefused
    | Orders
    | PostAgent
    | ReviseAgent
    | WithdrawAgent
    | PostsTold
    | Confirm
    | Nominate
    | ChangeSession
    | SessionAsked
    | RequestChannel
    | OfferChannel
    | ChannelRefused
    | RequestAgent
    | OfferAgent
    | AgentRefused
    | Inspect
    | Inspected
)

PART_BYTES_MAX = FRAME_BYTES_MAX // 2
"""Ends of channels in one part of orders; a single end that is longer is refused."""


def split_orders(orders: Orders) -> list[Orders]:
    """Return orders in parts that fit into frames each."""
    if len(encode(orders)) <= PART_BYTES_MAX:
        return [orders]
    parts: list[tuple[list[Source], list[Target]]] = [([], [])]
    used = 0
    ends: tuple[Source | Target, ...] = (*orders.sources, *orders.targets)
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
        msgspec.structs.replace(
            orders,
            sources=tuple(sources),
            targets=tuple(targets),
            is_first=i == 0,
            is_last=i == last,
        )
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
