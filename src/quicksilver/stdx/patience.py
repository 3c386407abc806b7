"""How long to wait for an answer, measured from those that came.

The estimate of TCP (RFC 6298): a smoothed mean and four smoothed deviations. Only answers
to questions that were asked once count: whoever asked twice does not know which of the two
was answered.
"""

from __future__ import annotations


class Patience:
    """The time to wait before a question is repeated."""

    __slots__ = ("_deviation_s", "_least_s", "_mean_s", "_most_s", "seconds")

    def __init__(self, initial_s: float, *, least_s: float, most_s: float) -> None:
        """``initial_s`` holds before anything was measured."""
        self.seconds = initial_s
        self._least_s = least_s
        self._most_s = most_s
        self._mean_s: float | None = None
        self._deviation_s = 0.0

    def note(self, seconds: float) -> None:
        """An answer came so long after it was asked for."""
        if self._mean_s is None:
            self._mean_s = seconds
            self._deviation_s = seconds / 2
        else:
            self._deviation_s += (abs(seconds - self._mean_s) - self._deviation_s) / 4
            self._mean_s += (seconds - self._mean_s) / 8
        wanted = self._mean_s + 4 * self._deviation_s
        self.seconds = min(self._most_s, max(self._least_s, wanted))
