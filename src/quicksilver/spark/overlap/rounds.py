"""Strict hierarchies of a component that no task can hold, by rounds.

The largest groups, as many as one task holds, are fitted by one task (``tasks.fit_bundles``).
The others try in rounds, all at once: each chooses the first hierarchy that admits
it as it is now, and claims its members there. Where several claim the same, the
largest group has it, and whoever lost anything tries again in the next round. What
fits nowhere, or still waits after the last round, is left to be merged.

So every hierarchy keeps its rule: groups that are accepted in one round touch
nothing in common, and each of them fits what was there before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from quicksilver.spark.overlap.schemas import WITH_COMPONENT, as_frame, keep, number_regions
from quicksilver.spark.overlap.tasks import GROUP, NODE, PlanRow, Rule, fit_bundles

if TYPE_CHECKING:
    import pandas as pd

ROUNDS_MAX = 12
"""Rounds of claims; each costs a few passes over the pairs that still wait."""


class Strict(NamedTuple):
    """What strict hierarchies could take, and what they could not."""

    rows: DataFrame
    """Plan rows."""
    rest: DataFrame
    """``component``, ``class``, ``bundle``, ``weight``, ``copies``, ``rate``."""


def plan_in_rounds(
    labelled: DataFrame,
    rule: Rule,
    *,
    hierarchies: int,
    smallest: int,
    head_pairs: int,
    rounds_max: int = ROUNDS_MAX,
) -> Strict:
    """Fit bundles into strict hierarchies, numbered from 0."""
    sizes = keep(_measure_bundles(labelled))
    head_sizes = keep(_find_head(sizes, head_pairs))
    of_head = labelled.join(head_sizes, on=["component", "bundle"], how="left_semi")
    head = keep(_fit_head(of_head, rule, hierarchies, smallest))
    state = keep(_first_state(labelled, head, hierarchies))
    waiting = keep(sizes.join(head_sizes, on=["component", "bundle"], how="left_anti"))
    done = head.where(F.col("kind") == GROUP).select(
        "component", F.col("name").alias("bundle"), F.col("hierarchy").alias("level")
    )
    pairs = labelled.select("component", "class", "bundle", "weight").persist()
    for _ in range(rounds_max):
        if waiting.isEmpty():
            break
        tried = pairs.join(waiting.select("bundle", "members"), on="bundle", how="inner").join(
            state.select("class", "keys"), on="class", how="inner"
        )
        chosen = keep(_choose(tried, state, rule, hierarchies, smallest))
        claims = tried.join(chosen, on="bundle", how="inner").withColumn(
            "key", F.get("keys", F.col("level"))
        )
        accepted = keep(_settle(claims, rule))
        state = keep(_advance(state, claims, accepted))
        done = done.unionByName(accepted)
        waiting = keep(
            waiting.join(chosen, on="bundle", how="left_semi").join(
                accepted, on="bundle", how="left_anti"
            )
        )
    pairs.unpersist()
    rest = keep(labelled.join(done, on=["component", "bundle"], how="left_anti"))
    return Strict(_plan_rows(state, done), rest)


def _measure_bundles(labelled: DataFrame) -> DataFrame:
    return labelled.groupBy("component", "bundle").agg(
        F.sum("weight").alias("members"), F.count("*").alias("pairs")
    )


def _find_head(sizes: DataFrame, head_pairs: int) -> DataFrame:
    """Return the bundles, largest first, whose pairs one task holds; all of a size or none."""
    by_size = sizes.groupBy("component", "members").agg(F.sum("pairs").alias("pairs"))
    larger = Window.partitionBy("component").orderBy(F.desc("members"))
    held = by_size.withColumn("sofar", F.sum("pairs").over(larger)).where(
        F.col("sofar") <= head_pairs
    )
    return sizes.join(held, on=["component", "members"], how="left_semi").select(
        "component", "bundle"
    )


def _fit_head(of_head: DataFrame, rule: Rule, hierarchies: int, smallest: int) -> DataFrame:
    """Return the keys of classes (as regions) and the levels of bundles."""

    def rows(table: pd.DataFrame) -> Iterator[PlanRow]:
        weights = dict(zip(table["class"], table["weight"], strict=True))
        pairs = zip(table["class"], table["bundle"], strict=True)
        fitted = fit_bundles(pairs, weights, rule, hierarchies, smallest)
        for bundle, level in fitted.levels.items():
            yield GROUP, bundle, level, None
        for level, keys in enumerate(fitted.keys):
            for name, key in keys.items():
                yield NODE, name, level, key

    def fit(key: tuple[str], table: pd.DataFrame) -> pd.DataFrame:
        return as_frame(rows(table), key[0])

    return of_head.groupBy("component").applyInPandas(fit, WITH_COMPONENT)


def _first_state(labelled: DataFrame, head: DataFrame, hierarchies: int) -> DataFrame:
    """Return ``component``, ``class``, ``weight``, ``keys``: a key for each hierarchy, 0: none."""
    entry = F.struct("hierarchy", "region")
    known = (
        head.where(F.col("kind") == NODE)
        .groupBy(F.col("name").alias("class"))
        .agg(F.map_from_entries(F.collect_list(entry)).alias("known"))
    )
    levels = F.array(*[F.lit(level) for level in range(hierarchies)])
    keys = F.transform(levels, lambda level: F.coalesce(F.col("known")[level], F.lit(0)))
    classes = labelled.select("component", "class", "weight").distinct()
    return classes.join(known, on="class", how="left").select(
        "component", "class", "weight", keys.cast("array<long>").alias("keys")
    )


def _choose(
    tried: DataFrame, state: DataFrame, rule: Rule, hierarchies: int, smallest: int
) -> DataFrame:
    """Return ``bundle``, ``level``: the first hierarchy that admits each; none: no row."""
    if rule == "perfect":
        is_one = [
            F.when(F.min(F.get("keys", level)) == F.max(F.get("keys", level)), level)
            for level in map(F.lit, range(hierarchies))
        ]
        first = F.coalesce(*is_one).alias("level")
        return tried.groupBy("bundle").agg(first).where(F.col("level").isNotNull())
    parts = (
        state.select("weight", F.posexplode("keys").alias("level", "key"))
        .groupBy("level", "key")
        .agg(F.sum("weight").alias("total"))
    )
    inside = (
        tried.select("bundle", "weight", F.posexplode("keys").alias("level", "key"))
        .groupBy("bundle", "level", "key")
        .agg(F.sum("weight").alias("count"))
    )
    left = F.col("total") - F.col("count")
    is_cut = (F.col("key") == 0) | (left > 0)
    is_small = (F.col("key") != 0) & (left > 0) & (left < smallest)
    refuses = (is_cut & (F.col("count") < smallest)) | is_small
    return (
        inside.join(parts, on=["level", "key"], how="inner")
        .groupBy("bundle", "level")
        .agg(F.max(refuses).alias("refuses"))
        .where(~F.col("refuses"))
        .groupBy("bundle")
        .agg(F.min("level").alias("level"))
    )


def _settle(claims: DataFrame, rule: Rule) -> DataFrame:
    """Return ``component``, ``bundle``, ``level`` of those that have all that they claim."""
    # Two groups may divide one part only one after the other, lest what is left be small;
    # nested or disjoint groups need no more than members of their own.
    own: Column = F.xxhash64("class")
    unit = own if rule == "perfect" else F.when(F.col("key") == 0, own).otherwise(F.col("key"))
    rank = F.struct((-F.col("members")).alias("size"), F.col("bundle").alias("name"))
    ranked = claims.select("component", "bundle", "level", unit.alias("unit"), rank.alias("rank"))
    owners = ranked.groupBy("level", "unit").agg(F.min("rank").alias("owner"))
    return (
        ranked.join(owners, on=["level", "unit"], how="inner")
        .groupBy("component", "bundle", "level")
        .agg(F.min(F.col("owner") == F.col("rank")).alias("has_all"))
        .where("has_all")
        .select("component", "bundle", "level")
    )


def _advance(state: DataFrame, claims: DataFrame, accepted: DataFrame) -> DataFrame:
    """Return the state with the accepted bundles in their hierarchies."""
    entry = F.struct("level", F.xxhash64("key", "bundle").alias("following"))
    moved = (
        claims.join(accepted.select("bundle", "level"), on=["bundle", "level"], how="inner")
        .groupBy("class")
        .agg(F.map_from_entries(F.collect_list(entry)).alias("moved"))
    )
    keys = F.transform("keys", lambda key, level: F.coalesce(F.col("moved")[level], key))
    return state.join(moved, on="class", how="left").select(
        "component", "class", "weight", keys.alias("keys")
    )


def _plan_rows(state: DataFrame, done: DataFrame) -> DataFrame:
    nodes = (
        state.select("component", "class", F.posexplode("keys").alias("hierarchy", "region"))
        .where(F.col("region") != 0)
        .select(
            "component",
            F.lit(NODE).alias("kind"),
            F.col("class").alias("name"),
            "hierarchy",
            "region",
        )
    )
    groups = done.select(
        "component",
        F.lit(GROUP).alias("kind"),
        F.col("bundle").alias("name"),
        F.col("level").cast("int").alias("hierarchy"),
        F.lit(None).cast("long").alias("region"),
    )
    return number_regions(nodes.unionByName(groups))
