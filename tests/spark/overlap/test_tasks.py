"""What one task plans: the same as the GMS, on the same memberships."""

from __future__ import annotations

import pytest

from quicksilver.membership.planning import make_planner
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.spark.overlap.generate import Workload, groups_of
from quicksilver.spark.overlap.tasks import (
    GROUP,
    NODE,
    Rule,
    Strategy,
    cluster_block,
    fit_bundles,
    plan_part,
)
from quicksilver.wire.ids import GroupId, NodeId

LIMITS = PlanLimits(regions_per_node_max=6, region_nodes_min=3)
WORKLOADS = [
    Workload(model="correlated", nodes=60, groups=40, templates=5, seed=3),
    Workload(model="templates", nodes=80, groups=30, templates=7, seed=4),
    Workload(model="hierarchy", nodes=64, groups=85, seed=5),
    Workload(model="zipf", nodes=40, groups=60, seed=6),
]


def pairs_of(workload: Workload) -> list[tuple[str, str]]:
    return [
        (f"n{node:04d}", f"g{group:04d}")
        for node in range(workload.nodes)
        for group in groups_of(workload, node)
    ]


def engine_plan(
    pairs: list[tuple[str, str]], strategy: Strategy, rates: dict[str, float] | None = None
) -> tuple[set[frozenset[str]], dict[str, int]]:
    groups = sorted({group for _, group in pairs})
    nodes = sorted({node for node, _ in pairs})
    wants: dict[NodeId, set[GroupId]] = {}
    for node, group in pairs:
        number = GroupId(groups.index(group) + 1)
        wants.setdefault(NodeId(nodes.index(node) + 1), set()).add(number)
    known = None if rates is None else {GroupId(i + 1): rates[g] for i, g in enumerate(groups)}
    planner = make_planner(strategy, LIMITS, known)
    planner.apply({node: frozenset(wanted) for node, wanted in wants.items()})
    state = planner.state()
    regions = {frozenset(nodes[one - 1] for one in members) for members in state.regions.values()}
    levels = {groups[one - 1]: state.hierarchies.get(one, 0) for one in state.groups}
    return regions, levels


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.model)
@pytest.mark.parametrize("strategy", ["exact", "perfect", "regular", "merged"])
def test_a_task_plans_as_the_gms_does(workload: Workload, strategy: Strategy) -> None:
    pairs = pairs_of(workload)
    rows = list(plan_part(pairs, {}, {}, strategy, LIMITS))
    regions: dict[tuple[int, int | None], set[str]] = {}
    for kind, name, level, region in rows:
        if kind == NODE:
            regions.setdefault((level, region), set()).add(name)
    levels = {name: level for kind, name, level, _ in rows if kind == GROUP}
    assert ({frozenset(one) for one in regions.values()}, levels) == engine_plan(pairs, strategy)


def test_weights_and_copies_count_as_many_nodes_and_groups() -> None:
    pairs = [("a", "x"), ("b", "x"), ("b", "y")]
    full = [(f"a{i}", g) for i in range(4) for g in ("x1", "x2")]
    full += [("b0", g) for g in ("x1", "x2", "y")]
    small = list(plan_part(pairs, {"a": 4}, {"x": 2}, "merged", LIMITS))
    regions, levels = engine_plan(full, "merged")
    assert len({row[2:] for row in small if row[0] == NODE}) == len(regions)
    assert {name for kind, name, _, _ in small if kind == GROUP} == {"x", "y"}
    assert len({level for kind, _, level, _ in small if kind == GROUP}) == len(set(levels.values()))


def test_a_block_puts_every_class_into_one_region() -> None:
    pairs = pairs_of(WORKLOADS[0])
    rows = list(cluster_block(pairs, {}, {}, 3.0, 1))
    assert sorted(name for _, name, _, _ in rows) == sorted({node for node, _ in pairs})
    assert {level for _, _, level, _ in rows} == {1}


def test_workloads_depend_on_their_seed_alone() -> None:
    for workload in WORKLOADS:
        again = Workload(**{name: getattr(workload, name) for name in workload.__struct_fields__})
        assert groups_of(workload, 7) == groups_of(again, 7)
        assert groups_of(workload, 7) == sorted(set(groups_of(workload, 7)))


HIERARCHIES = LIMITS.regions_per_node_max - 2


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.model)
@pytest.mark.parametrize("rule", ["perfect", "regular"])
def test_bundles_go_where_the_gms_puts_groups(workload: Workload, rule: Rule) -> None:
    pairs = pairs_of(workload)
    fitted = fit_bundles(pairs, {}, rule, HIERARCHIES, LIMITS.region_nodes_min)
    _, levels = engine_plan(pairs, rule)
    assert fitted.levels == {g: level for g, level in levels.items() if level < HIERARCHIES}
    assert sorted(fitted.rest) == sorted(g for g, level in levels.items() if level >= HIERARCHIES)


def test_large_groups_do_not_depend_on_smaller_ones() -> None:
    """So that the rest may be fitted later, and elsewhere."""
    pairs = pairs_of(WORKLOADS[0])
    sizes: dict[str, int] = {}
    for _, group in pairs:
        sizes[group] = sizes.get(group, 0) + 1
    half = sorted(sizes.values())[len(sizes) // 2]
    large = [(node, group) for node, group in pairs if sizes[group] >= half]
    whole = fit_bundles(pairs, {}, "regular", HIERARCHIES, 3).levels
    part = fit_bundles(large, {}, "regular", HIERARCHIES, 3).levels
    assert part == {group: level for group, level in whole.items() if sizes[group] >= half}


def test_classes_weigh_as_many_nodes() -> None:
    pairs = [("a", "x"), ("b", "x"), ("b", "y")]
    apart = fit_bundles(pairs, {"a": 5, "b": 2}, "regular", 4, 3)
    together = fit_bundles(pairs, {"a": 5, "b": 3}, "regular", 4, 3)
    assert apart.levels == {"x": 0}
    assert apart.rest == ["y"]
    assert together.levels == {"x": 0, "y": 0}
