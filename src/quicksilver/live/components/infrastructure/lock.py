"""A lock that one of all who open it holds at a time."""

from __future__ import annotations

from typing import ClassVar, Protocol, TypeAlias

import msgspec

from quicksilver.live.codec import STATE_BYTES_MAX, UPDATE_BYTES_MAX, Codec
from quicksilver.live.components.interfaces import ChannelWithParticipants
from quicksilver.live.components.shared_object import SharedByParticipants
from quicksilver.live.runtime.components import component
from quicksilver.live.types.declare import Given, endpoint, live_object
from quicksilver.live.types.reflect import Ref

Queue: TypeAlias = list[tuple[str, int]]
"""Participants and their turns; the first holds the lock."""


class Step(msgspec.Struct, frozen=True, array_like=True):
    """Somebody wants the lock, or does not any more."""

    is_wanted: bool
    who: str
    turn: int
    """Counts what one participant asks for: a release is for one acquire."""


class LockRequests(Protocol):
    """Events that users send to a lock."""

    def acquire(self) -> None:
        """Wait for the lock; ``granted`` comes when it is ours. Asking twice is asking once."""

    def release(self) -> None:
        """Let it go, or stop waiting for it."""


class LockNews(Protocol):
    """Events that a lock sends to its users."""

    def granted(self) -> None:
        """The lock is ours."""

    def lost(self) -> None:
        """It is not ours any more, although we did not let it go: this node was counted out."""

    def held(self, holder: str, waiting: int) -> None:
        """Say which participant holds it (an empty text: nobody), and how many wait."""


@component("quicksilver.lock", type_name="Lock")
@live_object(title="Lock")
class Lock(SharedByParticipants[Step, Queue]):
    """a lock that participants hold one at a time, in the order they asked

    It is released when its holder's proxy closes or its node leaves the view, at
    the same place among all requests for everybody. A holder that is cut off from
    the membership service is told ``lost`` only when it is back: what the lock
    protects must itself refuse who is not in the view, or be on the channel.
    """

    updates: ClassVar = Codec[Step](Step, "a request", UPDATE_BYTES_MAX)
    states: ClassVar = Codec[Queue](Queue, "a queue", STATE_BYTES_MAX)

    lock = endpoint(LockRequests, LockNews, name="Lock")

    def __init__(self, channel: Given[Ref[ChannelWithParticipants]]) -> None:
        super().__init__(channel)
        self._queue: Queue = []
        self._turn = 0
        self._is_wanted = False
        self._is_ours = False
        self._told: tuple[str, int] | None = None

    # The state

    def load(self, state: Queue | None) -> None:
        """Begin with this queue; who waits is told when the participants are known."""
        self._queue = state or []

    def save(self) -> Queue:
        return self._queue

    def apply(self, update: Step) -> None:
        """Let a participant wait, or stop waiting."""
        place = (update.who, update.turn)
        if not update.is_wanted:
            if place in self._queue:
                self._queue.remove(place)
        elif place not in self._queue:
            self._queue.append(place)
        self._tell()

    def handle_participants(self, there: set[str], is_renamed: bool) -> None:
        """Take those who have gone out of the queue."""
        self._queue = [place for place in self._queue if place[0] in there]
        if is_renamed and self._is_wanted:  # under our old name it is not ours any more
            self._turn += 1
            self._say(is_wanted=True)
        self._tell()

    def _tell(self) -> None:
        first = self._queue[0] if self._queue else None
        is_ours = self._is_wanted and first == (self.me, self._turn)
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
        self.submit(Step(is_wanted, self.me, self._turn))

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
            if self.me:
                self._say(is_wanted=True)

    def lock_release(self) -> None:
        if self._is_wanted:
            self._is_wanted = False
            self._is_ours = False
            if self.me:
                self._say(is_wanted=False)
