"""What one task decides for the largest groups of a giant: what the GMS would."""

from __future__ import annotations

import pytest

from quicksilver.spark.overlap.fitting import Rule, fit_bundles
from quicksilver.spark.overlap.generate import Workload
from tests.spark.overlap.test_tasks import LIMITS, WORKLOADS, engine_plan, pairs_of

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
