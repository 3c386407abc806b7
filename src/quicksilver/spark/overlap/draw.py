"""Pictures of a plan: how its regions are filled, and what it asks of nodes and groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from quicksilver.spark.overlap.measure import PlanMeasures
from quicksilver.spark.overlap.strategies import Planned

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
