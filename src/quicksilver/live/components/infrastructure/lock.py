"""A lock that one of all who open it holds at a time."""

from __future__ import annotations

from typing import Protocol

import msgspec

from quicksilver.live.components.infrastructure.replicated import Replicated
from quicksilver.live.components.interfaces import (
    CHECKPOINTED,
    PARTICIPANTS,
    CheckpointedDeliveries,
    CheckpointedRequests,
    ParticipantLists,
    ParticipantRequests,
)
from quicksilver.live.runtime.components import component
from quicksilver.live.runtime.context import Context
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

_QUEUES = msgspec.msgpack.Decoder(list[tuple[str, int]])


@live_object(title="CheckpointedGroup")
class ChannelWithParticipants:
    """A checkpointed channel that also tells who takes part."""

    channel = endpoint(
        CheckpointedRequests,
        CheckpointedDeliveries,
        provides=[("delivery", "exactly once and total")],
        name=CHECKPOINTED,
    )
    watcher = endpoint(ParticipantRequests, ParticipantLists, name=PARTICIPANTS)


class Step(msgspec.Struct, frozen=True, array_like=True):
    """Somebody wants the lock, or does not any more."""

    is_wanted: bool
    who: str
    turn: int
    """Counts what one participant asks for: a release is for one acquire."""


_STEPS = msgspec.msgpack.Decoder(Step)


class LockRequests(Protocol):
    """What a lock takes."""

    def acquire(self) -> None:
        """Wait for the lock; ``granted`` comes when it is ours. Asking twice is asking once."""

    def release(self) -> None:
        """Let it go, or stop waiting for it."""


class LockNews(Protocol):
    """What a lock gives."""

    def granted(self) -> None:
        """The lock is ours."""

    def lost(self) -> None:
        """It is not ours any more, although we did not let it go: this node was counted out."""

    def held(self, holder: str, waiting: int) -> None:
        """Say which participant holds it (an empty text: nobody), and how many wait."""


@component("quicksilver.lock", type_name="Lock")
@live_object(title="Lock")
class Lock:
    """a lock that participants hold one at a time, in the order they asked

    It is released when its holder's proxy closes or its node leaves the view, at
    the same place among all requests for everybody. A holder that is cut off from
    the membership service is told ``lost`` only when it is back: what the lock
    protects must itself refuse who is not in the view, or be on the channel.
    """

    context: Context
    lock = endpoint(LockRequests, LockNews, name="Lock")

    def __init__(self, channel: Given[Ref[ChannelWithParticipants]]) -> None:
        self._channel = channel
        self._queue: list[tuple[str, int]] = []
        """Participants and their turns; the first holds the lock."""
        self._me = ""
        self._turn = 0
        self._is_wanted = False
        self._is_ours = False
        self._told: tuple[str, int] | None = None
        self._state = Replicated(
            self.context,
            initialize=self._initialize,
            receive=self._receive,
            capture=lambda: msgspec.msgpack.encode(self._queue),
            participants=self._take_participants,
        )

    async def start(self) -> None:
        """Open the channel."""
        await self._state.open(self._channel)

    # The channel

    def _initialize(self, state: bytes | None) -> None:
        self._queue = [] if state is None else _QUEUES.decode(state)

    def _receive(self, update: bytes) -> None:
        step = _STEPS.decode(update)
        place = (step.who, step.turn)
        if not step.is_wanted:
            if place in self._queue:
                self._queue.remove(place)
        elif place not in self._queue:
            self._queue.append(place)
        self._tell()

    def _take_participants(self, names: list[str], me: str) -> None:
        there = set(names)
        self._queue = [place for place in self._queue if place[0] in there]
        if me != self._me:
            self._me = me
            if self._is_wanted:  # under our old name it is not ours any more
                self._turn += 1
                self._say(is_wanted=True)
        self._tell()

    def _tell(self) -> None:
        first = self._queue[0] if self._queue else None
        is_ours = self._is_wanted and first == (self._me, self._turn)
        if self._is_ours and not is_ours and self._is_wanted:
            self.lock.lost()
        news = ("" if first is None else first[0], max(0, len(self._queue) - 1))
        if news != self._told:
            self._told = news
            self.lock.held(*news)
        if is_ours and not self._is_ours:
            self._is_ours = True
            self.lock.granted()
        else:
            self._is_ours = is_ours

    def _say(self, *, is_wanted: bool) -> None:
        self._state.send(msgspec.msgpack.encode(Step(is_wanted, self._me, self._turn)))

    # Users

    def lock_connected(self) -> None:
        if self._told is not None:
            self.lock.held(*self._told)
        if self._is_ours:
            self.lock.granted()

    def lock_disconnected(self) -> None:
        self.lock_release()

    def lock_acquire(self) -> None:
        if not self._is_wanted:
            self._is_wanted = True
            self._turn += 1
            if self._me:
                self._say(is_wanted=True)

    def lock_release(self) -> None:
        if self._is_wanted:
            self._is_wanted = False
            self._is_ours = False
            if self._me:
                self._say(is_wanted=False)
