"""Views that a person queries: gold tables, and what an operator looks for.

Thresholds are in the views' texts, next to what they are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from quicksilver.experiments.gauges import strongest_wave
from quicksilver.spark.telemetry import schemas
from quicksilver.spark.telemetry.bins import BINS_AN_OCTAVE, FLOOR_US
from quicksilver.spark.telemetry.job import clock_offsets, read_bronze
from quicksilver.spark.telemetry.transforms import (
    to_ack_times,
    to_latencies,
    to_node_seconds,
    to_node_totals,
    to_region_seconds,
    to_repairs,
    to_silver,
)

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame, SparkSession

_EDGE_MS = f"pow(2, (bin + 1) / {BINS_AN_OCTAVE}D) * {FLOOR_US / 1e3}"

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
               min(case when so_far >= 0.50 * total then {_EDGE_MS} end) as p50_ms,
               min(case when so_far >= 0.90 * total then {_EDGE_MS} end) as p90_ms,
               min(case when so_far >= 0.99 * total then {_EDGE_MS} end) as p99_ms
        from summed group by run, node""",  # noqa: S608  # see above
    "slow_receivers": """
        with named as (
          select run, region, slowest as node, count(*) as acks
          from trace where kind = 'AckReceived' and slowest > 0 group by run, region, slowest),
        shares as (
          select *, acks / sum(acks) over (partition by run, region) as share,
                 count(*) over (partition by run, region) as named_nodes from named)
        select run, region, node, acks, round(share, 3) as share
        from shares where acks >= 10 and share >= 0.5 and named_nodes > 1""",
    "hot_regions": """
        with loads as (
          select run, region, sum(sampled_packets) as packets, sum(lost_packets) as lost_packets,
                 sum(repairs_by_peers + repairs_by_sender) as repairs
          from region_seconds group by run, region),
        shares as (
          select *, packets / sum(packets) over (partition by run) as share,
                 count(*) over (partition by run) as regions from loads)
        select run, region, packets, lost_packets, repairs, round(share, 3) as share
        from shares where regions > 1 and share >= 2 / regions""",
    "late_alarms": """
        select run, node, second, alarm_delay_ms, cpu_percent
        from node_seconds where alarm_delay_ms >= 20""",
    "failures": """
        select run, second, count(distinct node) as told_by, explode(flatten(collect_set(failed)))
               as failed
        from trace where kind = 'NodesFailed' group by run, second""",
    "partitions": """
        select run, second, count(distinct failed) as nodes_lost
        from failures group by run, second having count(distinct failed) > 1""",
}
"""Views made of other views, in an order in which they can be made."""

OSCILLATION: Final = {
    "run": "string",
    "node": "bigint",
    "seconds": "bigint",
    "period_s": "double",
    "amplitude": "double",
    "is_oscillating": "boolean",
}
AMPLITUDE_MIN = 0.2
"""A wave of a fifth of the mean rate is called an oscillation."""

NAMES: Final = (
    "trace",
    "region_seconds",
    "node_totals",
    "node_seconds",
    "latencies",
    "ack_times",
    "repairs",
    "oscillation",
    *SQL_VIEWS,
)


def find_oscillation(rates: pandas.DataFrame) -> pandas.DataFrame:
    """Return the strongest wave in one node's rates, second by second.

    The silence before and after the traffic is left out, and a wave that fits less than
    twice into the rest is no oscillation: it is how a run begins and ends.
    """
    import pandas

    ordered = rates.sort_values("second")
    values = [float(value) for value in ordered["delivered_per_s"]]
    busy = [place for place, value in enumerate(values) if value > 0]
    active = values[busy[0] : busy[-1] + 1] if busy else []
    period_s, amplitude = strongest_wave(active, 1.0)
    row: dict[str, Any] = {
        "run": ordered["run"].iloc[0],
        "node": ordered["node"].iloc[0],
        "seconds": len(active),
        "period_s": period_s,
        "amplitude": amplitude,
        "is_oscillating": amplitude >= AMPLITUDE_MIN and 2 * period_s <= len(active),
    }
    return pandas.DataFrame([row])


def make_views(spark: SparkSession, folder: Path, runs: Sequence[str]) -> dict[str, DataFrame]:
    """Make all views of some runs; returns them by name."""
    bronze = read_bronze(spark, folder, runs)
    silver = to_silver(bronze, clock_offsets(bronze)).cache()
    totals = to_node_totals(silver)
    seconds = to_node_seconds(totals)
    tables = {
        "trace": silver,
        "region_seconds": to_region_seconds(silver),
        "node_totals": totals,
        "node_seconds": seconds,
        "latencies": to_latencies(silver),
        "ack_times": to_ack_times(silver),
        "repairs": to_repairs(silver),
        "oscillation": seconds.groupBy("run", "node").applyInPandas(
            find_oscillation, schema=schemas.ddl(OSCILLATION)
        ),
    }
    for name, table in tables.items():
        table.createOrReplaceTempView(name)
    for name, text in SQL_VIEWS.items():
        tables[name] = spark.sql(text)
        tables[name].createOrReplaceTempView(name)
    return tables
