"""Every planner keeps the promises of the model after every batch."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.membership.planning import PLANNERS, make_planner
from quicksilver.membership.planning.check import check_plan
from quicksilver.membership.planning.model import (
    PlanDelta,
    PlanLimits,
    Planner,
    PlanState,
)
from quicksilver.membership.planning.workload import (
    Memberships,
    community_memberships,
    nested_memberships,
    zipf_memberships,
)
from quicksilver.wire.ids import GroupId, NodeId, RegionId

names = st.sampled_from(sorted(PLANNERS))
limits = st.builds(
    PlanLimits,
    regions_per_node_max=st.sampled_from([1, 2, 3, 5, 20]),
    region_nodes_min=st.integers(1, 4),
)
wishes = st.frozensets(st.integers(1, 12).map(GroupId), max_size=8)
batch = st.dictionaries(st.integers(1, 14).map(NodeId), wishes, max_size=10)
batches = st.lists(batch, min_size=1, max_size=7)


class Follower:
    """Rebuilds the plan from deltas alone, as a node would."""

    def __init__(self, state: PlanState | None = None) -> None:
        self.regions = dict(state.regions) if state else {}
        self.groups = dict(state.groups) if state else {}

    def take(self, delta: PlanDelta) -> None:
        for number in delta.regions_gone:
            del self.regions[number]
        self.regions.update(delta.regions)
        self.groups.update(delta.groups)
        self.groups = {g: r for g, r in self.groups.items() if r}

    def assert_at(self, state: PlanState) -> None:
        assert self.regions == dict(state.regions)
        assert self.groups == dict(state.groups)


def update(members: Memberships, changes: Memberships) -> None:
    members.update(changes)
    for node in [n for n, groups in members.items() if not groups]:
        del members[node]


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(names, limits, batches)
def test_promises_hold_after_every_batch(
    name: str, limit: PlanLimits, changes: list[Memberships]
) -> None:
    """Cover, disjointness and cap; deltas add up; numbers are never reused."""
    planner, follower = make_planner(name, limit), Follower()
    members: Memberships = {}
    used: set[RegionId] = set()
    for some in changes:
        before = set(follower.regions)
        follower.take(planner.apply(some))
        update(members, some)
        state = planner.state()
        check_plan(members, state, limit)
        follower.assert_at(state)
        born = set(state.regions) - before
        assert not born & used
        used |= born
        cost = planner.cost()
        assert cost.regions_per_node_max <= limit.regions_per_node_max
        assert 0.0 <= cost.unwanted_fraction < 1.0


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(names, limits, batches, batch)
def test_a_restored_planner_moves_nobody_and_goes_on(
    name: str, limit: PlanLimits, changes: list[Memberships], later: Memberships
) -> None:
    """A GMS that restarts must not disturb its nodes, nor reuse a number."""
    planner = make_planner(name, limit)
    members: Memberships = {}
    for some in changes:
        planner.apply(some)
        update(members, some)
    state = planner.state()
    again = make_planner(name, limit)
    again.restore(members.items(), state)
    assert again.state() == state
    assert again.apply({}) == PlanDelta()
    assert again.state() == state
    follower = Follower(state)
    follower.take(again.apply(later))
    update(members, later)
    check_plan(members, again.state(), limit)
    follower.assert_at(again.state())
    assert min({*again.state().regions} - {*state.regions}, default=10**9) >= (state.next_region)


numbers = st.integers(1, 9).map(RegionId)
some_nodes = st.lists(st.integers(1, 14).map(NodeId), max_size=6).map(tuple)
wild_states = st.builds(
    PlanState,
    regions=st.dictionaries(numbers, some_nodes, max_size=8),
    groups=st.dictionaries(
        st.integers(1, 12).map(GroupId), st.lists(numbers, max_size=4).map(tuple)
    ),
    hierarchies=st.dictionaries(st.integers(1, 12).map(GroupId), st.integers(-1, 6)),
    next_region=st.integers(0, 12),
)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(names, limits, batch, wild_states, batch)
def test_any_stored_plan_is_repaired_by_the_next_batch(
    name: str,
    limit: PlanLimits,
    stored: Memberships,
    state: PlanState,
    changes: Memberships,
) -> None:
    """A plan that is out of date or plain wrong costs moves, not correctness."""
    members = dict(stored)
    update(members, {})
    planner = make_planner(name, limit)
    planner.restore(members.items(), state)
    follower = Follower(state)
    follower.take(planner.apply(changes))
    update(members, changes)
    check_plan(members, planner.state(), limit)
    follower.assert_at(planner.state())


@pytest.mark.parametrize("name", sorted(PLANNERS))
@pytest.mark.parametrize(
    ("regions", "groups"),
    [({1: (1,), 2: (2,)}, (2, 1)), ({1: (2, 1)}, (1,)), ({1: (1, 1, 2)}, (1, 1))],
    ids=["regions", "members", "twice"],
)
def test_a_stored_plan_that_is_not_in_order_is_put_in_order(
    name: str, regions: dict[RegionId, tuple[NodeId, ...]], groups: tuple[RegionId, ...]
) -> None:
    """Nobody moves, and whoever follows the stored plan has to hear of it all the same."""
    group = GroupId(1)
    members = {NodeId(1): frozenset([group]), NodeId(2): frozenset([group])}
    state = PlanState(regions, {group: groups})
    planner = make_planner(name, PlanLimits())
    planner.restore(members.items(), state)
    follower = Follower(state)
    follower.take(planner.apply({}))
    check_plan(members, planner.state(), PlanLimits())
    follower.assert_at(planner.state())


@pytest.mark.parametrize("name", sorted(PLANNERS))
@pytest.mark.parametrize("cap", [1, 4, 20])
def test_the_cap_holds_for_irregular_interests(name: str, cap: int) -> None:
    """Zipf interests would put a node into hundreds of perfect hierarchies."""
    limit = PlanLimits(regions_per_node_max=cap)
    members = zipf_memberships(60, 200, 0.1, 1.5, seed=3)
    planner = make_planner(name, limit)
    planner.apply(members)
    check_plan(members, planner.state(), limit)


@pytest.mark.parametrize("name", sorted(PLANNERS))
def test_one_change_moves_only_those_concerned(name: str) -> None:
    """Nodes that share no changed group keep their regions."""
    members = community_memberships(200, 100, 5, 10, 0.0, seed=2)
    planner = make_planner(name, PlanLimits())
    planner.apply(members)
    mover = NodeId(1)
    wanted = frozenset(sorted(members[mover])[:-1])
    before = planner.state().regions
    delta = planner.apply({mover: wanted})
    for number in [*delta.regions, *delta.regions_gone]:
        changed = set(before.get(number, ())) ^ set(delta.regions.get(number, ()))
        assert all(members[node] & members[mover] for node in changed)


@pytest.mark.parametrize("name", ["auto", "exact"])
def test_shared_interests_become_one_region_each(name: str) -> None:
    """In a regular system the plain rule is already the best plan."""
    members = community_memberships(200, 100, 5, 10, 0.0, seed=2)
    planner = make_planner(name, PlanLimits())
    planner.apply(members)
    cost = planner.cost()
    assert (cost.regions, cost.regions_per_node_max) == (5, 1)
    assert cost.regions_per_group_max == 1
    assert cost.unwanted_fraction == 0.0


def test_stray_interests_do_not_break_regions_apart() -> None:
    """Nearly equal nodes share a region and drop the little they did not join."""
    members = community_memberships(200, 400, 5, 20, 0.03, seed=2)
    auto, exact = make_planner("auto", PlanLimits()), make_planner("exact", PlanLimits())
    auto.apply(members)
    exact.apply(members)
    assert auto.cost().unwanted_fraction < 0.5
    assert auto.cost().regions_per_group_mean < exact.cost().regions_per_group_mean / 3


def test_joining_one_by_one_ends_near_the_plan_made_at_once() -> None:
    """Systems start empty: early choices must not last for ever."""
    members = community_memberships(150, 100, 5, 10, 0.0, seed=4)
    planner = make_planner("auto", PlanLimits())
    for node, groups in sorted(members.items()):
        planner.apply({node: groups})
    check_plan(members, planner.state(), PlanLimits())
    cost = planner.cost()
    assert cost.regions_per_node_mean <= 3
    assert cost.unwanted_fraction < 0.2


def cost(planner: Planner, packet: int) -> float:
    state = planner.state()
    return sum(len(state.regions[r]) + packet for rs in state.groups.values() for r in rs)


@settings(max_examples=40, deadline=None)
@given(batch)
def test_the_optimiser_is_never_worse_than_the_plain_rules(changes: Memberships) -> None:
    """It compares with one region for all and with exact regions, at least."""
    limit = PlanLimits(region_nodes_min=3)
    merged, exact = make_planner("merged", limit), make_planner("exact", limit)
    merged.apply(changes)
    exact.apply(changes)
    members = {n: g for n, g in changes.items() if g}
    groups = {g for some in members.values() for g in some}
    assert cost(merged, 3) <= cost(exact, 3)
    assert cost(merged, 3) <= len(groups) * (len(members) + 3)


def test_perfect_hierarchies_of_nested_groups_need_no_second_one() -> None:
    """Dissertation 4.1.2, Figure 4.4: components inside components."""
    members = nested_memberships(128, 2, 5, seed=1)
    planner = make_planner("perfect", PlanLimits())
    planner.apply(members)
    cost = planner.cost()
    assert cost.hierarchies == 1
    assert cost.regions_per_node_max == 1
    assert cost.unwanted_fraction == 0.0
    # "the number of nonempty regions is bounded by 2k - 1" for k groups
    assert cost.regions <= 2 * cost.groups - 1


def test_two_groups_that_cross_make_three_exact_regions() -> None:
    """Dissertation 4.1.2: R{g1}, R{g1,g2} and R{g2}."""
    one, two = GroupId(1), GroupId(2)
    members = {NodeId(1): frozenset([one]), NodeId(2): frozenset([one, two])}
    members[NodeId(3)] = frozenset([two])
    planner = make_planner("exact", PlanLimits())
    planner.apply(members)
    assert len(planner.state().regions) == 3


def test_crossing_groups_open_a_second_perfect_hierarchy() -> None:
    """Dissertation 4.1.2, greedy algorithm: largest first, else a new one."""
    big = {NodeId(n): {GroupId(1)} for n in range(1, 9)}
    for n in range(5, 12):
        big.setdefault(NodeId(n), set()).add(GroupId(2))
    for n in (1, 2):
        big[NodeId(n)].add(GroupId(3))
    planner = make_planner("perfect", PlanLimits())
    planner.apply({n: frozenset(g) for n, g in big.items()})
    hierarchies = planner.state().hierarchies
    assert hierarchies[GroupId(1)] == hierarchies[GroupId(3)]
    assert hierarchies[GroupId(1)] != hierarchies[GroupId(2)]


@pytest.mark.parametrize(("overlap", "same"), [(5, True), (4, False)])
def test_regular_hierarchies_refuse_small_parts(overlap: int, same: bool) -> None:
    """Scaling with groups, 3.1: "in a way that doesn't produce small regions"."""
    members: Memberships = {}
    for n in range(1, 31):
        groups = {GroupId(1)} if n <= 20 else set[GroupId]()
        if 20 - overlap < n:
            groups.add(GroupId(2))
        members[NodeId(n)] = frozenset(groups)
    planner = make_planner("regular", PlanLimits(region_nodes_min=5))
    planner.apply(members)
    hierarchies = planner.state().hierarchies
    assert (hierarchies[GroupId(1)] == hierarchies[GroupId(2)]) is same


SCRIPT = """
from quicksilver.membership.planning import PLANNERS, make_planner
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.membership.planning.workload import zipf_memberships
members = zipf_memberships(40, 120, 0.1, 1.5, seed=9)
more = zipf_memberships(50, 120, 0.1, 1.5, seed=10)
for name in sorted(PLANNERS):
    planner = make_planner(name, PlanLimits(regions_per_node_max=4))
    print(name, planner.apply(members))
    for node in range(35, 51):
        print(planner.apply({node: more[node]}))
    print(planner.state(), planner.cost())
"""


@pytest.mark.slow
def test_plans_do_not_depend_on_hash_order() -> None:
    """Two GMS replicas with the same inputs must publish the same regions."""
    outputs = set()
    for seed in ("0", "1", "4242"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=env, capture_output=True, check=True
        )
        outputs.add(run.stdout)
    assert len(outputs) == 1


def test_an_unknown_planner_is_refused_by_name() -> None:
    """The message tells what there is to choose from."""
    with pytest.raises(ValueError, match=r"'best'.*auto"):
        make_planner("best", PlanLimits())
