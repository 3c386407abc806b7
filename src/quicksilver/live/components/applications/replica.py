"""A state that every participant holds, changed by updates in one order (6.2.1).

The channel gives everybody the same updates in the same order, and newcomers a
state to start from. What is left for an object is to be a function of them: its
``apply`` depends on the state and the update alone, so replicas stay equal.

An update that cannot be read, or that the object does not allow, is refused by
every replica alike: counted and dropped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final, Generic, TypeVar

from quicksilver.live.components.applications.codec import BadMessageError, Codec
from quicksilver.live.components.interfaces import (
    CHECKPOINTED,
    CheckpointedChannel,
    CheckpointedDeliveries,
    CheckpointedRequests,
)
from quicksilver.live.references.model import Reference
from quicksilver.live.runtime.context import Context
from quicksilver.live.types.declare import Given, endpoint
from quicksilver.live.types.reflect import Ref

U = TypeVar("U")
S = TypeVar("S")

PENDING_MAX: Final = 1000
"""Requests kept until the channel has brought this replica up to date."""


class ChannelLostError(Exception):
    """The channel below an object ended, and the object with it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"the channel of {self.name} ended; open the object again"


def end_with_channel(context: Context) -> None:
    """End a component whose channel is gone, unless it is being closed itself."""
    # A proxy that is closed parts from everything first: then there is no component by then.
    context.post(lambda: context.fail(ChannelLostError(context.name)))


class Replica(ABC, Generic[U, S]):
    """One participant's copy; subclasses say what the state is and what updates do to it."""

    updates: ClassVar[Codec[Any]]
    states: ClassVar[Codec[Any]]

    context: Context
    channel = endpoint(
        CheckpointedDeliveries,
        CheckpointedRequests,
        requires=[("delivery", "exactly once and total")],
        name=CHECKPOINTED,
        inner=True,
    )

    def __init__(self, channel: Given[Ref[CheckpointedChannel]]) -> None:
        self._reference: Reference = channel  # type: ignore[assignment]  # Ref annotates references
        self.is_ready = False
        """Whether the channel has said what to start from."""
        self.bad_updates = 0
        """Updates that came in and were dropped."""
        # Lists: both are empty almost always, and an empty deque takes 600 bytes more.
        self._pending: list[bytes] = []
        self._arrived: list[bytes] = []
        self._is_applying = False

    # What an object is

    @abstractmethod
    def load(self, state: S | None) -> None:
        """Take this state, or begin with nothing; raises BadMessageError."""

    @abstractmethod
    def save(self) -> S:
        """Return the state."""

    @abstractmethod
    def apply(self, update: U) -> None:
        """Change the state and tell the user; raises BadMessageError to refuse."""

    @abstractmethod
    def announce(self) -> None:
        """Tell the user the whole state."""

    def handle_initialized(self, is_new: bool) -> None:
        """Take note that the replica is up to date; ``is_new``: nobody had a state."""

    @abstractmethod
    def refuse(self, reason: str) -> None:
        """Tell the user that a request was not carried out."""

    # What subclasses use

    def submit(self, update: U) -> None:
        """Send an update to everybody; one that cannot be sent is refused."""
        try:
            message = self.updates.encode(update)
        except BadMessageError as error:
            self.refuse(str(error))
            return
        if self.is_ready:
            self.channel.send(message)
        elif len(self._pending) < PENDING_MAX:
            self._pending.append(message)
        else:
            self.refuse(f"{PENDING_MAX} requests wait for the channel already")

    @property
    def is_settled(self) -> bool:
        """Whether the channel has all that was asked for."""
        return not self._pending

    # The channel

    async def start(self) -> None:
        """Open the channel."""
        await self.context.attach(self.channel, self._reference, "channel")

    def channel_initialize(self, state: bytes | None) -> None:
        """Start from a state. One that cannot be read ends the replica: it would differ."""
        self.load(None if state is None else self.states.decode(state))
        self.is_ready = True
        self.announce()
        pending, self._pending = self._pending, []
        for message in pending:
            self.channel.send(message)
        self.handle_initialized(state is None)

    def channel_receive(self, message: bytes) -> None:
        """Apply an update, after those that came before."""
        # A user who is told of a change may cause the next one before the first is through.
        self._arrived.append(message)
        if self._is_applying:
            return
        self._is_applying = True
        try:
            while self._arrived:
                self._apply(self._arrived.pop(0))
        finally:
            self._is_applying = False

    def channel_capture(self, ticket: int) -> None:
        """Give the state after all updates so far."""
        self.channel.checkpoint(ticket, self.states.encode(self.save()))

    def channel_disconnected(self) -> None:
        """End with the channel: a replica that hears nothing would be wrong soon."""
        end_with_channel(self.context)

    def _apply(self, message: bytes) -> None:
        try:
            self.apply(self.updates.decode(message))
        except BadMessageError:
            self.bad_updates += 1
