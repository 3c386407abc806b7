"""Clocks are made one as far as packets prove how they differ."""

from __future__ import annotations

import pytest

from quicksilver.analysis.clocks import solve_offsets
from quicksilver.stdx.bins import percentile_ms, upper_ms


def test_two_ways_tell_the_difference_of_two_clocks() -> None:
    """Node 2 is 5 s ahead; both ways take 1 ms."""
    found = solve_offsets([1, 2], {(1, 2): 5.001, (2, 1): -4.999})
    assert found[1] == 0.0
    assert found[2] == pytest.approx(-5.0)


def test_a_chain_of_nodes_is_walked() -> None:
    """Node 3 never spoke with node 1."""
    delays = {(1, 2): 1.001, (2, 1): -0.999, (2, 3): 2.001, (3, 2): -1.999}
    assert solve_offsets([1, 2, 3], delays)[3] == pytest.approx(-3.0)


def test_one_way_changes_a_clock_only_if_packets_arrive_before_they_left() -> None:
    """Nothing more is proven."""
    assert solve_offsets([1, 2], {(1, 2): 0.5})[2] == 0.0
    assert solve_offsets([1, 2], {(1, 2): -0.5})[2] == pytest.approx(0.5)


def test_contradictions_end() -> None:
    """A circle in which every way is negative cannot be put right."""
    found = solve_offsets([1, 2, 3], {(1, 2): -1.0, (2, 3): -1.0, (3, 1): -1.0})
    assert set(found) == {1, 2, 3}


def test_percentiles_of_bins() -> None:
    """An upper edge, at most a bin above the value."""
    assert percentile_ms([], 0.5) is None
    assert percentile_ms([(0, 1)], 0.5) == upper_ms(0)
    assert percentile_ms([(40, 98), (44, 2)], 0.5) == upper_ms(40)
    assert percentile_ms([(40, 98), (44, 2)], 0.99) == upper_ms(44)
