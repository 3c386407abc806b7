"""What a plan costs, in the numbers that the papers give for theirs, and in pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from quicksilver.spark.overlap.classes import drop_repeats, select_pairs
from quicksilver.spark.overlap.strategies import Planned

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PlanMeasures(msgspec.Struct, frozen=True, kw_only=True):
    """A plan in numbers."""

    nodes: int
    groups: int
    pairs: int
    regions: int
    hierarchies: int
    regions_per_node_mean: float
    regions_per_node_max: int
    regions_per_group_mean: float
    regions_per_group_max: int
    unwanted_traffic_share: float
    """Of all packets that nodes receive, those that they did not join for."""
    traffic_share_of_top_two: float
    """Of the traffic that a node receives, what its two busiest regions carry; mean over nodes."""
    addresses_saved: float
    """Groups for each region: how much fewer addresses the plan needs."""


def measure(pairs: DataFrame, planned: Planned, traffic: DataFrame | None = None) -> PlanMeasures:
    """Measure a plan, with equal or the given traffic in every group."""
    pairs = drop_repeats(select_pairs(pairs)).persist()
    places = planned.places.persist()
    levels = planned.levels
    try:
        rates = (
            pairs.select("group").distinct().withColumn("rate", F.lit(1.0))
            if traffic is None
            else traffic.groupBy(F.col("group").cast("string").alias("group")).agg(
                F.sum("rate").alias("rate")
            )
        )
        spread = (
            pairs.join(levels, on="group", how="inner")
            .join(places, on=["node", "hierarchy"], how="inner")
            .select("group", "region")
            .groupBy("group", "region")
            .agg(F.count("*").alias("members"))
        ).persist()
        sizes = places.groupBy("region").agg(F.count("*").alias("size"))
        carried = spread.join(sizes, on="region", how="inner").join(rates, on="group", how="left")
        carried = carried.fillna({"rate": 0.0}).persist()
        sums = _one(
            carried.agg(
                F.sum(F.col("rate") * F.col("size")).alias("received"),
                F.sum(F.col("rate") * F.col("members")).alias("wanted"),
            )
        )
        fans = _one(
            spread.groupBy("group")
            .agg(F.count("*").alias("fan"))
            .agg(
                F.count("*").alias("groups"), F.avg("fan").alias("mean"), F.max("fan").alias("max")
            )
        )
        homes = _one(
            places.groupBy("node")
            .agg(F.count("*").alias("homes"))
            .agg(
                F.count("*").alias("nodes"),
                F.avg("homes").alias("mean"),
                F.max("homes").alias("max"),
            )
        )
        counts = _one(
            places.agg(
                F.countDistinct("region").alias("regions"),
                F.countDistinct("hierarchy").alias("hierarchies"),
            )
        )
        loads = carried.groupBy("region").agg(F.sum("rate").alias("load"))
        received = sums["received"] or 0.0
        regions = counts["regions"] or 0
        return PlanMeasures(
            nodes=homes["nodes"] or 0,
            groups=fans["groups"] or 0,
            pairs=pairs.count(),
            regions=regions,
            hierarchies=counts["hierarchies"] or 0,
            regions_per_node_mean=homes["mean"] or 0.0,
            regions_per_node_max=homes["max"] or 0,
            regions_per_group_mean=fans["mean"] or 0.0,
            regions_per_group_max=fans["max"] or 0,
            unwanted_traffic_share=1.0 - (sums["wanted"] or 0.0) / received if received else 0.0,
            traffic_share_of_top_two=_top_two(places, loads),
            addresses_saved=(fans["groups"] or 0) / regions if regions else 0.0,
        )
    finally:
        pairs.unpersist()
        places.unpersist()


def _top_two(places: DataFrame, loads: DataFrame) -> float:
    by_node = places.join(loads, on="region", how="inner").groupBy("node")
    ranked = by_node.agg(
        F.slice(F.sort_array(F.collect_list("load"), asc=False), 1, 2).alias("top"),
        F.sum("load").alias("all"),
    ).where(F.col("all") > 0)
    share = F.aggregate("top", F.lit(0.0), lambda total, load: total + load) / F.col("all")
    return _one(ranked.agg(F.avg(share).alias("share")))["share"] or 0.0


def _one(table: DataFrame) -> dict[str, Any]:
    row = table.first()
    assert row is not None
    return row.asDict()


_BLUE, _GREY = "#2f5d8a", "#8a8f98"


def draw_plan(pairs: DataFrame, planned: Planned, measures: PlanMeasures, path: Path) -> None:
    """Draw a plan as SVG or PNG, by the file's suffix."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    sizes = planned.places.groupBy("region").agg(F.count("*").alias("value"))
    _histogram(axes[0], sizes, "nodes in a region", "regions")
    homes = planned.places.groupBy("node").agg(F.count("*").alias("value"))
    _histogram(axes[1], homes, "regions of a node", "nodes")
    spread = (
        pairs.select("node", "group")
        .join(planned.levels, on="group", how="inner")
        .join(planned.places, on=["node", "hierarchy"], how="inner")
        .groupBy("group")
        .agg(F.countDistinct("region").alias("value"))
    )
    _histogram(axes[2], spread, "regions of a group", "groups")
    unwanted = f"{measures.unwanted_traffic_share:.1%} of what arrives is not wanted"
    figure.suptitle(
        f"{measures.nodes:,} nodes, {measures.groups:,} groups: {measures.regions:,} regions "
        f"in {measures.hierarchies} hierarchies; {unwanted}"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)


def _histogram(axes: Axes, table: DataFrame, across: str, up: str) -> None:
    rows = table.groupBy("value").agg(F.count("*").alias("count")).orderBy("value").collect()
    values = [row["value"] for row in rows]
    counts = [row["count"] for row in rows]
    if len(values) <= 40:
        axes.bar(values, counts, color=_BLUE, width=0.8)
    else:
        axes.plot(values, counts, ".", color=_BLUE, markersize=3)
        axes.set_xscale("log")
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_GREY)
