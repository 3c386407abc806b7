"""Plans as Spark jobs: exact, perfect, regular, merged.

Nothing is collected to the driver. Where the collapsed problem, or one connected
component of it, fits a task, the planner of the GMS plans it there, and the
result is the GMS's. A component that does not fit is planned as merged regions:
groups are divided by popularity, as the optimiser does for large irregular
systems, nodes are put into blocks of similar ones, and each block is clustered
by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from quicksilver.membership.planning.model import PlanLimits
from quicksilver.spark.overlap.collapse import Collapsed, collapse
from quicksilver.spark.overlap.components import find_components
from quicksilver.spark.overlap.regions import find_regions, fingerprint_nodes, select_pairs
from quicksilver.spark.overlap.schemas import CLASS_KEY, LEVELS, PLACES, PLAN_ROWS
from quicksilver.spark.overlap.tasks import GROUP, NODE, Strategy, cluster_block, plan_part

if TYPE_CHECKING:
    import pandas as pd

TASK_PAIRS_MAX = 3_000_000
"""Collapsed pairs that one task plans: a few hundred megabytes of Python."""

BLOCK_PAIRS = 200_000
"""Collapsed pairs that one task clusters: the search is quadratic in regions."""


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to plan."""

    strategy: Strategy = "merged"
    regions_per_node_max: int = 20
    region_nodes_min: int = 5
    task_pairs_max: int = TASK_PAIRS_MAX
    block_pairs: int = BLOCK_PAIRS

    @property
    def limits(self) -> PlanLimits:
        """The same for the planners of the GMS."""
        return PlanLimits(
            regions_per_node_max=self.regions_per_node_max, region_nodes_min=self.region_nodes_min
        )


class Planned(NamedTuple):
    """A plan as tables."""

    places: DataFrame
    """``node``, ``hierarchy``, ``region``."""
    levels: DataFrame
    """``group``, ``hierarchy``."""


def make_plan(pairs: DataFrame, options: PlanOptions) -> Planned:
    """Plan regions for who is in which group."""
    pairs = select_pairs(pairs)
    if options.strategy == "exact":
        return _plan_exact(pairs)
    if pairs.count() <= options.task_pairs_max:
        whole = pairs.select(
            F.lit("").alias("component"),
            F.col("node").alias("class"),
            F.col("group").alias("bundle"),
            F.lit(1).cast("long").alias("weight"),
            F.lit(1).cast("long").alias("copies"),
        )
        return _split(_plan_in_tasks(whole, options))
    small = collapse(pairs)
    return _expand(_plan_collapsed(small, options), small)


def _plan_exact(pairs: DataFrame) -> Planned:
    regions = find_regions(pairs).select(
        *CLASS_KEY, F.monotonically_increasing_id().alias("region")
    )
    # The numbers are made once and kept: they are used twice and must not differ.
    regions = regions.localCheckpoint()
    places = (
        fingerprint_nodes(pairs)
        .join(regions, on=list(CLASS_KEY), how="inner")
        .select("node", F.lit(0).cast("int").alias("hierarchy"), "region")
    )
    levels = pairs.select("group").distinct().withColumn("hierarchy", F.lit(0).cast("int"))
    return Planned(places.select(*PLACES.fieldNames()), levels.select(*LEVELS.fieldNames()))


def _plan_collapsed(small: Collapsed, options: PlanOptions) -> DataFrame:
    """Return plan rows for classes and bundles."""
    copies = small.bundles.groupBy("bundle").agg(F.count("*").alias("copies"))
    weighted = (
        small.pairs.join(small.weights, on="class", how="inner")
        .join(copies, on="bundle", how="inner")
        .select("class", "bundle", "weight", "copies")
    )
    # What a task is given grows with copies and weights, which the planner sees one by one.
    if _work(weighted) <= options.task_pairs_max:
        return _plan_in_tasks(weighted.withColumn("component", F.lit("")), options)
    components = find_components(small.pairs)
    labelled = weighted.join(components, on="class", how="inner").persist()
    sizes = labelled.groupBy("component").agg(_sum_work().alias("pairs"))
    fits = F.col("pairs") <= options.task_pairs_max
    sized = labelled.join(sizes, on="component", how="inner")
    planned = _plan_in_tasks(sized.where(fits).drop("pairs"), options)
    return planned.unionByName(_plan_in_blocks(sized.where(~fits).drop("pairs"), options))


def _plan_in_tasks(labelled: DataFrame, options: PlanOptions) -> DataFrame:
    strategy, limits = options.strategy, options.limits

    def plan(key: tuple[str], table: pd.DataFrame) -> pd.DataFrame:
        weights = dict(zip(table["class"], table["weight"], strict=True))
        pairs = zip(table["class"], table["bundle"], strict=True)
        copies = dict(zip(table["bundle"], table["copies"], strict=True))
        return _frame(plan_part(pairs, weights, copies, strategy, limits), key[0])

    made = labelled.groupBy("component").applyInPandas(plan, _WITH_COMPONENT)
    return _number_regions(made)


