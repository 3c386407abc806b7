"""Where members begin that were away: with what was sent meanwhile, though it is stable.

What is stable was for those who were there, and whoever joins a topic begins after it. A member
that was passed over for a while was there, too. Of streams that it knows it says itself what it
lacks; of one that began while it was away it knows nothing, and must not take itself for new.
So when a domain passes a member over, or has lost one, all who take part note where its streams
were then, and for how long it may still come back. It counts for those who had joined before.
"""

from __future__ import annotations

from quicksilver.scopes.dissemination.holdings import STREAMS_MAX, Name

RETURN_S = 15.0
"""Who was away for longer than this has missed what was sent meanwhile."""

MARKS_MAX = 8
"""Marks of one stream: members may leave at many times."""


class Returns:
    """For each stream: from where those begin who come back, and until when."""

    def __init__(self) -> None:
        self._marks: dict[Name, list[tuple[float, int]]] = {}
        """Until when members may come back, and the number that they begin at; both grow."""
        self._expires_at: float | None = None

    def note(self, name: Name, mark: int, until: float) -> None:
        """Until a time, a member may come back that has to get what follows a number."""
        marks = self._marks.setdefault(name, [])
        if any(until <= other + RETURN_S / MARKS_MAX and mark >= low for other, low in marks):
            return
        marks[:] = [each for each in marks if each[0] > until or each[1] < mark]
        marks.append((until, mark))
        marks.sort()
        del marks[1:-MARKS_MAX]
        if len(self._marks) > STREAMS_MAX:
            del self._marks[next(iter(self._marks))]
        if self._expires_at is None or until < self._expires_at:
            self._expires_at = until

    def of_stream(self, name: Name) -> list[tuple[float, int]]:
        """Return until when members may come back, and the numbers that they begin at."""
        return self._marks.get(name, [])

    def find(self, name: Name, joined_at: float) -> int | None:
        """Return where a member begins that was there from a time on, or None: it is new."""
        marks = (mark for until, mark in self.of_stream(name) if joined_at <= until - RETURN_S)
        return next(marks, None)

    def next_timeout(self) -> float | None:
        return self._expires_at

    def expire(self, now: float) -> list[Name]:
        """Forget what is over; return the streams that this changes."""
        if self._expires_at is None or now < self._expires_at:
            return []
        changed = []
        for name, marks in list(self._marks.items()):
            if marks[0][0] <= now:
                changed.append(name)
                marks[:] = [each for each in marks if each[0] > now]
                if not marks:
                    del self._marks[name]
        self._expires_at = min((marks[0][0] for marks in self._marks.values()), default=None)
        return changed

    def forget_topic(self, topic: str) -> None:
        for name in [name for name in self._marks if name.topic == topic]:
            del self._marks[name]
