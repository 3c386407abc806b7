"""What a log has, within a limit."""

from __future__ import annotations

import pytest

from quicksilver.recorder import coverage as module
from quicksilver.recorder.coverage import Coverage, SenderRanges
from quicksilver.stdx.rand import Rng

LIMIT = 40


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RANGES_MAX", LIMIT)


def add_with_holes(coverage: Coverage, sender: int, count: int) -> None:
    """Count every second message in."""
    for number in range(count):
        coverage.add(1, sender, 2 * number, 2 * number + 1)


def test_ranges_are_limited_and_nothing_counts_as_new_that_was_there() -> None:
    """However many holes there are: a message that was recorded is never recorded again."""
    coverage = Coverage()
    add_with_holes(coverage, 7, 10 * LIMIT)
    assert coverage.range_count == coverage.ranges(1, 7).range_count() <= LIMIT
    assert all(coverage.contains(1, 7, 2 * number) for number in range(10 * LIMIT))
    assert coverage.given_up == coverage.ranges(1, 7).count() - 10 * LIMIT


def test_the_oldest_holes_are_given_up() -> None:
    """Those of the newest messages may still be filled by another recorder."""
    coverage = Coverage()
    add_with_holes(coverage, 7, 10 * LIMIT)
    assert coverage.contains(1, 7, 1)
    assert not coverage.contains(1, 7, 2 * 10 * LIMIT - 3)


def test_a_sender_with_many_holes_costs_others_nothing() -> None:
    coverage = Coverage()
    add_with_holes(coverage, 1, 5)
    add_with_holes(coverage, 2, 10 * LIMIT)
    assert coverage.ranges(1, 1).range_count() == 5
    assert coverage.range_count <= LIMIT


def test_what_retention_takes_may_make_ranges_and_is_limited_as_well() -> None:
    coverage = Coverage()
    coverage.add(1, 7, 0, 1000)
    for number in range(5, 900, 2):
        coverage.discard(1, 7, number, number + 1)
    assert coverage.range_count == coverage.ranges(1, 7).range_count() <= LIMIT


def test_the_count_is_right_whatever_happens() -> None:
    rng = Rng(3)
    coverage = Coverage()
    for _ in range(2000):
        start = rng.below(200)
        change = coverage.add if rng.chance(0.6) else coverage.discard
        change(1, rng.below(4), start, start + 1 + rng.below(5))
        assert coverage.range_count == sum(ranges.range_count() for _, ranges in coverage)
        assert coverage.range_count <= LIMIT


def test_a_state_with_too_many_ranges_is_refused() -> None:
    """Of one sender, and of many together."""
    coverage = Coverage()
    add_with_holes(coverage, 1, LIMIT)
    state = coverage.state()
    parsed = Coverage.parse(state)
    assert parsed is not None
    assert parsed.range_count == LIMIT
    assert Coverage.parse([*state, SenderRanges(1, 2, [0, 1])]) is None
