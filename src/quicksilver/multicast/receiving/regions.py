"""The region views that a node receives in, and those that it received in lately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quicksilver.multicast.receiving.region import Region
    from quicksilver.multicast.receiving.stream import ReceiveStream
    from quicksilver.wire.packets import Start

Name = tuple[int, int]
"""A region and the number of its view."""

FORGOTTEN_MAX = 256
"""Views that are over and of which it is remembered how much was delivered."""


ANSWERS_BELIEVED = 2
"""Answers of the GMS that know no newer batch, the first of which may be an old one."""


@dataclass(slots=True, eq=False)
class Awaiting:
    """A stream that is held until news have come, and the packet that said so."""

    stream: ReceiveStream
    start: Start
    answers: int = 0


class Regions:
    """Region views by name, and their streams by the key that packets carry."""

    def __init__(self) -> None:
        self.by_name: dict[Name, Region] = {}
        self.streams: dict[bytes, ReceiveStream] = {}
        """Every stream of every view: a packet's first look-up."""
        self.touched: dict[Name, None] = {}
        """Views to which something happened since they were last asked for their next alarm."""
        self._forgotten: dict[Name, dict[int, int]] = {}
        self._awaiting: list[Awaiting] = []
        """Streams that are held until it is known whether this node was in views that come
        before them; each is here once at most."""

    def find(self, region: int, view: int) -> Region | None:
        return self.by_name.get((region, view))

    def has_view_of(self, region: int) -> bool:
        return any(name == region for name, _ in self.by_name)

    def count_busy(self) -> int:
        """Return how many views have streams with something to agree on."""
        return sum(1 for region in self.by_name.values() if region.active)

    def forget(self, name: Name) -> None:
        """A view is over: of each stream only how much was delivered is remembered."""
        region = self.by_name.pop(name)
        for stream in region.streams.values():
            self.streams.pop(stream.key, None)
        self._forgotten[name] = {s: stream.delivered() for s, stream in region.streams.items()}
        if len(self._forgotten) > FORGOTTEN_MAX:
            del self._forgotten[next(iter(self._forgotten))]
        region.close()

    def delivered_before(self, name: Name, sender: int) -> int | None:
        """Return how much of a stream was delivered when its view was forgotten.

        None if the view never was known, or is no longer.
        """
        delivered = self._forgotten.get(name)
        return None if delivered is None else delivered.get(sender, 0)

    def await_news(self, stream: ReceiveStream, start: Start) -> None:
        """A stream comes after views that may have been this node's, in news still to come."""
        stream.hold_for_news()
        self._awaiting.append(Awaiting(stream, start))

    def handle_news(self, complete_batch: int, *, is_answer: bool) -> bool:
        """All changes up to a batch are known: go on with what waited for that.

        ``is_answer``: the GMS has said so, and knows no newer one. Two answers in a row show that
        a stream names a batch that never was. Returns whether another answer is wanted.
        """
        if not self._awaiting:
            return False
        for each in self._awaiting:
            each.answers += is_answer
        done = [
            each
            for each in self._awaiting
            if each.start.batch <= complete_batch or each.answers >= ANSWERS_BELIEVED
        ]
        self._awaiting = [each for each in self._awaiting if each not in done]
        for each in done:
            if each.stream.awaits_news():
                if each.start.batch <= complete_batch:
                    # Views that were not known may be by now.
                    each.stream.region.handle_start(each.stream, each.start)
                each.stream.handle_news()
        return is_answer and bool(self._awaiting)

    def become_nobody(self) -> None:
        """The incarnation is over: nothing that waits is delivered any more."""
        self._awaiting.clear()
        for region in self.by_name.values():
            # What waits for an older stream would come after its gap.
            for stream in region.streams.values():
                stream.waiters.clear()
        for region in self.by_name.values():
            region.close()
        self.by_name.clear()
        self.streams.clear()
        self._forgotten.clear()
