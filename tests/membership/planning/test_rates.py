"""Plans for known traffic: what is said most is dropped least."""

from __future__ import annotations

import pytest

from quicksilver.membership.planning import make_planner
from quicksilver.membership.planning.busy import find_busy
from quicksilver.membership.planning.check import check_plan
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.membership.planning.workload import Memberships, zipf_memberships
from quicksilver.stdx.rand import Rng
from quicksilver.wire.ids import GroupId

LIMITS = PlanLimits()


def skewed(members: Memberships) -> dict[GroupId, float]:
    """Zipf over the groups in an order of chance, as the papers have it (Figure 4.6)."""
    groups = sorted({group for wanted in members.values() for group in wanted})
    order = Rng(7).shuffled(groups)
    return {group: (rank + 1) ** -1.5 for rank, group in enumerate(order)}


@pytest.fixture(scope="module")
def members() -> Memberships:
    return zipf_memberships(120, 300, 0.1, 1.5, 3)


@pytest.mark.parametrize("planner", ["merged", "auto", "perfect", "regular"])
def test_plans_for_traffic_keep_their_promises(members: Memberships, planner: str) -> None:
    made = make_planner(planner, LIMITS, skewed(members))
    made.apply(members)
    check_plan(members, made.state(), LIMITS)


def test_a_plan_for_traffic_drops_much_less_of_it(members: Memberships) -> None:
    rates = skewed(members)
    unaware = make_planner("merged", LIMITS)
    aware = make_planner("merged", LIMITS, rates)
    for planner in (unaware, aware):
        planner.apply(members)
    before, after = (one.cost(rates).unwanted_fraction for one in (unaware, aware))
    assert before > 0.2
    assert after < before / 2


def test_the_same_rate_for_all_changes_nothing(members: Memberships) -> None:
    plain = make_planner("merged", LIMITS)
    equal = make_planner("merged", LIMITS, dict.fromkeys(skewed(members), 4.0))
    for planner in (plain, equal):
        planner.apply(members)
    assert equal.state() == plain.state()


def test_rates_are_relative(members: Memberships) -> None:
    rates = skewed(members)
    plans = [
        make_planner("merged", LIMITS, {g: rate * factor for g, rate in rates.items()})
        for factor in (1, 1024)
    ]
    for planner in plans:
        planner.apply(members)
    assert plans[0].state() == plans[1].state()


def test_silent_groups_are_planned_too(members: Memberships) -> None:
    busiest = max(skewed(members).items(), key=lambda item: item[1])[0]
    made = make_planner("merged", LIMITS, {busiest: 100.0})
    made.apply(members)
    check_plan(members, made.state(), LIMITS)


def find(members: list[int], rates: list[float], bands_max: int) -> list[list[int]]:
    return find_busy(members, rates, 64, bands_max, packet_cost=2.0, membership_cost=0.5)


def test_busy_groups_that_do_not_cut_each_other_share_a_band() -> None:
    left, inner, right = 0xFFFF, 0xFF, 0xFFFF << 32
    assert find([left, inner, right], [9.0, 8.0, 7.0], 20) == [[0, 2], [1]]


def test_busy_groups_share_the_last_band_if_that_is_better_than_dropping() -> None:
    assert find([0xFFFF, 0xFF], [9.0, 8.0], 3) == [[0, 1]]


def test_quiet_groups_and_groups_of_everybody_stay_with_the_rest() -> None:
    everybody = (1 << 64) - 1
    assert find([everybody], [50.0], 20) == []
    assert find([0xFFFF], [0.01], 20) == []
    assert find([0xFFFF], [50.0], 2) == []
