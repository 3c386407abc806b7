"""What components over a channel share.

A ``ChannelUser`` opens the channel whose reference it is given, and ends with it.
A ``SharedObject`` is a state that every participant holds, changed by updates in one
order (6.2.1). The channel gives everybody the same updates in the same order, and
newcomers a state to start from. What is left for an object is to be a function of
them: its ``apply`` depends on the state and the update alone, so all copies stay equal.

An update that cannot be read, or that the object does not allow, is refused by
every participant alike: counted and dropped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final, Generic, TypeVar

from quicksilver.live.codec import BadMessageError, Codec
from quicksilver.live.components.interfaces import (
    CHECKPOINTED,
    PARTICIPANTS,
    ChannelWithParticipants,
    CheckpointedChannel,
    ParticipantLists,
    ParticipantRequests,
    channel_below,
)
from quicksilver.live.references.model import Reference
from quicksilver.live.runtime.context import Context
from quicksilver.live.types.declare import Given, endpoint
from quicksilver.live.types.reflect import Ref
from quicksilver.stdx.errors import QuicksilverError

U = TypeVar("U")
S = TypeVar("S")

WAITING_MAX: Final = 1000
"""Requests kept until the channel has brought this participant up to date."""


class ChannelLostError(QuicksilverError):
    """The channel below an object ended, and the object with it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"the channel of {self.name} ended; open the object again"


class RequestRefusedError(QuicksilverError):
    """An object that has no event to refuse a request with cannot carry one out."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.name} cannot do what it was asked: {self.reason}"


class ChannelUser(ABC):
    """A component over a channel; subclasses declare the inner endpoint ``channel``."""

    context: Context
    channel: Any

    def __init__(self, channel: Any) -> None:
        self._reference: Reference = channel
        self.bad_updates = 0
        """Messages that came in and were dropped."""

    @abstractmethod
    def handle_message(self, message: bytes) -> None:
        """Take a message of the channel; raises BadMessageError to refuse it."""

    async def start(self) -> None:
        """Open the channel."""
        await self.context.attach(self.channel, self._reference, "channel")

    def channel_receive(self, message: bytes) -> None:
        """Take a message; bad ones are counted and dropped."""
        try:
            self.handle_message(message)
        except BadMessageError:
            self.bad_updates += 1

    def channel_disconnected(self) -> None:
        """End with the channel: an object that hears nothing would be wrong soon."""
        context = self.context
        # A proxy that is closed parts from everything first: then there is no component by then.
        context.post(lambda: context.fail(ChannelLostError(context.name)))


class SharedObject(ChannelUser, Generic[U, S]):
    """One participant's copy; subclasses say what the state is and what updates do to it."""

    updates: ClassVar[Codec[Any]]
    states: ClassVar[Codec[Any]]

    channel = channel_below(CHECKPOINTED, inner=True)

    def __init__(self, channel: Given[Ref[CheckpointedChannel]]) -> None:
        super().__init__(channel)
        self.is_ready = False
        """Whether the channel has said what to start from."""
        # Lists: both are empty almost always, and an empty deque takes 600 bytes more.
        self._waiting: list[Callable[[], Any]] = []
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

    def announce(self) -> None:
        """Tell the user the whole state."""

    def handle_initialized(self, is_new: bool) -> None:
        """Take note that this copy is up to date; ``is_new``: nobody had a state."""

    def refuse(self, reason: str) -> None:
        """Tell the user that a request was not carried out."""
        raise RequestRefusedError(self.context.name, reason)

    # What subclasses use

    def submit(self, update: U) -> None:
        """Send an update to everybody; one that cannot be sent is refused."""
        try:
            message = self.updates.encode(update)
        except BadMessageError as error:
            self.refuse(str(error))
        else:
            self.when_ready(lambda: self.channel.send(message))

    def when_ready(self, step: Callable[[], Any]) -> None:
        """Do something as soon as the state is here; now, if it is."""
        if self.is_ready:
            step()
        elif len(self._waiting) < WAITING_MAX:
            self._waiting.append(step)
        else:
            self.refuse(f"{WAITING_MAX} requests wait for the channel already")

    @property
    def is_settled(self) -> bool:
        """Whether the channel has all that was asked for."""
        return not self._waiting

    # The channel

    def channel_initialize(self, state: bytes | None) -> None:
        """Start from a state. One that cannot be read ends the object: it would differ."""
        self.load(None if state is None else self.states.decode(state))
        self.is_ready = True
        self.announce()
        waiting, self._waiting = self._waiting, []
        for step in waiting:
            step()
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
                super().channel_receive(self._arrived.pop(0))
        finally:
            self._is_applying = False

    def handle_message(self, message: bytes) -> None:
        """Apply an update."""
        self.apply(self.updates.decode(message))

    def channel_capture(self, ticket: int) -> None:
        """Give the state after all updates so far."""
        self.channel.checkpoint(ticket, self.states.encode(self.save()))


class SharedByParticipants(SharedObject[U, S]):
    """A shared object that knows who takes part, at the same place among the updates."""

    watcher = endpoint(ParticipantLists, ParticipantRequests, name=PARTICIPANTS, inner=True)

    def __init__(self, channel: Given[Ref[ChannelWithParticipants]]) -> None:
        super().__init__(channel)  # type: ignore[arg-type]  # it is one, and tells more
        self.me = ""
        """Our name among the participants; empty before it is known."""

    @abstractmethod
    def handle_participants(self, there: set[str], is_renamed: bool) -> None:
        """Take who takes part; ``is_renamed``: ``me`` is another than before."""

    async def start(self) -> None:
        """Open the channel."""
        proxy = await self.context.attach(self.channel, self._reference, "channel")
        self.context.connect(self.watcher, proxy.endpoint(PARTICIPANTS))

    def watcher_participants(self, names: list[str], me: str) -> None:
        """Take a list of participants."""
        before, self.me = self.me, me
        self.handle_participants(set(names), me != before)
