"""Records of streams: folding and merging, against a model; and their bounds."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.scopes.posts import DomainId
from quicksilver.scopes.reliability.frames import Frame, TokenBody, encode, parse_frame
from quicksilver.scopes.reliability.records import (
    RECORDS_MAX,
    SEGMENTS_MAX,
    Gathered,
    Kind,
    Own,
    Record,
    Segment,
    blank,
    fold,
    is_honest,
    join,
    merge,
    ranges_of,
)
from quicksilver.stdx.ranges import VALUE_MAX, RangeSet

SENDER = Sender("top", "a", 1)

owns = st.builds(
    lambda kind, low, early, kept: Own(
        kind,
        low=low,
        need=low if kind in {Kind.REGULAR, Kind.LIGHT} else VALUE_MAX,
        high=max([low, *(low + n + 1 for n in early)]),
        kept=kept if kept < low else VALUE_MAX,
        some=RangeSet((low + n, low + n + 1) for n in sorted(early)),
    ),
    st.sampled_from(Kind),
    st.integers(0, 30),
    st.sets(st.integers(1, 12)),
    st.integers(0, 30),
)


@given(st.lists(owns, min_size=1, max_size=6), st.integers(0, 10), st.integers(0, 6))
def test_it_does_not_matter_how_reports_are_put_together(
    reports: list[Own], agreed: int, cut: int
) -> None:
    """A token visits one member after the other; a tree folds what others have folded."""
    begun = Record("top/x", SENDER, agreed=agreed)
    one = begun
    for seat, own in enumerate(reports):
        one = fold(one, own, seat)
    left, right = blank(begun), blank(begun)
    for seat, own in enumerate(reports):
        if seat < cut:
            left = fold(left, own, seat)
        else:
            right = fold(right, own, seat)
    both = merge(left, right)
    lows = [own.low for own in reports if own.kind is Kind.REGULAR]
    assert one.low == both.low == min(lows, default=None)
    assert one.high == both.high == max(own.high for own in reports)
    assert one.is_blocked == both.is_blocked == any(o.kind is Kind.UNKNOWN for o in reports)
    assert one.need == both.need
    given_ = RangeSet()
    for own in reports:
        given_ = given_.union(own.can_give())
    told = given_.clamped(agreed, min(one.limit, both.limit))
    for record in (one, both):
        found = ranges_of(record.some)
        assert found.clamped(0, min(one.limit, both.limit)) == told
        assert is_honest(record, len(reports))
        for segment in record.some:
            has = reports[segment.member].can_give()
            assert has.contains_range(segment.start, segment.stop)


def test_ranges_past_the_limit_are_told_later() -> None:
    segments = [Segment(10 * n, 10 * n + 1, 0) for n in range(3 * SEGMENTS_MAX)]
    kept, limit = join(segments, [], VALUE_MAX)
    assert len(kept) == SEGMENTS_MAX
    assert limit == 10 * SEGMENTS_MAX
    again, same = join(kept, segments, limit)
    assert (again, same) == (kept, limit)


def test_the_longest_round_is_bounded() -> None:
    """Names as long as they may be, and as many records and ranges."""
    name = "n" * 200
    segments = tuple(
        Segment(VALUE_MAX - 100 + 2 * n, VALUE_MAX - 99 + 2 * n, 1 << 30)
        for n in range(SEGMENTS_MAX)
    )
    record = Record(
        name,
        Sender(name, name, 1 << 62),
        VALUE_MAX,
        VALUE_MAX,
        VALUE_MAX,
        segments,
        VALUE_MAX,
        some=segments,
    )
    content = Gathered((record,) * RECORDS_MAX)
    assert len(encode(content)) < 128 << 10


def test_records_that_no_member_writes_are_told_apart() -> None:
    good = Record("top/x", SENDER, some=(Segment(1, 3, 0), Segment(3, 5, 1)))
    assert is_honest(good, 2)
    for some in (
        (Segment(3, 3, 0),),
        (Segment(3, 1, 0),),
        (Segment(3, 5, 0), Segment(1, 2, 0)),
        (Segment(1, 2, 2),),
        (Segment(1, 2, -1),),
    ):
        assert not is_honest(msgspec.structs.replace(good, some=some), 2)
        assert not is_honest(msgspec.structs.replace(good, offered=some), 2)
    assert not is_honest(msgspec.structs.replace(good, keeper=2), 2)


def frame() -> bytes:
    record = Record("top/x", SENDER, some=(Segment(1, 3, 0),))
    body = TokenBody(3, 0, (1,), Gathered((record,)), False)
    return encode(Frame(DomainId("top", 1), 1, 0, 1, body))


@given(st.binary(max_size=80))
def test_any_bytes_are_understood_or_not(data: bytes) -> None:
    parse_frame(data)


@given(st.integers(0, 200), st.integers(0, 255))
def test_damaged_messages_are_understood_or_not(at: int, value: int) -> None:
    data = bytearray(frame())
    data[at % len(data)] = value
    parse_frame(bytes(data))


def test_what_is_too_much_is_not_understood() -> None:
    assert parse_frame(frame()) is not None
    record = Record("top/x", SENDER)
    for content in (
        Gathered((record,) * (RECORDS_MAX + 1)),
        Gathered((Record("x" * 201, SENDER),)),
        Gathered((Record("x", SENDER, stable=-1),)),
        Gathered((Record("x", SENDER, some=(Segment(0, 1, 0),) * (SEGMENTS_MAX + 2)),)),
    ):
        body = TokenBody(3, 0, (), content, False)
        assert parse_frame(encode(Frame(DomainId("top", 1), 1, 0, 1, body))) is None


def test_who_lacks_what_follows_is_no_keeper() -> None:
    """Others would ask it, one that has just come, for what only others have."""
    record = Record("top/x", Sender("top", "s", 1), agreed=50)
    came = Own(Kind.LIGHT, low=10, need=10, high=60, kept=0)
    stays = Own(Kind.REGULAR, low=60, need=60, high=60, kept=5)
    for order in ((came, stays), (stays, came)):
        folded = record
        for own in order:
            folded = fold(folded, own, 0 if own is came else 1)
        assert (folded.kept, folded.keeper) == (5, 1)
