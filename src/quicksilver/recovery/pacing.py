"""What agents of all kinds share: how often rounds are held, how long to wait, who stands in.

A leader holds a round when there is news, and another one while something is still to be
agreed on. A follower with news that sees no round wakes the leader, and stands in for it if
that does not help. How long to wait follows from how long rounds take: who is silent for
several of them is passed over, and to be passed over costs little.
"""

from __future__ import annotations

import enum
from typing import Protocol

import msgspec

SKIPPED_MAX = 64
"""Members that one token says are passed over."""

CALLS_MAX = 8
"""Times that a member is asked before it is passed over."""

WAKES_BEFORE_ACTING = 2
"""Wakes without an answer, after which the first follower stands in for the leader."""

URGENT_BEFORE_WAKE = 2
"""A follower that has urgent news for the second time since a token came by tells its leader.
The leader usually has the same news, and a token is on its way. But what a member that is
slower than all others gets done it alone has: the leader, and all who wait for that member,
would hear of it only when the next round is due in any case."""

ROUNDS_LATE = 2
"""A round that takes so many times as long as the slowest of the last ones is late, and so
is one that does not come by for so many times as long as those were apart."""

ASK_AGAIN_S = 0.1
"""How often those who are passed over are asked whether they are back."""

GAP_S_MAX = 1.0
"""Tokens further apart than this were so because there was nothing to agree on."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """How often rounds take place, and how long to wait for them."""

    interval_s: float
    """From one release to the next while something is to be agreed on …"""
    trouble_interval_s: float
    """… and while something is wrong."""
    spacing_s: float
    """The shortest time between two releases."""
    timeout_s_min: float
    """A round that takes longer is lost, if rounds usually take much less …"""
    timeout_s_max: float
    """… and in any case if it takes longer than this."""
    wake_s_min: float
    """A follower with news that sees no token for this long tells its leader, unless tokens
    are rare."""
    in_flight_max: int
    """Tokens of one ring under way at once."""
    learns_late: bool = False
    """True: rounds may take longer than ``timeout_s_min`` from the first one on, as members are
    far apart. When one was given up too early the next are waited for twice as long."""


class Pauses:
    """How long something usually takes, and so when it is late."""

    __slots__ = ("_mean_s",)

    def __init__(self) -> None:
        self._mean_s = 0.0

    def note(self, seconds: float) -> None:
        """Take the newest one for an eighth of the mean; a longer one counts at once."""
        self._mean_s = max(seconds, self._mean_s + (seconds - self._mean_s) / 8)

    def late_s(self, least: float, most: float) -> float:
        """Return after how long it is late."""
        return min(most, max(least, ROUNDS_LATE * self._mean_s))


class Counters(Protocol):
    """Where an agent counts what it did."""

    tokens_released: int
    roll_calls: int


class Step(enum.Enum):
    """What a follower does about a leader that it does not hear of."""

    WAIT = enum.auto()
    WAKE = enum.auto()
    STAND_IN = enum.auto()


class Following(msgspec.Struct):
    """Another member leads."""

    seen_at: float = 0.0
    """When a token last came by."""
    wake_at: float | None = None
    """When to look whether one did; None without news."""
    unanswered: int = 0
    """Wakes since the last token."""
    urgent: int = 0
    """How often there was urgent news since the last token …"""
    hurry_at: float | None = None
    """… and when the leader is told, unless a token comes by before."""

    def handle_seen(self, now: float, gap_s: Pauses) -> None:
        """A token came by."""
        if now - self.seen_at < GAP_S_MAX:
            gap_s.note(now - self.seen_at)
        self.seen_at = now
        self.unanswered = 0
        self.urgent = 0
        self.hurry_at = None

    def handle_news(self, now: float, hurry_s: float, *, urgent: bool) -> None:
        self.urgent += urgent
        if self.urgent >= URGENT_BEFORE_WAKE and self.hurry_at is None:
            self.hurry_at = now + hurry_s

    def expect_token(self, now: float, wake_s: float) -> None:
        """There is news: unless a token comes by, the leader is to be woken."""
        if self.wake_at is None:
            self.seen_at = now
            self.wake_at = now + wake_s

    def check_hurry(self, now: float) -> bool:
        """Whether the leader is to be told of urgent news now."""
        if self.hurry_at is None or now < self.hurry_at:
            return False
        self.urgent, self.hurry_at = 0, None
        return True

    def check_unseen(self, now: float, wake_s: float, rank: int) -> Step:
        """Return what to do as there is news and perhaps no token came.

        ``rank``: how many members would stand in for the leader before this one, and it.
        """
        self.wake_at = self.seen_at + wake_s
        if now < self.wake_at:
            return Step.WAIT
        self.wake_at = now + wake_s
        self.unanswered += 1
        return Step.WAKE if self.unanswered < WAKES_BEFORE_ACTING + rank else Step.STAND_IN

    def next_timeout(self) -> float | None:
        if self.hurry_at is None or (self.wake_at is not None and self.wake_at < self.hurry_at):
            return self.wake_at
        return self.hurry_at


class Quiet(msgspec.Struct):
    """Leads; there is nothing to agree on."""


class Due(msgspec.Struct):
    """Leads; a round is to begin at a time."""

    at: float
