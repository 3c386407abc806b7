"""The three interfaces of a recovery agent, and what passes through them.

*Lower* is the state that the agent represents, *Recovery* the node that compares
and repairs on its behalf, *Upper* whoever is told of a completed round
(dissertation 3.2.11–3.2.13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.control import RANGES_MAX, Record, Token
from quicksilver.wire.ids import Address

if TYPE_CHECKING:
    from quicksilver.multicast.agents import RingAgent

RANGES_SENT_MAX = 24
"""Ranges of one set in a token; the rest is told in a later round."""


class Kept(NamedTuple):
    """Which packets of a stream have arrived where copies of them are kept."""

    limit: int
    """Nothing is known of packets from here on."""
    lacking: RangeSet
    """Packets below ``limit`` that those who should keep them lack."""

    def has(self, sequence: int) -> bool:
        """Whether whoever is to keep a packet had it."""
        return sequence < self.limit and sequence not in self.lacking

    def joined(self, other: Kept) -> Kept:
        """Return what either knows to be kept: a copy stays until all is stable."""
        if self.limit > other.limit:
            return other.joined(self)
        unknown = self.lacking.copy()
        unknown.add(self.limit, other.limit)
        lacking = other.lacking.intersection(unknown)
        if lacking.range_count() <= RANGES_MAX:
            return Kept(other.limit, lacking)
        first = lacking.head(RANGES_MAX)
        return Kept(first.last() + 1, first)

    @classmethod
    def parse_flat(cls, flat: tuple[int, ...], limit: int) -> Kept:
        """Read what a record says; what makes no sense says nothing."""
        lacking = RangeSet.parse_flat(flat, RANGES_MAX)
        return NOTHING_KEPT if lacking is None else cls(limit, lacking)


NOTHING_KEPT = Kept(0, RangeSet())


class Words(NamedTuple):
    """What a region is known to have agreed on about one sender's stream."""

    stable: int = 0
    """Every member has all before."""
    kept: Kept = NOTHING_KEPT
    cut: int = -1
    """Where the stream of a dead sender ends; -1: not decided."""


class Report:
    """What a domain says about one sender's stream."""

    __slots__ = ("high", "low", "missing", "missing_limit", "slowest", "unkept", "unkept_limit")

    def __init__(
        self,
        *,
        high: int,
        low: int,
        slowest: int,
        missing: RangeSet,
        missing_limit: int,
        unkept: RangeSet,
        unkept_limit: int,
    ) -> None:
        self.high = high
        self.low = low
        self.slowest = slowest
        self.missing = missing
        self.missing_limit = missing_limit
        self.unkept = unkept
        """Packets that are the domain's to keep and have not arrived there …"""
        self.unkept_limit = unkept_limit
        """… exact below this."""

    @classmethod
    def of_all_below(cls, end: int, slowest: int) -> Report:
        """Return what a domain says that lacks nothing of a stream so long."""
        return cls(
            high=end,
            low=end,
            slowest=slowest,
            missing=RangeSet(),
            missing_limit=end,
            unkept=RangeSet(),
            unkept_limit=end,
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

    def region_words(self, sender: int) -> Words:
        """Return what is known from above."""
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
    return shorter(tuple(ranges.to_flat()), limit, RANGES_SENT_MAX)


def shorter(flat: tuple[int, ...], limit: int, most: int) -> tuple[tuple[int, ...], int]:
    """Return at most ``most`` ranges of a flat set, and up to where they are exact."""
    if len(flat) <= 2 * most:
        return flat, limit
    head = flat[: 2 * most]
    return head, min(limit, head[-2] + head[-1])


def earlier_cut(one: int, other: int) -> int:
    """Return which of two ends of a stream comes first; -1 is none."""
    return max(one, other) if one < 0 or other < 0 else min(one, other)
