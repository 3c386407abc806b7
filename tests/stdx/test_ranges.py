"""Range sets against plain sets of integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.stdx.ranges import RangeSet, parse_flat

SPAN = 40
bound = st.integers(-3, SPAN)
pair = st.tuples(bound, bound)
pairs = st.lists(pair, max_size=12)
step = st.tuples(st.sampled_from(["add", "discard", "discard_below"]), pair)


def integers(ranges: RangeSet) -> set[int]:
    return {value for start, stop in ranges for value in range(start, stop)}


def model(some: list[tuple[int, int]]) -> set[int]:
    return {value for start, stop in some for value in range(start, stop)}


def assert_canonical(ranges: RangeSet) -> None:
    edges = [edge for some in ranges for edge in some]
    assert edges == sorted(set(edges))


@given(st.lists(step, max_size=30))
def test_changes_agree_with_a_plain_set(steps: list[tuple[str, tuple[int, int]]]) -> None:
    """Every change has the effect it would have on a set of integers."""
    ranges, expected = RangeSet(), set[int]()
    for name, (start, stop) in steps:
        if name == "add":
            ranges.add(start, stop)
            expected |= set(range(start, stop))
        elif name == "discard":
            ranges.discard(start, stop)
            expected -= set(range(start, stop))
        else:
            ranges.discard_below(start)
            expected = {value for value in expected if value >= start}
        assert integers(ranges) == expected
        assert_canonical(ranges)
        assert ranges.count() == len(expected)
        assert bool(ranges) == bool(expected)
        assert all((v in ranges) == (v in expected) for v in range(-5, SPAN + 2))
        if expected:
            assert (ranges.first(), ranges.last()) == (min(expected), max(expected))


@given(pairs, pairs)
def test_algebra_agrees_with_plain_sets(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    """Union, intersection and difference are new, canonical sets."""
    a, b = RangeSet(left), RangeSet(right)
    for made, expected in (
        (a.union(b), model(left) | model(right)),
        (a.intersection(b), model(left) & model(right)),
        (a.difference(b), model(left) - model(right)),
    ):
        assert integers(made) == expected
        assert_canonical(made)
    assert (a == b) == (model(left) == model(right))
    assert integers(a) == model(left)
    assert integers(b) == model(right)


@given(pairs, bound, bound, st.integers(-1, 60))
def test_views_agree_with_a_plain_set(
    some: list[tuple[int, int]], start: int, stop: int, k: int
) -> None:
    """Clamping, heads, first values and range queries cut where they say."""
    ranges, expected = RangeSet(some), model(some)
    assert integers(ranges.clamped(start, stop)) == expected & set(range(start, stop))
    assert list(ranges.head(k)) == list(ranges)[: max(k, 0)]
    assert ranges.values(k) == sorted(expected)[: max(k, 0)]
    assert ranges.contains_range(start, stop) == (set(range(start, stop)) <= expected)
    assert ranges.range_count() == len(list(ranges))


@given(pairs)
def test_a_copy_is_independent(some: list[tuple[int, int]]) -> None:
    """Changing a copy must not change what somebody else still reads."""
    ranges = RangeSet(some)
    copy = ranges.copy()
    assert copy == ranges
    copy.add(100, 101)
    assert 100 not in ranges


@given(st.lists(st.tuples(st.integers(0, SPAN), st.integers(0, SPAN)), max_size=12))
def test_the_flat_form_survives_a_round_trip(some: list[tuple[int, int]]) -> None:
    """What one node writes another reads, and the limit counts ranges."""
    ranges = RangeSet(some)
    flat = ranges.to_flat()
    assert parse_flat(flat, ranges.range_count()) == ranges
    assert RangeSet.parse_flat(flat, 1000) == ranges
    if ranges:
        assert parse_flat(flat, ranges.range_count() - 1) is None


@given(st.lists(st.integers(-2, 2**65) | st.integers(-2, 9), max_size=9))
def test_any_integers_either_parse_to_a_canonical_set_or_not_at_all(
    flat: list[int],
) -> None:
    """Bad bytes never raise and never make a set that breaks its own rules."""
    parsed = parse_flat(flat, 4)
    if parsed is not None:
        assert_canonical(parsed)
        assert parsed.count() == sum(flat[1::2])
        assert not parsed or parsed.last() < 2**63


@pytest.mark.parametrize(
    "flat",
    [
        [1],
        [-1, 2],
        [1, 0],
        [1, -1],
        [5, 2, 1, 2],
        [1, 5, 3, 1],
        [2**63, 1],
        [2**63 - 1, 2],
        [0, 2**63 + 1],
        [1, 1, 3, 1, 5, 1],
    ],
)
def test_what_no_honest_peer_writes_is_refused(flat: list[int]) -> None:
    """Odd, negative, empty, disordered, overlapping, too large, too many."""
    assert parse_flat(flat, 2) is None


def test_the_largest_value_is_accepted() -> None:
    """The bound itself belongs to the range that travels."""
    parsed = parse_flat([2**63 - 1, 1], 1)
    assert parsed is not None
    assert parsed.last() == 2**63 - 1


def test_an_empty_set_has_no_ends() -> None:
    """There is no honest answer, so the caller hears of its mistake."""
    with pytest.raises(ValueError, match="no first"):
        RangeSet().first()
    with pytest.raises(ValueError, match="no last"):
        RangeSet().last()
