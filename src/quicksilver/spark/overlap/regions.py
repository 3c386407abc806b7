"""Regions: nodes with the same groups, found without a sort and without a list.

A node's groups are hashed one by one and the hashes are combined by exclusive
or, so that order does not matter, partial results merge on the map side, and one
group can be taken out again. Two hashes with different seeds and the count make
some 130 bits: two nodes with different groups meet with a chance that no input
of this world makes visible; ``exact=True`` compares the sets themselves.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from quicksilver.spark.overlap.schemas import CLASS_KEY, PAIRS

_SECOND_SEED = "quicksilver"


def select_pairs(pairs: DataFrame) -> DataFrame:
    """Return pairs with the contract's columns, each once."""
    return pairs.select(
        F.col("node").cast("string").alias("node"), F.col("group").cast("string").alias("group")
    ).distinct()


def fingerprint_nodes(pairs: DataFrame, *, exact: bool = False) -> DataFrame:
    """Return every node with what identifies its set of groups: ``node`` and the class key."""
    pairs = pairs.select(*PAIRS.fieldNames())
    if exact:
        whole = F.to_json(F.sort_array(F.collect_set("group")))
        sets = pairs.groupBy("node").agg(whole.alias("groups"), F.count("*").alias("class_size"))
        return sets.select(
            "node",
            F.conv(F.substring(F.sha2("groups", 256), 1, 15), 16, 10)
            .cast("long")
            .alias("class_high"),
            F.conv(F.substring(F.sha2("groups", 256), 16, 15), 16, 10)
            .cast("long")
            .alias("class_low"),
            "class_size",
        )
    return (
        pairs.groupBy("node")
        .agg(
            F.bit_xor(F.xxhash64("group")).alias("class_high"),
            F.bit_xor(F.xxhash64("group", F.lit(_SECOND_SEED))).alias("class_low"),
            F.count("*").alias("class_size"),
        )
        .select("node", *CLASS_KEY)
    )


def find_regions(pairs: DataFrame, *, exact: bool = False) -> DataFrame:
    """Return the exact regions: class key, number of nodes, and one node that stands for all."""
    return (
        fingerprint_nodes(pairs, exact=exact)
        .groupBy(*CLASS_KEY)
        .agg(F.count("*").alias("nodes"), F.min("node").alias("representative"))
        .select(*CLASS_KEY, "nodes", "representative")
    )


def group_regions(pairs: DataFrame, regions: DataFrame) -> DataFrame:
    """Return the regions of each group: ``group``, class key, ``nodes``.

    Only the pairs of the representatives are looked at: as many as there are
    regions, however many nodes.
    """
    chosen = regions.select(F.col("representative").alias("node"), *CLASS_KEY, "nodes")
    return pairs.join(chosen, on="node", how="inner").select("group", *CLASS_KEY, "nodes")
