"""What the rounds of a domain carry: for each active stream, who has which messages of it.

A record travels down with what was agreed on (``stable``, ``lost``, ``agreed``, ``offered``),
and gathers what members report (``low`` and below). It has a bounded number of ranges, and a
round a bounded number of records: its size follows the streams that are active, and never the
number of nodes.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from quicksilver.scopes.dissemination.holdings import Name
from quicksilver.scopes.dissemination.packets import Mark, Sender
from quicksilver.scopes.names import Name as ScopeName
from quicksilver.scopes.reliability.returns import MARKS_MAX, RETURN_S
from quicksilver.stdx.ranges import VALUE_MAX, RangeSet

RECORDS_MAX = 64
"""Streams in one round; with more, they take turns."""

SEGMENTS_MAX = 16
"""Ranges in one record; what comes after them is told once they are gone."""

NOBODY = -1

Seat = Annotated[int, msgspec.Meta(ge=NOBODY, lt=1 << 31)]
"""A member of a domain: its place among the seats of a view."""


class Segment(msgspec.Struct, frozen=True, array_like=True):
    """Messages from ``start`` to ``stop - 1``, and a member that has them."""

    start: Mark
    stop: Mark
    member: Seat


Segments = Annotated[tuple[Segment, ...], msgspec.Meta(max_length=SEGMENTS_MAX + 1)]


class Return(msgspec.Struct, frozen=True, array_like=True):
    """Members that were away may come back for some time, and begin at a number."""

    left_s: Annotated[float, msgspec.Meta(ge=0.0, le=RETURN_S)]
    mark: Mark


class Record(msgspec.Struct, frozen=True, array_like=True):
    """What is said of one stream in a round."""

    topic: ScopeName
    sender: Sender
    stable: Mark = 0
    """All nodes of the topic's top domain that are waited for have everything below …"""
    lost: Mark = 0
    """… and what a node lacks below this, no node has."""
    agreed: Mark = 0
    """Of this domain: the highest ``low`` of a complete round. Who lacks something below it
    and never was counted is not counted yet."""
    offered: Segments = ()
    """Who was found to have what."""
    low: Mark | None = None
    """Everybody counted so far has everything below; None: nobody was."""
    need: Mark = VALUE_MAX
    """As ``low``, of all receivers, whether they are counted or not."""
    is_blocked: bool = False
    """True: a member does not know yet what it speaks for."""
    is_partial: bool = False
    """True: a member has put the stream into the round, and not all are asked about it."""
    high: Mark = 0
    """One more than the highest number that anybody has."""
    kept: Mark = VALUE_MAX
    keeper: Seat = NOBODY
    """Below ``agreed``, this member can give the first that anybody can, and what follows."""
    some: Segments = ()
    """What somebody can give from ``agreed`` on …"""
    limit: Mark = VALUE_MAX
    """… as far as that is told."""
    doubt: Mark = 0
    """Below this something seems to be lost: members say afresh what they have."""
    cleared: Mark = VALUE_MAX
    """Below this, everybody so far has said so since it was doubted."""
    returns: Annotated[tuple[Return, ...], msgspec.Meta(max_length=MARKS_MAX)] = ()
    """Where members begin that were away, and know nothing of the stream."""
    hidden: object = None
    """How the value came about: only simulations write it (dissertation 3.2.15)."""

    @property
    def name(self) -> Name:
        return Name(self.topic, self.sender)


class Gathered(msgspec.Struct, frozen=True, array_like=True):
    """The content of a round."""

    records: Annotated[tuple[Record, ...], msgspec.Meta(max_length=RECORDS_MAX)]


class Kind(enum.Enum):
    """How a member counts."""

    REGULAR = enum.auto()
    """What it has counts."""
    LIGHT = enum.auto()
    """It has just come and catches up: it is given what it lacks, and not waited for."""
    NEUTRAL = enum.auto()
    """Nobody in it wants the stream."""
    UNKNOWN = enum.auto()
    """It cannot say yet, and is waited for."""


