"""The endpoints that components of the library meet at.

Each pair of classes is an endpoint seen from the object that provides it: what
comes in, what goes out. Whoever uses it declares the same pair the other way
round.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from quicksilver.live.types.declare import endpoint, live_object

UNRELIABLE: Final = "UnreliableChannel"
RELIABLE: Final = "ReliableChannel"
CHECKPOINTED: Final = "CheckpointedChannel"
MEMBERSHIP: Final = "Membership"
PARTICIPANTS: Final = "Participants"


class ChannelRequests(Protocol):
    """Events that users send to a channel."""

    def send(self, message: bytes) -> None:
        """Send to everybody who uses the channel, oneself included."""


class ChannelDeliveries(Protocol):
    """Events that a channel sends to its users."""

    def receive(self, message: bytes) -> None:
        """Take a message that somebody sent."""


class CheckpointedRequests(Protocol):
    """Events that users send to a checkpointed channel (dissertation 6.2.1)."""

    def send(self, message: bytes) -> None:
        """Send an update; it comes back to everybody, the sender included, in one order."""

    def checkpoint(self, ticket: int, state: bytes) -> None:
        """Give the state that ``capture`` asked for."""


class CheckpointedDeliveries(Protocol):
    """Events that a checkpointed channel sends to its users.

    First ``initialize`` comes, then updates in one order.
    ``initialize`` comes again if this node was counted out and came back: what was
    there before is replaced.
    """

    def initialize(self, state: bytes | None) -> None:
        """Start from this state; None: nobody has one, start from nothing."""

    def receive(self, message: bytes) -> None:
        """Apply an update to the state."""

    def capture(self, ticket: int) -> None:
        """Answer with ``checkpoint``: the state after all updates received so far."""


class ParticipantRequests(Protocol):
    """Events that users send to a list of participants: nothing."""


class ParticipantLists(Protocol):
    """Who uses a checkpointed channel, told at the same place among the updates to all."""

    def participants(self, names: list[str], me: str) -> None:
        """Take the users of the channel, in the order they came; ``me`` is this one.

        A user that was counted out and came back has another name.
        """


class MembershipRequests(Protocol):
    """Events that users send to a membership object: nothing."""


class MembershipViews(Protocol):
    """Events that a membership object sends to its users."""

    def view(self, number: int, members: list[int], me: int) -> None:
        """Take a view: its number grows; members are in the same order everywhere."""


_CHANNELS: Final[dict[str, tuple[type, type, str]]] = {
    UNRELIABLE: (ChannelRequests, ChannelDeliveries, "best effort"),
    RELIABLE: (ChannelRequests, ChannelDeliveries, "exactly once and fifo"),
    CHECKPOINTED: (CheckpointedRequests, CheckpointedDeliveries, "exactly once and total"),
}
"""Kinds of channels: what users send, what they are sent, and how that is delivered."""


def channel_for_users(kind: str) -> Any:
    """Declare an endpoint at which a component is a channel of this kind to others."""
    requests, deliveries, delivery = _CHANNELS[kind]
    return endpoint(requests, deliveries, provides=[("delivery", delivery)], name=kind)


def channel_below(kind: str, *, name: str = "", inner: bool = False) -> Any:
    """Declare an endpoint at which a component uses a channel of this kind.

    It has the kind's name by default. ``inner``: the component opens the channel itself.
    """
    requests, deliveries, delivery = _CHANNELS[kind]
    return endpoint(
        deliveries,
        requests,
        requires=[("delivery", delivery)],
        name=name or kind,
        inner=inner,
    )


@live_object(title="Channel")
class UnreliableChannel:
    """A channel that does its best: messages may be lost, repeated or overtaken."""

    channel = channel_for_users(UNRELIABLE)


@live_object(title="ReliableChannel")
class ReliableChannel:
    """A channel that loses and repeats nothing and keeps each sender's order."""

    channel = channel_for_users(RELIABLE)


@live_object(title="CheckpointedChannel")
class CheckpointedChannel:
    """A totally ordered channel that brings newcomers up to date."""

    channel = channel_for_users(CHECKPOINTED)


@live_object(title="CheckpointedGroup")
class ChannelWithParticipants:
    """A checkpointed channel that also tells who takes part."""

    channel = channel_for_users(CHECKPOINTED)
    watcher = endpoint(ParticipantRequests, ParticipantLists, name=PARTICIPANTS)


@live_object(title="Membership")
class Membership:
    """Who is there, in numbered views."""

    membership = endpoint(MembershipRequests, MembershipViews, name=MEMBERSHIP)
