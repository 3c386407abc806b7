"""Which streams of this node come before which.

When views change, a group's messages go on in other streams, and must not overtake
those still under way in the old ones. The first packets of a stream, and those after
a group has moved to it, are STARTs: they name the streams to be delivered before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from quicksilver.multicast.sending.stream import GivenUp, SendStream

if TYPE_CHECKING:
    from quicksilver.multicast.sending.lane import Lane


class Precedence:
    """What each stream waits for, as members are told by its STARTs."""

    __slots__ = ("_lanes",)

    def __init__(self, lanes: Collection[Lane]) -> None:
        self._lanes = lanes
        """The lanes of this node, as they come and go."""

    def put_after(self, streams: Iterable[SendStream], older: Iterable[SendStream]) -> bool:
        """A group moves to other streams, which may have begun long ago.

        Its messages there must not overtake those still under way in the old
        ones, which may go on for the sake of other groups. Returns whether any are
        under way.
        """
        before: dict[SendStream, None] = {}
        for stream in older:
            # Two changes in a row: what an old one has not said yet, the new one says.
            self._forget_delivered(stream)
            before.update(stream.after)
            before.update(self.undelivered(stream))
        for stream in streams:
            stream.after.update((s, None) for s in before if s is not stream)
        return bool(before)

    def is_held_back(self, stream: SendStream) -> bool:
        """Whether members that have it may not deliver it yet: it waits for older ones."""
        self._forget_delivered(stream)
        return bool(stream.after) or any(self.undelivered(older) for older in stream.before)

    def _forget_delivered(self, stream: SendStream) -> None:
        """Of what the next START is to name, keep what is not delivered.

        A stream on which nothing is sent would keep all older ones in memory.
        """
        if stream.after:
            after: dict[SendStream, None] = {}
            for each in stream.after:
                after.update(self.undelivered(each))
            after.pop(stream, None)
            stream.after = after

    def undelivered(self, stream: SendStream) -> dict[SendStream, None]:
        """Return a stream that is unfinished, or else the ones that it waits for.

        Members that have acknowledged all of a stream may still hold it back, for
        the sake of others that its STARTs named.
        """
        found: dict[SendStream, None] = {}
        looked_at = {stream}
        to_look_at = [stream]
        while to_look_at:
            each = to_look_at.pop()
            if isinstance(each.state, GivenUp) or self.is_unfinished(each):
                found[each] = None
                continue
            for older in each.before:
                if older not in looked_at:
                    looked_at.add(older)
                    to_look_at.append(older)
        if stream not in found:
            # Finished ones on the way need not be remembered.
            stream.before = dict(found)
        return found

    def is_unfinished(self, stream: SendStream) -> bool:
        """Whether packets of it are under way, or pieces of a large message to come."""
        return bool(stream.packets) or self.find_fragmenting(stream) is not None

    def find_fragmenting(self, stream: SendStream) -> Lane | None:
        """Return the lane from which pieces of a large message are to come on a stream."""
        return next((lane for lane in self._lanes if lane.fragments_left(stream)), None)

    def predecessors(
        self, stream: SendStream, closing: Iterable[SendStream]
    ) -> list[tuple[int, int, int]]:
        """Return what the next START of a stream names: region, view, packets of each."""
        before: dict[SendStream, None] = {}
        for each in stream.after:
            before.update(self.undelivered(each))
        if not stream.next_sequence:
            before.update((s, None) for s in closing)
        before.pop(stream, None)
        named = dict(before)
        for each in stream.before:
            named.update(self.undelivered(each))
        named.pop(stream, None)
        stream.before = named
        return [(each.region, each.view, each.next_sequence) for each in before]