@dataclass(frozen=True, slots=True)
class Own:
    """What one member has of a stream: a node, or the domain that an agent speaks for."""

    kind: Kind
    low: int = 0
    need: int = VALUE_MAX
    high: int = 0
    kept: int = VALUE_MAX
    """From here to ``low`` it can give everything; ``VALUE_MAX``: nothing."""
    some: RangeSet = field(default_factory=RangeSet)
    """What it can give from ``low`` on, and what it has fetched for others."""
    limit: int = VALUE_MAX
    cleared: int = VALUE_MAX
    """What it says is no older than the doubt about messages below this."""
    behind: int = VALUE_MAX
    """Below ``low`` if somebody in the domain counts that lacks what follows: it has come from
    another domain, where it was waited for."""
    hidden: object = None

    def can_give(self) -> RangeSet:
        ranges = self.some.copy()
        if self.kept < self.low:
            ranges.add(self.kept, self.low)
        return ranges


def ranges_of(segments: Iterable[Segment]) -> RangeSet:
    return RangeSet((segment.start, segment.stop) for segment in segments)


def join(
    first: Iterable[Segment], second: Iterable[Segment], limit: int
) -> tuple[tuple[Segment, ...], int]:
    """Return who has what, where both know somebody ``first`` counts; and up to where it is
    told, as there may be more of it than is told."""
    found = [segment for segment in first if segment.start < limit]
    known = ranges_of(found)
    for segment in second:
        begin, end = segment.start, min(segment.stop, limit)
        # As a rule both say the same: nothing is left.
        if not known.contains_range(begin, end):
            left = RangeSet([(begin, end)]).difference(known)
            found += [Segment(start, stop, segment.member) for start, stop in left]
    found.sort(key=lambda segment: segment.start)
    merged: list[Segment] = []
    for segment in found:
        last = merged[-1] if merged else None
        if last is not None and last.member == segment.member and last.stop == segment.start:
            merged[-1] = Segment(last.start, segment.stop, last.member)
        else:
            merged.append(segment)
    if len(merged) <= SEGMENTS_MAX:
        return tuple(merged), limit
    return tuple(merged[:SEGMENTS_MAX]), merged[SEGMENTS_MAX].start


def fold(record: Record, own: Own, seat: int) -> Record:
    """Return a record with a member's report in it."""
    low = record.low
    if own.kind is Kind.REGULAR:
        counts = min(own.low, own.behind)
        low = counts if low is None else min(low, counts)
    kept, keeper = record.kept, record.keeper
    if own.kept < kept and own.low >= record.agreed:
        # One that has just come may have the beginning, and not what follows.
        kept, keeper = own.kept, seat
    gives = own.can_give().clamped(record.agreed, VALUE_MAX)
    mine = [Segment(start, stop, seat) for start, stop in gives]
    some, limit = join(mine, record.some, min(record.limit, own.limit))
    return msgspec.structs.replace(
        record,
        low=low,
        need=min(record.need, own.need),
        is_blocked=record.is_blocked or own.kind is Kind.UNKNOWN,
        high=max(record.high, own.high),
        kept=kept,
        keeper=keeper,
        some=some,
        limit=limit,
        cleared=min(record.cleared, own.cleared),
    )


def blank(record: Record) -> Record:
    """Return what a record says to members, with no report in it."""
    return Record(
        record.topic,
        record.sender,
        record.stable,
        record.lost,
        record.agreed,
        record.offered,
        doubt=record.doubt,
        returns=record.returns,
    )


def merge(one: Record, other: Record) -> Record:
    """Return the reports of two sets of members in one record."""
    lows = [low for low in (one.low, other.low) if low is not None]
    some, limit = join(one.some, other.some, min(one.limit, other.limit))
    keeps = min(one, other, key=lambda record: record.kept)
    return Record(
        one.topic,
        one.sender,
        max(one.stable, other.stable),
        max(one.lost, other.lost),
        max(one.agreed, other.agreed),
        one.offered or other.offered,
        min(lows, default=None),
        min(one.need, other.need),
        one.is_blocked or other.is_blocked,
        one.is_partial or other.is_partial,
        max(one.high, other.high),
        keeps.kept,
        keeps.keeper,
        some,
        limit,
        min(one.doubt, other.doubt),
        min(one.cleared, other.cleared),
        one.returns or other.returns,
    )


def is_honest(record: Record, seats: int) -> bool:
    """Whether a member could have written a record."""
    for segments in (record.offered, record.some):
        stop = 0
        for segment in segments:
            if not stop <= segment.start < segment.stop:
                return False
            if not 0 <= segment.member < seats:
                return False
            stop = segment.stop
    return record.keeper < seats
