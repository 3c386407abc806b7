"""What members tell each other about a stream, and how it is put together.

A *report* is what one domain has to say about one sender's stream; a token's record is
the sum of the reports gathered so far. What a region has agreed on comes back down.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec

from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.control import RANGES_MAX, Record
from quicksilver.wire.packets import SEQUENCE_MAX

NOT_WAITED_FOR = SEQUENCE_MAX
"""What a domain says that it has if nobody there is waited for: it holds up nobody."""


class Report(msgspec.Struct, kw_only=True):
    """What a domain says about one sender's stream."""

    high: int
    """One past the newest packet that anyone there has heard of."""
    low: int
    """Everybody there who is waited for has all packets below this; ``NOT_WAITED_FOR``
    when there is no such node, or when it is the sender itself, who has them all."""
    slowest: int
    """The node that ``low`` is about."""
    safe: int
    """Everybody there, whether he is waited for or not, has all packets below this."""
    laggard: int = 0
    """The node that ``safe`` is about, if it is not waited for; 0: all of them are."""
    front: int
    """Some receiver there has all packets below this."""
    missing: RangeSet
    """Packets that somebody there lacks …"""
    missing_limit: int
    """… exact below this."""
    unkept: RangeSet
    """Packets that are the domain's to keep and have not arrived there …"""
    unkept_limit: int
    """… exact below this."""

    @classmethod
    def of_all_below(cls, end: int, slowest: int) -> Report:
        """Return what a domain says that lacks nothing of a stream so long."""
        return cls(
            high=end,
            low=end,
            slowest=slowest,
            safe=end,
            front=end,
            missing=RangeSet(),
            missing_limit=end,
            unkept=RangeSet(),
            unkept_limit=end,
        )


class Reporter(Protocol):
    """Whoever speaks for a domain: a node for itself, or the rounds of a ring."""

    def active_senders(self) -> list[int]:
        """Return the senders whose streams are not yet stable and quiet."""
        ...

    def report(self, sender: int) -> Report:
        """Return the state of one stream (empty when nothing of it is known)."""
        ...


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
        if not other.lacking:
            # The usual case: it has everything that the other has, and more.
            return other
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


# Sets of packets in records


def trim_ranges(ranges: RangeSet, limit: int, most: int) -> tuple[tuple[int, ...], int]:
    """Return at most ``most`` ranges of a set, flat, and up to where they are exact."""
    if not ranges:
        return (), limit
    return trim_flat(tuple(ranges.to_flat()), limit, most)


def trim_flat(flat: tuple[int, ...], limit: int, most: int) -> tuple[tuple[int, ...], int]:
    """Return at most ``most`` ranges of a flat set, and up to where they are exact."""
    if len(flat) <= 2 * most:
        return flat, limit
    head = flat[: 2 * most]
    return head, min(limit, head[-2] + head[-1])


def add_ranges(
    flat: tuple[int, ...], limit: int, more: RangeSet, more_limit: int, most: int
) -> tuple[tuple[int, ...], int]:
    """Return what is in either of two sets, exact as far as both are, as ``trim_ranges`` does."""
    if not flat:
        return trim_ranges(more, min(limit, more_limit), most)
    known = RangeSet.parse_flat(flat, RANGES_MAX)
    if known is None:
        # No honest peer wrote it: what it says of the others is nothing.
        return trim_ranges(more, 0, most)
    return trim_ranges(more.union(known), min(limit, more_limit), most)


def parse_ranges(flat: tuple[int, ...]) -> RangeSet:
    """Return a set that a record tells; an empty one if no honest peer wrote it."""
    if not flat:
        return RangeSet()
    return RangeSet.parse_flat(flat, RANGES_MAX) or RangeSet()


def shorten_record(record: Record, most: int) -> None:
    """Tell every set of a record in at most so many ranges; the rest is told later."""
    record.missing, record.missing_limit = trim_flat(record.missing, record.missing_limit, most)
    record.previous, record.previous_limit = trim_flat(record.previous, record.previous_limit, most)
    record.unkept, record.unkept_limit = trim_flat(record.unkept, record.unkept_limit, most)
    record.region_unkept, record.region_unkept_limit = trim_flat(
        record.region_unkept, record.region_unkept_limit, most
    )
    record.wanted = record.wanted[: 2 * most]
    record.unasked = record.unasked[: 2 * most]


def earlier_cut(one: int, other: int) -> int:
    """Return which of two ends of a stream comes first; -1 is none."""
    return max(one, other) if one < 0 or other < 0 else min(one, other)
