"""What a publisher was told of the messages that it sent, as numbers."""

from __future__ import annotations

from quicksilver.stdx.ranges import RangeSet


class Promises:
    """Flushes one after another, and which messages each of them spoke of.

    A flush that ends well vouches for all that was sent before it began and was not
    spoken of yet. One that fails has spoken of all that was sent until its end: nothing
    of it is promised, whatever it says.
    """

    def __init__(self) -> None:
        self.confirmed = RangeSet()
        """Numbers that a flush has vouched for."""
        self.reported = RangeSet()
        """Numbers of which a flush has said that it cannot vouch for them."""
        self.flush_s_max = 0.0
        """The longest time that a flush took, however it ended."""
        self._from = 0
        """The first number that no flush has spoken of."""
        self._mark = 0
        self._began_at: float | None = None

    @property
    def is_asked(self) -> bool:
        """True while a flush is under way."""
        return self._began_at is not None

    def begin_flush(self, sent: int, now: float) -> None:
        """A flush begins when so many messages have been sent."""
        assert not self.is_asked
        self._began_at, self._mark = now, sent

    def end_flush(self, sent: int, now: float, *, is_confirmed: bool) -> None:
        """The flush has ended."""
        assert self._began_at is not None
        self.flush_s_max = self.longest_s(now)
        self._began_at = None
        spoken, until = (self.confirmed, self._mark) if is_confirmed else (self.reported, sent)
        spoken.add(self._from, until)
        self._from = max(self._from, until)

    def longest_s(self, now: float) -> float:
        """Return the longest time that a flush took, or has taken so far."""
        began = self._began_at
        return max(self.flush_s_max, 0.0 if began is None else now - began)

    def unanswered(self, sent: int) -> int:
        """Return how many messages no flush has spoken of."""
        return sent - self._from
