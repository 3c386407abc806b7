"""What a scope manager tells whoever runs it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.filters import Filter
from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.scopes.management.messages import Flavour
from quicksilver.scopes.posts import DomainId, Post
from quicksilver.scopes.routing import Channel


class Purpose(Enum):
    """What a connection is for."""

    OWNER = "owner"
    """To be a member of the scope there …"""
    CHANNEL = "channel"
    """… or to ask where channels end, and where agents are."""


@dataclass(frozen=True, slots=True)
class Dial:
    """Whoever runs the manager is to connect to another one, and to say how that went."""

    address: str
    purpose: Purpose
    """Two connections to one address may be wanted; each is for one purpose."""


@dataclass(frozen=True, slots=True)
class OwnerJoined:
    """This scope is a member of an owner now."""

    owner: str


@dataclass(frozen=True, slots=True)
class OwnerLost:
    """An owner does not answer, or refused; it is tried again."""

    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class MemberJoined:
    name: str
    is_member: bool


@dataclass(frozen=True, slots=True)
class MemberGone:
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class TopicFailed:
    """A topic cannot be had here."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class SourceOpened:
    """This node is to carry messages along a channel."""

    channel: Channel
    filters: tuple[Filter, ...]
    where: Link | External
    waits: bool = True
    """Whether a slow target holds up publishers, or misses messages."""


@dataclass(frozen=True, slots=True)
class SourceAwaited:
    """This node is to carry messages along a channel whose target comes by itself: it makes a
    link to this node and says for which channel."""

    channel: Channel
    filters: tuple[Filter, ...]
    waits: bool = True


@dataclass(frozen=True, slots=True)
class SourceClosed:
    channel: Channel


@dataclass(frozen=True, slots=True)
class TargetOpened:
    """Messages will come to this node along a channel."""

    channel: Channel
    where: Link | None = None
    """The source, if this node is to make the link."""


@dataclass(frozen=True, slots=True)
class TargetClosed:
    channel: Channel


@dataclass(frozen=True, slots=True)
class ChannelRefused:
    """A channel cannot be had: nobody who could work it can be dialled, for example."""

    topic: str
    channel: str
    reason: str


@dataclass(frozen=True, slots=True)
class MechanismOpened:
    """This node sends the messages of a topic into a mechanism of a scope, and listens there;
    in place of the one that it used before, if any."""

    topic: str
    scope: str
    where: External
    path: tuple[str, ...]
    """The scope's member that this node stands for, and so on down to this node."""
    to: tuple[External, ...] = ()
    """Where it sends; empty: to where it listens."""


@dataclass(frozen=True, slots=True)
class MechanismClosed:
    topic: str
    scope: str


@dataclass(frozen=True, slots=True)
class AgentPosted:
    """This node is to host an agent; again with every view of its domain."""

    post: Post


@dataclass(frozen=True, slots=True)
class AgentWithdrawn:
    domain: DomainId
    member: str


@dataclass(frozen=True, slots=True)
class PeerFound:
    """Where an agent is hosted that takes part in the same domain as one of this node."""

    domain: DomainId
    member: str
    where: Link


@dataclass(frozen=True, slots=True)
class PeerLost:
    domain: DomainId
    member: str


@dataclass(frozen=True, slots=True)
class PeerRefused:
    """An agent of the same domain cannot be reached from here, and cannot come by itself."""

    domain: DomainId
    member: str
    reason: str


@dataclass(frozen=True, slots=True)
class PostRefused:
    """An owner posted an agent that it may not post."""

    owner: str
    reason: str


@dataclass(frozen=True, slots=True)
class SessionInstalled:
    """Messages of a topic may be sent in this session from now on, and come in it."""

    topic: str
    number: int
    flavour: Flavour


@dataclass(frozen=True, slots=True)
class SequencerChosen:
    """A node is to say the order of a session, in place of the one before; once ``is_firm``,
    nobody follows that one any more."""

    topic: str
    number: int
    sender: Sender
    term: int
    is_firm: bool


@dataclass(frozen=True, slots=True)
class SessionFlushing:
    """Nobody sends in a session any more. Once all of it is delivered here, the manager is to
    be told (``handle_flushed``)."""

    topic: str
    number: int


@dataclass(frozen=True, slots=True)
class SessionRetired:
    """Everybody is done with a session."""

    topic: str
    number: int


@dataclass(frozen=True, slots=True)
class TopicLeft:
    """This node has nothing to do with a topic any more; its channels are closed."""

    topic: str


@dataclass(frozen=True, slots=True)
class OrdersTooLarge:
    """A member would have to work more ends of channels than can be told: it is told nothing
    new. Another policy needs fewer, or the scope is to be divided."""

    topic: str
    member: str
    ends: int


@dataclass(frozen=True, slots=True)
class PolicyRefused:
    """A policy of this scope was not obeyed."""

    topic: str
    origin: str
    problem: str


Event = (
    OwnerJoined
    | OwnerLost
    | MemberJoined
    | MemberGone
    | TopicFailed
    | SourceOpened
    | SourceAwaited
    | SourceClosed
    | TargetOpened
    | TargetClosed
    | ChannelRefused
    | MechanismOpened
    | MechanismClosed
    | AgentPosted
    | AgentWithdrawn
    | PeerFound
    | PeerLost
    | PeerRefused
    | PostRefused
    | SessionInstalled
    | SequencerChosen
    | SessionFlushing
    | SessionRetired
    | TopicLeft
    | OrdersTooLarge
    | PolicyRefused
)
