"""Merged regions for what no task can hold.

Two hierarchies, popular groups and rare ones, divided where a packet for everybody
becomes cheaper than one for each member, as the optimiser of the GMS ends with for
large irregular systems. Nodes are put into blocks of similar ones, and each block
is clustered by itself. Where the traffic is known, the groups that would waste
most get a hierarchy each, in which their members are one region.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from quicksilver.spark.overlap.schemas import WITH_COMPONENT, as_frame, keep, number_regions
from quicksilver.spark.overlap.tasks import GROUP, NODE, cluster_block

if TYPE_CHECKING:
    import pandas as pd

_MEMBERSHIP_COST = 0.5
"""What one more region costs a node, as in the optimiser of the GMS."""


def plan_in_blocks(
    labelled: DataFrame,
    *,
    price: float,
    block_pairs: int,
    levels: range,
    by_traffic: bool,
) -> DataFrame:
    """Return plan rows of the given pairs, in hierarchies with the given numbers.

    ``labelled`` has ``component``, ``class``, ``bundle``, ``weight``, ``copies``,
    ``rate``.
    """
    ranked = keep(_find_levels(labelled, price, levels, by_traffic=by_traffic))
    wanted = keep(labelled.join(ranked, on=["component", "bundle"], how="inner"))
    is_busy = F.col("level") >= levels.start + 2
    blocks = _find_blocks(wanted.where(~is_busy), block_pairs)
    blocked = wanted.where(~is_busy).join(blocks, on=["component", "level", "class"], how="inner")

    def cluster(key: tuple[str, int, int], table: pd.DataFrame) -> pd.DataFrame:
        weights = dict(zip(table["class"], table["weight"], strict=True))
        pairs = zip(table["class"], table["bundle"], strict=True)
        copies = dict(zip(table["bundle"], table["copies"], strict=True))
        rates = dict(zip(table["bundle"], table["rate"], strict=True)) if by_traffic else None
        rows = cluster_block(pairs, weights, copies, price, int(key[1]), rates)
        return as_frame(rows, f"{key[0]}/{key[2]}")

    clustered = blocked.groupBy("component", "level", "block").applyInPandas(
        cluster, WITH_COMPONENT
    )
    alone = wanted.where(is_busy).select(
        "component",
        F.lit(NODE).alias("kind"),
        F.col("class").alias("name"),
        F.col("level").alias("hierarchy"),
        F.lit(0).cast("long").alias("region"),
    )
    groups = ranked.select(
        "component",
        F.lit(GROUP).alias("kind"),
        F.col("bundle").alias("name"),
        F.col("level").alias("hierarchy"),
        F.lit(None).cast("long").alias("region"),
    )
    return number_regions(clustered.unionByName(alone).unionByName(groups))


def _find_levels(
    labelled: DataFrame, price: float, levels: range, *, by_traffic: bool
) -> DataFrame:
    """Return ``component``, ``bundle``, ``level``: the hierarchy of each bundle."""
    everybody = (
        labelled.select("component", "class", "weight")
        .distinct()
        .groupBy("component")
        .agg(F.sum("weight").alias("nodes"))
    )
    bundles = labelled.groupBy("component", "bundle").agg(
        F.sum("weight").alias("members"),
        F.first("copies").alias("copies"),
        F.first("rate").alias("rate"),
    )
    known = bundles.join(everybody, on="component", how="inner")
    # A packet of its own for every member costs members x (1 + price); one for everybody
    # costs nodes + price: the cheaper of the two is what the optimiser ends with, too.
    broad, narrow = F.col("nodes") + price, F.col("members") * (1 + price)
    level: Column = F.lit(levels.start)
    if len(levels) > 1:
        level = F.when(narrow > broad, levels.start).otherwise(levels.start + 1)
    if by_traffic and len(levels) > 2:
        known, rank = _rank_busy(known, F.least(broad, narrow) - F.col("members"), price)
        spare = len(levels) - 2
        level = F.when(rank <= spare, levels.start + 1 + rank).otherwise(level)
    return known.select("component", "bundle", level.cast("int").alias("level"))


def _rank_busy(known: DataFrame, excess: Column, price: float) -> tuple[DataFrame, Column]:
    """Return bundles ranked by what a hierarchy of their own would save; null: nothing."""
    mean = Window.partitionBy("component")
    share = F.col("rate") / (F.sum("rate").over(mean) / F.sum("copies").over(mean))
    saved = share * (excess - price) - _MEMBERSHIP_COST * F.col("members")
    ranked = known.withColumn("saved", F.coalesce(saved, F.lit(0.0)))
    order = Window.partitionBy("component").orderBy(F.desc("saved"), "bundle")
    ranked = ranked.withColumn("place", F.row_number().over(order))
    return ranked, F.when(F.col("saved") > 0, F.col("place"))


def _find_blocks(wanted: DataFrame, block_pairs: int) -> DataFrame:
    """Put classes in an order in which similar ones are near (min-hash), and cut it."""
    minimal = [F.min(F.xxhash64("bundle", F.lit(seed))).alias(f"min{seed}") for seed in range(2)]
    signed = wanted.groupBy("component", "level", "class").agg(*minimal, F.count("*").alias("size"))
    # Min-hashes decide the block: classes that share most of their groups share one
    # with the chance of their similarity.
    total = signed.groupBy("component", "level").agg(F.sum("size").alias("total"))
    cut = F.greatest(F.lit(1), F.ceil(F.col("total") / F.lit(block_pairs)))
    place = F.pmod(F.xxhash64("min0", "min1"), cut)
    return signed.join(total, on=["component", "level"], how="inner").select(
        "component", "level", "class", place.cast("int").alias("block")
    )
