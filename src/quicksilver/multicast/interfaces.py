"""The three interfaces of a recovery agent, and what passes through them.

*Lower* is the state that the agent represents, *Recovery* the node that compares
and repairs on its behalf, *Upper* whoever is told of a completed round
(dissertation 3.2.11–3.2.13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.control import Record, Token
from quicksilver.wire.ids import Address

if TYPE_CHECKING:
    from quicksilver.multicast.agents import RingAgent

RANGES_SENT_MAX = 24
"""Ranges of one set in a token; the rest is told in a later round."""


class Report:
    """What a domain says about one sender's stream."""

    __slots__ = ("high", "kept", "low", "missing", "missing_limit", "slowest")

    def __init__(
        self,
        *,
        high: int,
        low: int,
        slowest: int,
        missing: RangeSet,
        missing_limit: int,
        kept: tuple[int, ...],
    ) -> None:
        self.high = high
        self.low = low
        self.slowest = slowest
        self.missing = missing
        self.missing_limit = missing_limit
        self.kept = kept
        """Flat pairs: a partition, and below what it keeps all its packets."""

    @classmethod
    def of_all_below(cls, end: int, slowest: int, kept: tuple[int, ...]) -> Report:
        """Return what a domain says that lacks nothing of a stream so long."""
        return cls(
            high=end,
            low=end,
            slowest=slowest,
            missing=RangeSet(),
            missing_limit=end,
            kept=kept,
        )


class Lower(Protocol):
    """The state that an agent represents."""

    def active_senders(self) -> list[int]:
        """Return the senders whose streams are not yet stable and quiet."""
        ...

    def report(self, sender: int) -> Report:
        """Return the state of one stream (empty when nothing of it is known)."""
        ...


class Recovery(Protocol):
    """What an agent asks of its node: compare, repair, and learn."""

    def missing_here(self, sender: int) -> RangeSet:
        """Return what this node itself lacks and believes lost."""
        ...

    def held_here(self, sender: int, ranges: RangeSet) -> RangeSet:
        """Return the part of ``ranges`` of which this node has copies."""
        ...

    def holds(self, peer: int, sender: int, ranges: RangeSet) -> RangeSet:
        """Return the part of ``ranges`` that a peer keeps once it has it."""
        ...

    def pull(self, peer: int, sender: int, ranges: RangeSet, now: float) -> None: ...

    def push(self, peer: int, sender: int, ranges: RangeSet, now: float) -> None: ...

    def note_token(self, record: Record, now: float) -> None:
        """Take what a token says: how far the stream goes and what is stable."""
        ...

    def region_words(self, sender: int) -> tuple[int, tuple[int, ...], int]:
        """Return (stable, kept by partition as flat pairs, cut), known from above."""
        ...

    def buffer_share(self) -> int: ...

    def take_drops(self) -> int:
        """Return kernel drops not reported yet, and count them as reported."""
        ...

    def address_of(self, node: int) -> Address | None: ...

    def accepts(self, sender: int) -> bool:
        """True for senders that a record may be about."""
        ...


class Upper(Protocol):
    """Who is told when a ring has completed a round."""

    def handle_round(self, agent: RingAgent, token: Token, seconds: float, now: float) -> None: ...


def first_ranges(ranges: RangeSet) -> RangeSet:
    """Return as much of a set as is told in one round."""
    return ranges.head(RANGES_SENT_MAX)


def trimmed(ranges: RangeSet, limit: int) -> tuple[tuple[int, ...], int]:
    """Return at most RANGES_SENT_MAX ranges, flat, and up to where they are exact."""
    if ranges.range_count() <= RANGES_SENT_MAX:
        return tuple(ranges.to_flat()), limit
    head = first_ranges(ranges)
    return tuple(head.to_flat()), min(limit, head.last() + 1)


def earlier_cut(one: int, other: int) -> int:
    """Return which of two ends of a stream comes first; -1 is none."""
    return max(one, other) if one < 0 or other < 0 else min(one, other)
