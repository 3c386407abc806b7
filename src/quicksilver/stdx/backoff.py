"""How long to wait before trying again.

Waits double from a first one up to a last one, and each is drawn from the upper
half of its length: many who lost the same server do not come back at once.
"""

from __future__ import annotations

from quicksilver.stdx.rand import Rng


class Backoff:
    """Waits between attempts at one thing."""

    def __init__(self, first_s: float, last_s: float, seed: int) -> None:
        self.last_s = last_s
        """No wait is longer; may be changed at any time."""
        self._first_s = first_s
        self._next_s = first_s
        self._rng = Rng(seed).derive("backoff")

    def next_wait(self) -> float:
        """Return how long to wait now; the next time it will be longer."""
        wait_s = min(self._next_s, self.last_s)
        self._next_s = min(2 * self._next_s, max(self.last_s, self._first_s))
        return wait_s * (0.5 + 0.5 * self._rng.uniform())

    def reset(self) -> None:
        """An attempt succeeded: begin with a short wait the next time."""
        self._next_s = self._first_s
