"""Gaps that nobody recovers: how long a message is waited for that was lost on the way.

Only channels and mechanisms that lose messages leave such gaps, in topics that no agent here
recovers. What came after the gap is held back meanwhile. If the gap is still there when its
time is up, it is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quicksilver.scopes.dissemination.holdings import Holdings, Name, Stream
from quicksilver.scopes.dissemination.packets import Gap, Packet
from quicksilver.scopes.dissemination.windows import Windows
from quicksilver.stdx.timers import TimerTable

PATIENCE_S = 1.0
"""How long a message is waited for that was lost where nobody recovers it."""

UNREPAIRED_S = 0.1
"""How long a missing message is waited for in a session without repair: it may be just late."""


class Gaps:
    """The gaps of one node that have a time."""

    def __init__(self, holdings: Holdings, windows: Windows, patience_s: float) -> None:
        self._holdings = holdings
        self._windows = windows
        self._patience_s = patience_s
        self._timers: TimerTable[Name] = TimerTable()
        """Streams with a gap that nobody recovers, …"""
        self._lows: dict[Name, int] = {}
        """… and where it was when the wait began."""

    def watch(self, name: Name, stream: Stream, now: float) -> None:
        """Wait for a message that was lost, in a topic that nobody recovers."""
        is_recovered = self._windows.is_recovered
        if stream.early and name not in self._timers and not is_recovered(name.topic):
            is_given_up = self._windows.is_unrepaired(name.topic)
            self._timers.set(name, now + (UNREPAIRED_S if is_given_up else self._patience_s))
            self._lows[name] = stream.low

    def next_timeout(self) -> float | None:
        return self._timers.next()

    def pass_over_due(self, now: float) -> Iterator[Sequence[Packet | Gap]]:
        """Yield what can be delivered of each stream whose gap was waited for long enough."""
        for name in self._timers.pop_due(now):
            stream = self._holdings.find(*name)
            low = self._lows.pop(name)
            if stream is None or self._windows.is_recovered(name.topic):
                continue
            if stream.low == low and stream.first_early is not None:
                yield self._holdings.pass_over(*name, stream.first_early)
            self.watch(name, stream, now)
