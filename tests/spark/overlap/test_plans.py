"""Plans made by Spark: right, the same as the GMS's, and what they predict comes true."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from pyspark.sql import functions as F

from quicksilver.analysis.errors import BadInputError
from quicksilver.membership.gms import TableNames
from quicksilver.membership.planning.files import LoadedPlanner, load_plan
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.membership.service import MembershipService
from quicksilver.spark.overlap.classes import find_regions, select_pairs
from quicksilver.spark.overlap.files import read_pairs, read_traffic, write_plan
from quicksilver.spark.overlap.generate import Workload, generate_pairs, groups_of
from quicksilver.spark.overlap.measures import measure
from quicksilver.spark.overlap.strategies import Planned, PlanOptions, make_plan
from quicksilver.trials.cluster import Cluster
from tests.spark.overlap.test_tasks import engine_plan
from tests.spark.soaking import only_in_soak

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

WORKLOAD = Workload(model="correlated", nodes=24, groups=30, fraction=0.3, templates=4, seed=2)


@pytest.fixture(scope="module")
def pairs(spark: SparkSession) -> DataFrame:
    return generate_pairs(spark, WORKLOAD, tasks=2).persist()


def sets_of(pairs: DataFrame) -> dict[str, frozenset[str]]:
    wants: dict[str, set[str]] = {}
    for row in pairs.collect():
        wants.setdefault(row["node"], set()).add(row["group"])
    return {node: frozenset(groups) for node, groups in wants.items()}


def regions_of(planned: Planned) -> set[frozenset[str]]:
    regions: dict[tuple[int, int], set[str]] = {}
    for row in planned.places.collect():
        regions.setdefault((row["hierarchy"], row["region"]), set()).add(row["node"])
    return {frozenset(nodes) for nodes in regions.values()}


def check_cover(pairs: DataFrame, planned: Planned) -> None:
    """Every member of a group has exactly one place in the group's hierarchy."""
    levels = {row["group"]: row["hierarchy"] for row in planned.levels.collect()}
    places: dict[tuple[str, int], list[int]] = {}
    for row in planned.places.collect():
        places.setdefault((row["node"], row["hierarchy"]), []).append(row["region"])
    for node, groups in sets_of(pairs).items():
        for group in groups:
            assert len(places[node, levels[group]]) == 1


def test_pairs_are_the_same_however_the_work_is_divided(pairs: DataFrame) -> None:
    expected = {
        f"n{node}": frozenset(f"g{group}" for group in groups_of(WORKLOAD, node))
        for node in range(WORKLOAD.nodes)
    }
    assert sets_of(pairs) == expected


@pytest.mark.parametrize("exact", [False, True])
def test_regions_are_nodes_with_the_same_groups(pairs: DataFrame, exact: bool) -> None:
    sets = sets_of(pairs)
    # Some pairs are repeated, which makes no difference.
    repeated = select_pairs(pairs.union(pairs.where(F.col("group") < "g2")))
    regions = find_regions(repeated, exact=exact)
    assert sorted(row["nodes"] for row in regions.collect()) == sorted(
        list(sets.values()).count(one) for one in set(sets.values())
    )


@pytest.mark.parametrize("strategy", ["exact", "perfect", "regular", "merged"])
def test_small_plans_are_those_of_the_gms(pairs: DataFrame, strategy: Any) -> None:
    options = PlanOptions(strategy=strategy, regions_per_node_max=6, region_nodes_min=3)
    planned = make_plan(pairs, options)
    check_cover(pairs, planned)
    regions, levels = engine_plan([tuple(row) for row in pairs.collect()], strategy)
    assert regions_of(planned) == regions
    assert {row["group"]: row["hierarchy"] for row in planned.levels.collect()} == levels


def check_hierarchies(pairs: DataFrame, planned: Planned, rule: str, strict: int) -> None:
    """In strict hierarchies groups are nested or disjoint, or regions are not small."""
    members: dict[str, set[str]] = {}
    for node, wanted in sets_of(pairs).items():
        for group in wanted:
            members.setdefault(group, set()).add(node)
    levels: dict[int, list[set[str]]] = {}
    for row in planned.levels.collect():
        levels.setdefault(row["hierarchy"], []).append(members[row["group"]])
    assert any(level < strict for level in levels)
    for level, groups in levels.items():
        if level < strict and rule == "perfect":
            for one in groups:
                assert all(one <= other or other <= one or not one & other for other in groups)
    regions: dict[tuple[int, int], set[str]] = {}
    for row in planned.places.collect():
        regions.setdefault((row["hierarchy"], row["region"]), set()).add(row["node"])
    for (level, _), nodes in regions.items():
        if level < strict:
            # Exact: whoever is in a region wants all that is sent there.
            assert all(nodes <= group or not nodes & group for group in levels[level])
            assert rule == "perfect" or len(nodes) >= 3


GIANT = PlanOptions(regions_per_node_max=5, region_nodes_min=3, task_pairs_max=40, block_pairs=60)


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param("merged", marks=only_in_soak),
        "perfect",
        pytest.param("regular", marks=only_in_soak),
    ],
)
def test_what_no_task_can_hold_is_planned_by_many(pairs: DataFrame, strategy: Any) -> None:
    planned = make_plan(pairs, msgspec.structs.replace(GIANT, strategy=strategy))
    check_cover(pairs, planned)
    homes: dict[str, int] = {}
    for row in planned.places.collect():
        homes[row["node"]] = homes.get(row["node"], 0) + 1
    assert max(homes.values()) <= 5
    if strategy != "merged":
        check_hierarchies(pairs, planned, strategy, 3)


