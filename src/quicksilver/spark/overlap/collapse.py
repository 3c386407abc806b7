"""Nodes with equal groups, and groups with equal members, are planned as one.

No plan has a reason to separate them: a class of nodes is in the same regions,
and a group fits a hierarchy exactly where its twin does.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from quicksilver.spark.overlap.keeping import keep
from quicksilver.spark.overlap.regions import (
    drop_repeats,
    find_classes,
    fingerprint,
    select_nodes,
)
from quicksilver.spark.overlap.schemas import CLASS_KEY


class Collapsed(NamedTuple):
    """A smaller problem with the same answer."""

    pairs: DataFrame
    """``class``, ``bundle``: one row for each bundle of groups that a class of nodes is in."""
    classes: DataFrame
    """``class``, ``node``: who is in a class; its smallest node names it."""
    bundles: DataFrame
    """``bundle``, ``group``: which groups a bundle holds; its smallest group names it."""
    weights: DataFrame
    """``class``, ``weight``: how many nodes a class has."""


def collapse(pairs: DataFrame) -> Collapsed:
    """Return the classes of nodes, the bundles of groups, and who wants what."""
    classes = keep(find_classes(pairs).select("class", "node"))
    weights = keep(classes.groupBy("class").agg(F.count("*").alias("weight")))
    chosen = weights.select(F.col("class").alias("node"))
    wanted = drop_repeats(select_nodes(pairs, chosen))
    wanted = keep(wanted.select(F.col("node").alias("class"), "group"))
    groups = wanted.groupBy("group").agg(*fingerprint("class"))
    twins = groups.groupBy(*CLASS_KEY).agg(F.min("group").alias("bundle"))
    bundles = keep(groups.join(twins, on=list(CLASS_KEY), how="inner").select("bundle", "group"))
    named = bundles.select(F.col("bundle").alias("group")).distinct()
    small = wanted.join(named, on="group", how="left_semi")
    return Collapsed(
        keep(small.select("class", F.col("group").alias("bundle"))), classes, bundles, weights
    )
