"""The events of an engine and of a session: facts in the past tense, taken by ``poll_event``.

Messages are no events. They go out by the fast path that ``session`` describes, a
call a packet; only those that arrive while events wait to be taken stand in line
behind them, as ``MessagesArrived``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from quicksilver.membership.directory import GroupView
from quicksilver.membership.events import ClientEvent
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.wire.envelope import Envelope
from quicksilver.wire.ids import GroupId, NodeId
from quicksilver.wire.packets import Messages

Receiver = Callable[[Messages], None]
"""Takes messages of one packet, in the order of their sender; must not block."""

EnvelopeReceiver = Callable[[Messages, Sequence[Envelope]], None]
"""The same for messages that came with envelopes, one for each."""


class GapFound(msgspec.Struct, frozen=True):
    """Messages due to this node can no longer be had: the incarnation has to end."""

    reason: str


class MessagesUnconfirmed(msgspec.Struct, frozen=True):
    """Messages of this node were lost, or may be: who should have them may not."""

    messages: tuple[Unconfirmed, ...]


class FlushEnded(msgspec.Struct, frozen=True):
    """All that was sent before a flush is on every surviving member, or is unconfirmed."""

    number: int
    """As ``flush`` returned it."""
    unconfirmed: tuple[Unconfirmed, ...]
    """What nobody can vouch for, and no flush told before. Whoever cannot be told puts it
    back (``Session.put_back_unconfirmed``)."""


class EmptinessChanged(msgspec.Struct, frozen=True):
    """A group that this node sends to has no members any more, or has some again.

    Not told of groups whose messages are dropped while nobody is in them.
    """

    name: str
    is_empty: bool


class MessagesWaiting(msgspec.Struct, frozen=True):
    """The first message waits for a group to have members."""

    name: str


EngineEvent = GapFound | MessagesUnconfirmed | FlushEnded | EmptinessChanged | MessagesWaiting


class GroupReady(msgspec.Struct, frozen=True):
    """A group that was joined or opened can be sent to."""

    name: str
    group: GroupId
    sender: GroupSender


class GroupViewChanged(msgspec.Struct, frozen=True):
    """A group has a new view; each is told once and in order.

    Who joined the group and who opened it for sending are told apart: a member is told
    the views that have it in, from its join on.
    """

    view: GroupView
    joined: tuple[NodeId, ...]
    """Members that were not in the view told before, and …"""
    left: tuple[NodeId, ...]
    """… those that are no longer; both sorted."""
    is_member: bool
    """True for whoever joined, False for whoever opened."""


class GroupUnmatched(msgspec.Struct, frozen=True):
    """A group that patterns stood for has ended, or this node is not in it any more."""

    name: str
    patterns: tuple[str, ...]


class MessagesArrived(msgspec.Struct, frozen=True):
    """Messages that came behind events not taken yet: whoever takes this delivers them."""

    receiver: Receiver
    messages: Messages

    def deliver(self) -> None:
        self.receiver(self.messages)


SessionEvent = (
    ClientEvent
    | GroupReady
    | GroupViewChanged
    | GroupUnmatched
    | MessagesUnconfirmed
    | FlushEnded
    | EmptinessChanged
    | MessagesWaiting
    | MessagesArrived
)
"""The events of a session: what it heard from the GMS, and what follows from that."""