def _plan_in_blocks(labelled: DataFrame, options: PlanOptions) -> DataFrame:
    """Plan what no task can hold: two hierarchies by popularity, blocks of similar classes."""
    everybody = (
        labelled.select("component", "class", "weight")
        .distinct()
        .groupBy("component")
        .agg(F.sum("weight").alias("nodes"))
    )
    popularity = labelled.groupBy("component", "bundle").agg(F.sum("weight").alias("members"))
    # A packet of its own for every member costs members x (1 + price); one for everybody
    # costs nodes + price: the cheaper of the two is what the optimiser ends with, too.
    price = float(options.region_nodes_min)
    is_popular = F.col("members") * (1 + price) > F.col("nodes") + price
    levels = popularity.join(everybody, on="component", how="inner").select(
        "component", "bundle", F.when(is_popular, F.lit(0)).otherwise(F.lit(1)).alias("level")
    )
    if options.regions_per_node_max < 2:
        levels = levels.withColumn("level", F.lit(0))
    levels = levels.persist()
    wanted = labelled.join(levels, on=["component", "bundle"], how="inner").persist()
    blocks = _find_blocks(wanted, options.block_pairs)
    blocked = wanted.join(blocks, on=["component", "level", "class"], how="inner")

    def cluster(key: tuple[str, int, int], table: pd.DataFrame) -> pd.DataFrame:
        weights = dict(zip(table["class"], table["weight"], strict=True))
        pairs = zip(table["class"], table["bundle"], strict=True)
        copies = dict(zip(table["bundle"], table["copies"], strict=True))
        rows = cluster_block(pairs, weights, copies, price, int(key[1]))
        return _frame(rows, f"{key[0]}/{key[2]}")

    clustered = blocked.groupBy("component", "level", "block").applyInPandas(
        cluster, _WITH_COMPONENT
    )
    groups = levels.select(
        "component",
        F.lit(GROUP).alias("kind"),
        F.col("bundle").alias("name"),
        F.col("level").cast("int").alias("hierarchy"),
        F.lit(None).cast("long").alias("region"),
    )
    return _number_regions(clustered.unionByName(groups))


def _find_blocks(wanted: DataFrame, block_pairs: int) -> DataFrame:
    """Put classes in an order in which similar ones are near (min-hash), and cut it."""
    minimal = [F.min(F.xxhash64("bundle", F.lit(seed))).alias(f"min{seed}") for seed in range(4)]
    signed = wanted.groupBy("component", "level", "class").agg(*minimal, F.count("*").alias("size"))
    # The first min-hash decides the block: classes that share most of their groups share it
    # with the chance of their similarity. Long runs of one value are cut by the others.
    total = signed.groupBy("component", "level").agg(F.sum("size").alias("total"))
    cut = F.greatest(F.lit(1), F.ceil(F.col("total") / F.lit(block_pairs)))
    place = F.pmod(F.xxhash64("min0", "min1"), cut)
    return signed.join(total, on=["component", "level"], how="inner").select(
        "component", "level", "class", place.cast("int").alias("block")
    )


_WITH_COMPONENT = "component string, kind string, name string, hierarchy int, region long"


def _frame(rows: Iterator[tuple[str, str, int, int | None]], component: str) -> pd.DataFrame:
    import pandas as pd

    columns = ["kind", "name", "hierarchy", "region"]
    frame = pd.DataFrame(rows, columns=columns).astype({"region": "Int64", "hierarchy": "int32"})
    frame.insert(0, "component", component)
    return frame


def _number_regions(made: DataFrame) -> DataFrame:
    """Give the regions of all parts numbers of their own: a hash of where they come from."""
    own = F.when(F.col("region").isNotNull(), F.xxhash64("component", "hierarchy", "region"))
    return made.select("kind", "name", "hierarchy", own.alias("region")).select(
        *PLAN_ROWS.fieldNames()
    )


def _sum_work() -> Column:
    return F.sum(F.col("weight") * F.col("copies"))


def _work(weighted: DataFrame) -> int:
    row = weighted.agg(_sum_work().alias("work")).first()
    return 0 if row is None or row["work"] is None else int(row["work"])


def _split(rows: DataFrame) -> Planned:
    """Return places and levels of a plan for nodes and groups themselves."""
    rows = rows.localCheckpoint()
    nodes = rows.where(F.col("kind") == NODE).withColumnRenamed("name", "node")
    groups = rows.where(F.col("kind") == GROUP).withColumnRenamed("name", "group")
    return Planned(nodes.select(*PLACES.fieldNames()), groups.select(*LEVELS.fieldNames()))


def _expand(rows: DataFrame, small: Collapsed) -> Planned:
    """Return the plan for nodes and groups from that for classes and bundles."""
    named = _split(rows)
    places = (
        named.places.withColumnRenamed("node", "class")
        .join(small.classes, on="class", how="inner")
        .select(*PLACES.fieldNames())
    )
    levels = (
        named.levels.withColumnRenamed("group", "bundle")
        .join(small.bundles, on="bundle", how="inner")
        .select(*LEVELS.fieldNames())
    )
    return Planned(places, levels)
