"""What a node had of a topic when its applications left it: nothing of that comes again.

A node that leaves forgets the streams of a topic, and one that comes back is given them from
where others can give them. What it has had already is left out for its applications.
"""

from __future__ import annotations

from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender

MARKS_MAX = 10_000
"""Streams of topics that were left, whose marks are remembered."""


class Stays:
    """How far each stream had come when its topic was left."""

    def __init__(self) -> None:
        self._marks: dict[tuple[str, Sender], int] = {}

    def handle_left(self, topic: str, lows: dict[Sender, int]) -> None:
        """A topic is left; ``lows``: what would have come next, by sender."""
        for sender, low in lows.items():
            known = self._marks.pop((topic, sender), 0)
            self._marks[topic, sender] = max(known, low)
        while len(self._marks) > MARKS_MAX:
            del self._marks[next(iter(self._marks))]

    def lacking(self, item: Packet | Gap) -> Packet | Gap | None:
        """Return what of an item did not come before the topic was left."""
        if not self._marks:
            return item
        name = item.topic, item.sender
        mark = self._marks.get(name, 0)
        first, stop = (
            (item.number, item.stop) if isinstance(item, Packet) else (item.first, item.last + 1)
        )
        if stop <= mark:
            return None
        if name in self._marks:
            del self._marks[name]
        if first >= mark:
            return item
        return item.cut(mark, stop) if isinstance(item, Packet) else item._replace(first=mark)
