"""Workloads: seeded, of the stated size, and as popular as Zipf says."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, count
from math import exp

import pytest

from quicksilver.membership.planning.measure import measure_plan
from quicksilver.membership.planning.workload import (
    community_memberships,
    nested_memberships,
    zipf_memberships,
)


@pytest.mark.parametrize(
    ("groups", "fraction"), [(10, 0.1), (4, 0.5), (10, 1.0), (300, 0.5), (500, 0.1)]
)
def test_every_node_joins_its_fraction(groups: int, fraction: float) -> None:
    """Dissertation 4.1.2: nodes "each join 10% of some set of groups"."""
    made = zipf_memberships(20, groups, fraction, 1.5, seed=1)
    assert {len(joined) for joined in made.values()} == {max(1, round(groups * fraction))}
    assert all(1 <= g <= groups for joined in made.values() for g in joined)
    assert made == zipf_memberships(20, groups, fraction, 1.5, seed=1)
    if fraction < 1:
        assert made != zipf_memberships(20, groups, fraction, 1.5, seed=2)


def test_popularity_is_that_of_drawing_without_repetition() -> None:
    """Each rank is taken with the chance 1 - exp(-weight * t) of one common t."""
    made = zipf_memberships(400, 1000, 0.1, 1.5, seed=5)
    found = Counter(g for joined in made.values() for g in joined)
    deadline = next(
        t
        for t in map(float, count(1))
        if sum(1 - exp(-(r**-1.5) * t) for r in range(1, 1001)) >= 100
    )
    for low, high in ((1, 20), (20, 63), (63, 80), (80, 200), (200, 500), (500, 1001)):
        expected = sum(1 - exp(-(r**-1.5) * deadline) for r in range(low, high)) * 400
        assert sum(found[r] for r in range(low, high)) == pytest.approx(expected, rel=0.08)


def test_nested_groups_are_nested_or_disjoint() -> None:
    """Dissertation 4.1.2, Figure 4.4."""
    made = nested_memberships(50, 3, 4, seed=2)
    groups: dict[int, set[int]] = {}
    for node, joined in made.items():
        for group in joined:
            groups.setdefault(group, set()).add(node)
    for a, b in combinations(groups.values(), 2):
        assert a & b in (set(), a, b)


def test_communities_share_their_interests() -> None:
    """Without strays there are as many different sets as communities."""
    assert len(set(community_memberships(100, 60, 4, 10, 0.0, seed=1).values())) == 4
    assert len(set(community_memberships(100, 60, 4, 10, 0.5, seed=1).values())) > 50


def test_measuring_reports_the_numbers_of_the_papers() -> None:
    """The clock is an argument, so the numbers can be exact here."""
    ticks = count()
    numbers = measure_plan(
        30,
        100,
        0.1,
        1.5,
        "auto",
        1,
        clock=lambda: float(next(ticks)),
        memory_bytes=lambda: 7,
    )
    assert (numbers["plan_s"], numbers["join_s"], numbers["memory_bytes"]) == (1.0, 1.0, 7)
    assert numbers["nodes"] == 30
    assert int(numbers["regions_per_node_max"]) <= 20
