"""Who waits until all that was sent is on every surviving member.

A flush first waits until the lanes have given away what was queued when it began,
then until the streams that carried it are acknowledged up to where they were. A stream
that ended without acknowledgement is waited for no longer: what it carried was noted as
unconfirmed. Notes go to every flush that waits then, or to the first that ends after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from quicksilver.multicast.sending.stream import SendStream
from quicksilver.multicast.sending.unconfirmed import Notes, Unconfirmed

if TYPE_CHECKING:
    from quicksilver.multicast.sending.group import GroupSender
    from quicksilver.multicast.sending.lane import Lane

OnDone = Callable[[tuple[Unconfirmed, ...]], None]
"""Called once, when all is acknowledged or noted: with what nobody can vouch for."""


class Flush:
    """Waits until everything sent so far is on all surviving members."""

    __slots__ = ("lanes", "notes", "on_done", "streams", "waits_for")

    def __init__(self, lanes: dict[Lane, int], waits_for: set[str], on_done: OnDone) -> None:
        self.lanes = lanes
        """Up to which of its messages each lane is waited for."""
        self.waits_for = waits_for
        """Groups without members for which messages wait that were sent before."""
        self.streams: dict[SendStream, int] | None = None
        self.on_done = on_done
        self.notes = Notes()
        """What was lost since it began."""


class Flushes:
    """The flushes under way."""

    __slots__ = ("_empty", "_live", "unconfirmed", "waiting")

    def __init__(
        self, live: Callable[[], Iterable[SendStream]], empty: Callable[[], Iterable[str]]
    ) -> None:
        """``live`` returns the streams under way, ``empty`` the groups whose messages wait for
        members."""
        self.waiting: list[Flush] = []
        """Callers look here before they call ``check``, which most often is not needed."""
        self.unconfirmed = Notes()
        """What was lost while nobody waited, until a flush tells of it."""
        self._live = live
        self._empty = empty

    def begin(self, lanes: Iterable[Lane], on_done: OnDone) -> None:
        """Wait for what the lanes hold now and what is under way."""
        marks = {lane: lane.pulled_messages + lane.outbox.count() for lane in lanes}
        self.waiting.append(Flush(marks, set(self._empty()), on_done))
        self.check()

    def check(self) -> None:
        """Something was sent or acknowledged: tell those who have waited long enough."""
        done = []
        for flush in self.waiting:
            flush.lanes = {
                lane: mark
                for lane, mark in flush.lanes.items()
                if lane.pulled_messages < mark or lane.large is not None
            }
            if flush.lanes or flush.waits_for:
                continue
            if flush.streams is None:
                flush.streams = {s: s.next_sequence for s in self._live() if s.packets}
            flush.streams = {s: n for s, n in flush.streams.items() if s.safe < n and s.packets}
            if not flush.streams:
                done.append(flush)
        for flush in done:
            self.waiting.remove(flush)
            flush.notes.add(self.unconfirmed.take())
            flush.on_done(flush.notes.take())

    def handle_set_aside(self, sender: GroupSender) -> None:
        """The next message of a lane waits for members, and whoever flushed after it was sent."""
        lane = sender.lane
        for flush in self.waiting:
            if lane.pulled_messages < flush.lanes.get(lane, 0):
                flush.waits_for.add(sender.name)

    def handle_waited(self, sender: GroupSender, queued: int) -> None:
        """What waited for a group's members is given up, or ``queued`` before all others."""
        lane = sender.lane
        for flush in self.waiting:
            is_awaited = sender.name in flush.waits_for
            flush.waits_for.discard(sender.name)
            if queued and (is_awaited or lane in flush.lanes):
                mark = max(flush.lanes.get(lane, 0), lane.pulled_messages)
                flush.lanes[lane] = mark + queued

    def note(self, found: Iterable[Unconfirmed]) -> None:
        """Messages are lost: those who flush are told in the end."""
        told = list(found)
        for notes in [flush.notes for flush in self.waiting] or [self.unconfirmed]:
            notes.add(told)

    def take_put_back(self) -> tuple[Unconfirmed, ...]:
        """Return what was noted and no flush under way will tell."""
        return self.unconfirmed.take()

    def take_unconfirmed(self) -> tuple[Unconfirmed, ...]:
        """Return all that was noted and not told, those who wait will not tell it either."""
        notes = Notes()
        for each in (self.unconfirmed, *(flush.notes for flush in self.waiting)):
            notes.add(each.take())
        return notes.take()