def make_traffic(spark: SparkSession, groups: int) -> DataFrame:
    rows = [(f"g{(at * 7) % groups}", (at + 1) ** -1.5) for at in range(groups)]
    return spark.createDataFrame(rows, "group string, rate double")


def test_small_plans_for_traffic_are_those_of_the_gms(
    spark: SparkSession, pairs: DataFrame
) -> None:
    traffic = make_traffic(spark, WORKLOAD.groups)
    options = PlanOptions(strategy="merged", regions_per_node_max=6, region_nodes_min=3)
    planned = make_plan(pairs, options, traffic)
    check_cover(pairs, planned)
    rates = {row["group"]: row["rate"] for row in traffic.collect()}
    rows = [tuple(row) for row in pairs.collect()]
    assert regions_of(planned) == engine_plan(rows, "merged", rates)[0]
    assert regions_of(planned) != engine_plan(rows, "merged")[0]


@only_in_soak
def test_traffic_steers_what_many_plan(spark: SparkSession) -> None:
    workload = Workload(model="zipf", nodes=80, groups=60, seed=6)
    pairs = generate_pairs(spark, workload, tasks=2).persist()
    traffic = make_traffic(spark, workload.groups)
    options = PlanOptions(regions_per_node_max=8, task_pairs_max=40, block_pairs=100)
    aware = make_plan(pairs, options, traffic)
    check_cover(pairs, aware)
    before = measure(pairs, make_plan(pairs, options), traffic).unwanted_traffic_share
    assert before > 0.05
    assert measure(pairs, aware, traffic).unwanted_traffic_share < before / 2


@only_in_soak
def test_separate_communities_are_planned_apart_as_the_gms_would(spark: SparkSession) -> None:
    rows = [
        (f"c{community}n{node}", f"c{community}g{group}")
        for community in range(3)
        for node in range(6)
        for group in range(8)
        if (node * 7 + group * 5 + community) % 3
    ]
    table = spark.createDataFrame(rows, "node string, group string")
    options = PlanOptions(
        strategy="perfect", regions_per_node_max=6, region_nodes_min=3, task_pairs_max=50
    )
    planned = make_plan(table, options)
    check_cover(table, planned)


@pytest.mark.parametrize(
    ("strategy", "cap"),
    [
        pytest.param("exact", 1, marks=only_in_soak),
        pytest.param("perfect", 3, marks=only_in_soak),
        pytest.param("regular", 3, marks=only_in_soak),
        ("merged", 2),
    ],
)
def test_what_a_plan_predicts_comes_true_in_the_simulator(
    spark: SparkSession, tmp_path: Path, strategy: Any, cap: int
) -> None:
    """Pairs, plan on Spark, plan file, GMS in the simulator: unwanted traffic as predicted."""
    members = {
        f"n{node}.0": [f"g{group}" for group in groups_of(WORKLOAD, node)]
        for node in range(WORKLOAD.nodes)
    }
    rows = [(node, group) for node, groups in members.items() for group in groups]
    table = spark.createDataFrame(rows, "node string, group string")
    planned = make_plan(table, PlanOptions(strategy=strategy, regions_per_node_max=cap))
    predicted = measure(table, planned).unwanted_traffic_share
    plan = load_plan(write_plan(planned, tmp_path / "plan"))
    names = TableNames()

    def make_service(**given: Any) -> MembershipService:
        planner = LoadedPlanner(
            plan,
            PlanLimits(regions_per_node_max=cap),
            node_name=names.of_node,
            group_name=names.of_group,
        )
        return MembershipService(**{**given, "planner": planner, "on_tables": names.bind})

    cluster = Cluster(seed=5, make_service=make_service)
    nodes = cluster.start(WORKLOAD.nodes)
    for at, node in enumerate(nodes):
        node.join(*members[f"n{at}.0"])
    (sender,) = cluster.start(1)
    groups = sorted({group for wanted in members.values() for group in wanted})
    sender.open(*groups)
    assert cluster.settle(30)
    for _ in range(20):
        for group in groups:
            sender.send(group, b"x" * 100)
        cluster.run(0.2)
    cluster.run(2.0)
    wanted = sum(sum(node.delivered.values()) for node in nodes)
    unwanted = sum(node.unwanted for node in nodes)
    assert wanted == 20 * len(rows)
    assert (predicted > 0.02) == (strategy != "exact")
    assert unwanted / (wanted + unwanted) == pytest.approx(predicted, rel=0.05)


def test_bad_tables_are_named(spark: SparkSession, tmp_path: Path) -> None:
    """One line each, that names the file."""

    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    complaints = {
        write("other.csv", "a,b\n1,2\n"): "no column 'node'; it has: a, b",
        str(tmp_path / "nothing.parquet"): "cannot be read",
        write("text.parquet", "node,group\n"): "cannot be read",
        write("empty.csv", "node,group\n"): "there are no pairs in it",
        write("holes.csv", "node,group\na,g\nb,\n"): "1 of 2 pairs have no node or no group",
        write("lists.json", '{"node": ["a"], "group": "g"}\n'): "'node' is array<string>",
        write("whole.json", '[\n {"node": "a",\n "group": "g"}]\n'): "by lines",
    }
    for path, complaint in complaints.items():
        with pytest.raises(BadInputError) as caught:
            read_pairs(spark, path)
        assert complaint in str(caught.value)
        assert str(caught.value).startswith(path)
        assert "\n" not in str(caught.value)
    rates = write("rates.csv", "group,rate\ng,fast\nh,-1\ni,2\n")
    with pytest.raises(BadInputError, match="2 of 3 rates are no numbers"):
        read_traffic(spark, rates)
    numbers = write("numbers.csv", "node,group\n1,7\n1,7\n2,7\n")
    assert make_plan(read_pairs(spark, numbers), PlanOptions()).places.count() == 2
