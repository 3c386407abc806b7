"""Nodes with equal groups, and groups with equal members, are planned as one.

No plan has a reason to separate them: a class of nodes is in the same regions,
and a group fits a hierarchy exactly where its twin does.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from quicksilver.spark.overlap.regions import fingerprint_nodes
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
    nodes = fingerprint_nodes(pairs).select("node", F.concat_ws(":", *CLASS_KEY).alias("key"))
    named = nodes.groupBy("key").agg(F.min("node").alias("class"), F.count("*").alias("weight"))
    classes = nodes.join(named, on="key", how="inner").select("class", "node")
    weights = named.select("class", "weight")
    wanted = pairs.join(
        named.select(F.col("class").alias("node")), on="node", how="left_semi"
    ).select(F.col("node").alias("class"), "group")
    fans = wanted.groupBy("group").agg(
        F.bit_xor(F.xxhash64("class")).alias("high"),
        F.bit_xor(F.xxhash64("class", F.lit("quicksilver"))).alias("low"),
        F.count("*").alias("size"),
    )
    groups = fans.select("group", F.concat_ws(":", "high", "low", "size").alias("key"))
    twins = groups.groupBy("key").agg(F.min("group").alias("bundle"))
    bundles = groups.join(twins, on="key", how="inner").select("bundle", "group")
    small = wanted.join(
        twins.select(F.col("bundle").alias("group")), on="group", how="left_semi"
    ).select("class", F.col("group").alias("bundle"))
    # Each is used several times, and comes from two passes over all pairs.
    return Collapsed(small.persist(), classes.persist(), bundles.persist(), weights.persist())
