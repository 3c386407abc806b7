"""Where the messages and views of a group go, as the core of a node of a GMS sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from quicksilver.multicast.routes import Receivers
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.node.log import Droppable
from quicksilver.node.messages import View
from quicksilver.wire.envelope import Envelope
from quicksilver.wire.packets import Messages


class GroupSink(Protocol):
    """Where a group's messages and views go; called on the core thread."""

    name: str
    echo: bool

    def ready_on_core(self, sender: GroupSender) -> None: ...

    def deliver_on_core(self, messages: Messages) -> None: ...

    def deliver_enveloped_on_core(
        self, messages: Messages, envelopes: Sequence[Envelope]
    ) -> None: ...

    def receivers_on_core(self, name: str) -> Receivers:
        """Return who takes the messages of a group that this pattern stands for."""
        ...

    def view_on_core(self, view: View) -> None: ...

    def emptiness_on_core(self) -> None:
        """The group's sender has noted that nobody is in the group, or that somebody is."""
        ...

    def unconfirmed_on_core(self, messages: Unconfirmed) -> None:
        """Messages that were sent to the group may be lost, and nobody was told yet."""
        ...

    def told_on_core(self) -> None:
        """A flush has reported the messages that may be lost."""
        ...

    def fail_on_core(self, error: Exception) -> None:
        """Nothing more will come."""
        ...


@runtime_checkable
class DroppingSink(GroupSink, Droppable, Protocol):
    """A sink with a queue of its own."""

    @property
    def may_drop(self) -> bool:
        """Whether the queue loses messages when it is full."""
        ...


@runtime_checkable
class PatternSink(GroupSink, Protocol):
    """The sink of a pattern that wants to know when groups end."""

    def unmatched_on_core(self, name: str) -> None:
        """A group that the pattern stood for has ended, or the node is not in it any more."""
        ...
