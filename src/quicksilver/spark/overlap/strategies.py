"""Plans as Spark jobs: exact, perfect, regular, merged.

Nothing is collected to the driver. Where the collapsed problem, or one connected
component of it, fits a task, the planner of the GMS plans it there, and the
result is the GMS's. A component that does not fit is planned by many: strict
hierarchies by ``rounds``, merged regions by ``blocks``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from quicksilver.membership.planning.model import PlanLimits
from quicksilver.spark.overlap.blocks import plan_in_blocks
from quicksilver.spark.overlap.classes import (
    Collapsed,
    collapse,
    find_classes,
    find_components,
    select_pairs,
)
from quicksilver.spark.overlap.rounds import plan_in_rounds
from quicksilver.spark.overlap.schemas import (
    LEVELS,
    PLACES,
    WITH_COMPONENT,
    as_frame,
    keep,
    number_regions,
)
from quicksilver.spark.overlap.tasks import GROUP, NODE, Strategy, plan_part

if TYPE_CHECKING:
    import pandas as pd

TASK_PAIRS_MAX = 3_000_000
"""Collapsed pairs that one task plans: a few hundred megabytes of Python."""

BLOCK_PAIRS = 200_000
"""Collapsed pairs that one task clusters: the search is quadratic in regions."""


_MERGED_HIERARCHIES = 2
"""Of strict plans, kept for what fits nowhere: popular groups, and rare ones."""


class PlanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a planning job."""

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


def make_plan(pairs: DataFrame, options: PlanOptions, traffic: DataFrame | None = None) -> Planned:
    """Plan regions for who is in which group; ``traffic`` is the ``rate`` of each ``group``.

    A group without a rate has none. Without ``traffic``, all groups weigh the same.
    """
    pairs = select_pairs(pairs)
    if options.strategy == "exact":
        return _plan_exact(pairs)
    if pairs.count() <= options.task_pairs_max:
        whole = pairs.select(
            F.lit("").alias("component"),
            F.col("node").alias("class"),
            F.col("group").alias("bundle"),
            F.lit(1).cast("long").alias("weight"),
        )
        own = pairs.select(F.col("group").alias("bundle"), "group").distinct()
        whole = whole.join(_load_bundles(own, traffic), on="bundle", how="inner")
        return _split(_plan_in_tasks(whole, options, by_traffic=traffic is not None))
    small = collapse(pairs)
    return _expand(_plan_collapsed(small, options, traffic), small)


def _plan_exact(pairs: DataFrame) -> Planned:
    places = find_classes(pairs).select(
        "node", F.lit(0).cast("int").alias("hierarchy"), F.xxhash64("class").alias("region")
    )
    levels = pairs.select("group").distinct().withColumn("hierarchy", F.lit(0).cast("int"))
    return Planned(places.select(*PLACES.fieldNames()), levels.select(*LEVELS.fieldNames()))


def _load_bundles(bundles: DataFrame, traffic: DataFrame | None) -> DataFrame:
    """Return ``bundle``, ``copies``, ``rate``: how many groups it holds, and their traffic."""
    if traffic is None:
        rated = bundles.withColumn("rate", F.lit(1.0))
    else:
        rates = traffic.select(
            F.col("group").cast("string").alias("group"), F.col("rate").cast("double").alias("rate")
        )
        total = rates.groupBy("group").agg(F.sum("rate").alias("rate"))
        rated = bundles.join(total, on="group", how="left").fillna({"rate": 0.0})
    return rated.groupBy("bundle").agg(F.count("*").alias("copies"), F.sum("rate").alias("rate"))


def _plan_collapsed(small: Collapsed, options: PlanOptions, traffic: DataFrame | None) -> DataFrame:
    """Return plan rows for classes and bundles."""
    by_traffic = traffic is not None
    weighted = (
        small.pairs.join(small.weights, on="class", how="inner")
        .join(_load_bundles(small.bundles, traffic), on="bundle", how="inner")
        .select("class", "bundle", "weight", "copies", "rate")
    )
    # What a task is given grows with copies and weights, which the planner sees one by one.
    if _work(weighted) <= options.task_pairs_max:
        whole = weighted.withColumn("component", F.lit(""))
        return _plan_in_tasks(whole, options, by_traffic=by_traffic)
    components = find_components(small.pairs)
    labelled = keep(weighted.join(components, on="class", how="inner"))
    sizes = labelled.groupBy("component").agg(_sum_work().alias("pairs"))
    fits = F.col("pairs") <= options.task_pairs_max
    sized = labelled.join(sizes, on="component", how="inner")
    planned = _plan_in_tasks(sized.where(fits).drop("pairs"), options, by_traffic=by_traffic)
    giant = keep(sized.where(~fits).drop("pairs"))
    if giant.isEmpty():
        return planned
    return planned.unionByName(_plan_giant(giant, options, by_traffic=by_traffic))


def _plan_in_tasks(labelled: DataFrame, options: PlanOptions, *, by_traffic: bool) -> DataFrame:
    strategy, limits = options.strategy, options.limits

    def plan(key: tuple[str], table: pd.DataFrame) -> pd.DataFrame:
        weights = dict(zip(table["class"], table["weight"], strict=True))
        pairs = zip(table["class"], table["bundle"], strict=True)
        copies = dict(zip(table["bundle"], table["copies"], strict=True))
        rates = dict(zip(table["bundle"], table["rate"], strict=True)) if by_traffic else None
        return as_frame(plan_part(pairs, weights, copies, strategy, limits, rates), key[0])

    return number_regions(labelled.groupBy("component").applyInPandas(plan, WITH_COMPONENT))


def _plan_giant(labelled: DataFrame, options: PlanOptions, *, by_traffic: bool) -> DataFrame:
    """Plan components that no task can hold."""
    cap, rule = options.regions_per_node_max, options.strategy
    merged = min(_MERGED_HIERARCHIES, cap)
    strict = None
    if rule in ("perfect", "regular") and cap > merged:
        strict = plan_in_rounds(
            labelled,
            rule,
            hierarchies=cap - merged,
            smallest=options.region_nodes_min,
            head_pairs=options.task_pairs_max,
        )
    rest = plan_in_blocks(
        labelled if strict is None else strict.rest,
        price=float(options.region_nodes_min),
        block_pairs=options.block_pairs,
        levels=range(0 if strict is None else cap - merged, cap),
        by_traffic=by_traffic,
    )
    return rest if strict is None else strict.rows.unionByName(rest)


def _sum_work() -> Column:
    return F.sum(F.col("weight") * F.col("copies"))


def _work(weighted: DataFrame) -> int:
    row = weighted.agg(_sum_work().alias("work")).first()
    return 0 if row is None or row["work"] is None else int(row["work"])


def _split(rows: DataFrame) -> Planned:
    """Return places and levels of a plan for nodes and groups themselves."""
    rows = keep(rows)
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
