"""How long to wait for an answer, measured from those that came.

The estimate of TCP (RFC 6298): a smoothed mean and four smoothed deviations. Only answers
to questions that were asked once count: whoever asked twice does not know which of the two
was answered. Where all had to be asked again and again, the answers may take longer than
is waited for them, and no longer wait was ever measured: then it is doubled until one comes
in time.
"""

from __future__ import annotations


class Patience:
    """The time to wait before a question is repeated."""

    __slots__ = (
        "_changed_at",
        "_deviation_s",
        "_least_s",
        "_mean_s",
        "_most_s",
        "seconds",
    )

    def __init__(self, initial_s: float, *, least_s: float, most_s: float) -> None:
        """``initial_s`` holds before anything was measured."""
        self.seconds = initial_s
        self._least_s = least_s
        self._most_s = most_s
        self._mean_s: float | None = None
        self._deviation_s = 0.0
        self._changed_at = 0.0
        """When an answer last came in time, or the wait was doubled."""

    def note(self, seconds: float, now: float) -> None:
        """An answer came so long after it was asked for."""
        self._changed_at = now
        if self._mean_s is None:
            self._mean_s = seconds
            self._deviation_s = seconds / 2
        else:
            self._deviation_s += (abs(seconds - self._mean_s) - self._deviation_s) / 4
            self._mean_s += (seconds - self._mean_s) / 8
        wanted = self._mean_s + 4 * self._deviation_s
        self.seconds = min(self._most_s, max(self._least_s, wanted))

    def back_off(self, now: float) -> None:
        """Questions are asked in vain: if all are, wait twice as long until one is not."""
        if now - self._changed_at >= self._most_s:
            self._changed_at = now
            self.seconds = min(self._most_s, 2 * self.seconds)
