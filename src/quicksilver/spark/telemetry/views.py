"""Views that a person queries: gold tables, summaries of them, and anomalies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from quicksilver.spark.telemetry import anomalies
from quicksilver.spark.telemetry.reading import clock_offsets, read_bronze
from quicksilver.spark.telemetry.transforms import GOLD, to_silver, to_waves

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Only constants of ours are put into these texts.
SQL_VIEWS: Final[dict[str, str]] = {
    "runs": """
        select run, count(*) as records, count(distinct writer) as writers,
               count(distinct node) as nodes, min(at) as began_s, max(at) - min(at) as seconds,
               count(distinct writer) = count(case when kind = 'TraceEnded' then 1 end) as is_whole,
               coalesce(sum(dropped), 0) as dropped
        from trace group by run""",
    "latency": f"""
        with counted as (
          select run, node, bin, sum(packets) as packets from latencies group by run, node, bin),
        summed as (
          select *, sum(packets) over (partition by run, node order by bin) as so_far,
                 sum(packets) over (partition by run, node) as total from counted)
        select run, node, max(total) as packets,
               min(case when so_far >= 0.50 * total then {anomalies.EDGE_MS} end) as p50_ms,
               min(case when so_far >= 0.90 * total then {anomalies.EDGE_MS} end) as p90_ms,
               min(case when so_far >= 0.99 * total then {anomalies.EDGE_MS} end) as p99_ms
        from summed group by run, node""",  # noqa: S608  # see above
    **anomalies.VIEWS,
}
"""Views made of other views, in an order in which they can be made."""


def make_views(spark: SparkSession, folder: Path, runs: Sequence[str]) -> dict[str, DataFrame]:
    """Make all views of some runs' traces; returns them by name."""
    bronze = read_bronze(spark, folder, runs)
    silver = to_silver(bronze, clock_offsets(bronze)).cache()
    return register({"trace": silver, **{name: make(silver) for name, make in GOLD.items()}})


def register(gold: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Make the views of ``trace`` and the gold tables; returns all by name."""
    tables = dict(gold)
    seconds = tables["node_seconds"]
    spark = seconds.sparkSession
    tables["waves"] = to_waves(seconds)
    for name, table in tables.items():
        table.createOrReplaceTempView(name)
    for name, text in SQL_VIEWS.items():
        tables[name] = spark.sql(text)
        tables[name].createOrReplaceTempView(name)
    return tables
