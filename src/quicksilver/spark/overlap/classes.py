"""Classes of nodes with the same groups, found without a sort and without a list.

A node's groups are hashed one by one and the hashes are added up, so that order
does not matter, partial results merge on the map side, and one group can be taken
out again. Four sums of 31 bits and the count make more than 124 bits: two nodes
with different groups meet with a chance that no input of this world makes
visible; ``exact=True`` compares the sets themselves.

Sums, unlike exclusive or, count repeats: a pair that is in the table twice makes
a node look different from its peers, never equal to a stranger. Repeats are
dropped afterwards, among one representative of each class, which are few where
planning regions makes sense.

Classes make a problem smaller: they, and *bundles* of groups with equal members,
are planned as one (``collapse``), and connected components of what is left each by
itself (``find_components``).
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from quicksilver.spark.overlap.schemas import CLASS_KEY, PAIRS, keep

_SECOND_SEED = "quicksilver"
_LOW_BITS = 0x7FFF_FFFF

_BROADCAST_NODES_MAX = 300_000
"""Names that every task may hold: some 30 MB."""


def select_pairs(pairs: DataFrame) -> DataFrame:
    """Return pairs with the contract's columns; repeats are left in."""
    return pairs.select(
        F.col("node").cast("string").alias("node"), F.col("group").cast("string").alias("group")
    )


def drop_repeats(pairs: DataFrame) -> DataFrame:
    """Return every pair once.

    Rows are brought together by node first: a distinct that combines before it
    sends finds nothing to combine, and took twice the time.
    """
    return pairs.select(*PAIRS.fieldNames()).repartition("node").distinct()


def fingerprint(column: str) -> list[Column]:
    """Return aggregates that identify a multiset of names: the class key."""
    first, second = F.xxhash64(column), F.xxhash64(column, F.lit(_SECOND_SEED))
    sums = [
        F.sum(part)
        for whole in (first, second)
        for part in (whole.bitwiseAND(F.lit(_LOW_BITS)), F.shiftrightunsigned(whole, 33))
    ]
    high, low = F.xxhash64(*sums), F.xxhash64(*reversed(sums))
    made = (high, low, F.count("*"))
    return [one.alias(name) for one, name in zip(made, CLASS_KEY, strict=True)]


def fingerprint_nodes(pairs: DataFrame, *, exact: bool = False) -> DataFrame:
    """Return every node with what identifies its groups: ``node`` and the class key."""
    pairs = pairs.select(*PAIRS.fieldNames())
    if not exact:
        return pairs.groupBy("node").agg(*fingerprint("group")).select("node", *CLASS_KEY)
    groups = F.sort_array(F.collect_set("group"))
    sets = pairs.groupBy("node").agg(F.sha2(F.to_json(groups), 256).alias("whole"))
    half = [F.conv(F.substring("whole", at, 15), 16, 10).cast("long") for at in (1, 16)]
    # The hash is of the set, repeats or not; their number must not tell nodes apart.
    return sets.select(
        "node",
        half[0].alias(CLASS_KEY[0]),
        half[1].alias(CLASS_KEY[1]),
        F.lit(0).cast("long").alias(CLASS_KEY[2]),
    )


def find_regions(pairs: DataFrame, *, unique: bool = False, exact: bool = False) -> DataFrame:
    """Return the exact regions: class key, ``class`` (the node that stands for all), ``nodes``.

    ``unique`` promises that no pair is repeated, and saves a pass over the pairs of
    the representatives. A promise that is broken makes more regions than there are
    sets, each of them of nodes with equal groups all the same.
    """
    once = _count_regions(fingerprint_nodes(pairs, exact=exact).withColumn("nodes", F.lit(1)))
    if unique or exact:
        return once
    # Classes that differ only in repeats become one, with the nodes of all.
    once = keep(once.select(F.col("class").alias("node"), "nodes"))
    sets = fingerprint_nodes(drop_repeats(select_nodes(pairs, once)))
    return _count_regions(sets.join(once, on="node", how="inner"))


def _count_regions(nodes: DataFrame) -> DataFrame:
    return (
        nodes.groupBy(*CLASS_KEY)
        .agg(F.min("node").alias("class"), F.sum("nodes").alias("nodes"))
        .select(*CLASS_KEY, "class", "nodes")
    )


def find_classes(pairs: DataFrame) -> DataFrame:
    """Return ``node``, ``class``: nodes with equal groups, named after the smallest of them."""
    nodes = keep(fingerprint_nodes(pairs))
    named = keep(_count_regions(nodes.withColumn("nodes", F.lit(1))))
    chosen = named.select(F.col("class").alias("node"))
    sets = keep(fingerprint_nodes(drop_repeats(select_nodes(pairs, chosen))))
    merged = _count_regions(sets.withColumn("nodes", F.lit(1))).select(
        *CLASS_KEY, F.col("class").alias("smallest")
    )
    final = sets.join(merged, on=list(CLASS_KEY), how="inner").select(
        F.col("node").alias("class"), "smallest"
    )
    return (
        nodes.join(named, on=list(CLASS_KEY), how="inner")
        .join(final, on="class", how="inner")
        .select("node", F.col("smallest").alias("class"))
    )


def select_nodes(pairs: DataFrame, nodes: DataFrame) -> DataFrame:
    """Return the pairs of some nodes.

    They are counted first: where they are few, every task gets all of them, and
    the pairs, which are many, stay where they are.
    """
    chosen = nodes.select("node")
    few = chosen.count() <= _BROADCAST_NODES_MAX
    return pairs.join(F.broadcast(chosen) if few else chosen, on="node", how="left_semi")


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
