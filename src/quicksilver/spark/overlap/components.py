"""Connected components: nodes and groups that have nothing to do with others.

Groups of different components are disjoint, so they fit into any hierarchy
together; each component can be planned by itself, and first fit gives the same
answer as it does for the whole.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from quicksilver.spark.overlap.keeping import keep

ROUNDS_MAX = 64
"""Labels halve their distance every round, so this is enough for any graph that fits a disk."""


def find_components(pairs: DataFrame) -> DataFrame:
    """Return ``class``, ``component``: equal for classes that share a bundle, over any path.

    Every class takes the smallest label that a neighbour has, and then the label
    of its label, until none changes.
    """
    edges = pairs.select("class", "bundle").persist()
    labels = edges.select("class").distinct().withColumn("component", F.col("class"))
    try:
        for _ in range(ROUNDS_MAX):
            heard = (
                edges.join(labels, on="class", how="inner")
                .groupBy("bundle")
                .agg(F.min("component").alias("component"))
            )
            nearest = (
                edges.join(heard, on="bundle", how="inner")
                .groupBy("class")
                .agg(F.min("component").alias("component"))
            )
            shortcut = nearest.select(
                F.col("class").alias("component"), F.col("component").alias("further")
            )
            moved = nearest.join(shortcut, on="component", how="left").select(
                "class", F.least("component", F.coalesce("further", "component")).alias("component")
            )
            # The lineage is cut: otherwise every round would run all rounds before it again.
            following = keep(moved)
            changed = (
                following.alias("new")
                .join(labels.alias("old"), on="class", how="inner")
                .where(F.col("new.component") != F.col("old.component"))
                .limit(1)
                .count()
            )
            labels = following
            if not changed:
                break
    finally:
        edges.unpersist()
    return labels.select("class", "component")
