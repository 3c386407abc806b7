"""Observations out of traces, through the gold tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from quicksilver.analysis.inputs import find_traces
from quicksilver.analysis.model.observations import Observation
from quicksilver.spark.telemetry.views import make_views
from quicksilver.stdx.bins import upper_ms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUNS_MAX = 1000
"""Runs of a folder that are read; more than that is a sweep, to be given in parts."""


def observe_runs(
    spark: SparkSession, path: Path, remark: Callable[[str], None] = lambda _: None
) -> list[Observation]:
    """Return an observation for every run of a folder that has one sender."""
    folder, runs = find_traces(path)
    if len(runs) > RUNS_MAX:
        remark(f"{path}: {len(runs):,} runs, of which the first {RUNS_MAX:,} are read")
    tables = make_views(spark, folder, runs[:RUNS_MAX])
    rows = summarise(tables)
    found = [observe_run(row) for row in rows if row["senders"] == 1 and row["receivers"]]
    if len(found) < len(rows):
        remark(f"{path}: {len(rows) - len(found)} runs are not of one sender that others hear")
    return found


def summarise(tables: Mapping[str, DataFrame]) -> Sequence[Mapping[str, Any]]:
    """Return a row a run: means over the seconds in which the sender was busy."""
    totals, seconds = tables["node_totals"], tables["node_seconds"]
    roles = totals.groupBy("run", "node").agg(
        f.max("sent_messages").alias("sent"),
        f.max("sent_bytes").alias("bytes"),
        f.max("delivered_messages").alias("delivered"),
    )
    sizes = roles.groupBy("run").agg(
        f.sum((f.col("sent") > 0).cast("int")).alias("senders"),
        f.sum((f.col("delivered") > 0).cast("int")).alias("receivers"),
        (f.sum("bytes") / f.sum("sent")).alias("message_bytes"),
    )
    sending = seconds.join(
        roles.where("sent > 0").select("run", "node"), on=["run", "node"], how="inner"
    )
    peaks = sending.groupBy("run").agg(f.max("sent_per_s").alias("peak"))
    is_busy = f.col("sent_per_s") >= 0.5 * f.col("peak")
    levels = (
        sending.join(peaks, on="run", how="inner")
        .where(is_busy)
        .groupBy("run")
        .agg(
            f.avg("sent_per_s").alias("rate"),
            f.avg("memory_bytes").alias("memory"),
            f.avg("pending_bytes").alias("pending_bytes"),
            (f.avg("cpu_percent") / 100).alias("load"),
        )
    )
    acks = tables["ack_times"].groupBy("run").agg((f.avg("ack_ms") / 1e3).alias("ack_s"))
    return [
        row.asDict()
        for row in sizes.join(levels, on="run", how="left")
        .join(acks, on="run", how="left")
        .join(_delays(tables["latencies"]), on="run", how="left")
        .join(_rounds(tables["trace"]), on="run", how="left")
        .orderBy("run")
        .collect()
    ]


def _delays(latencies: DataFrame) -> DataFrame:
    """The mean delay out of bins, by the middle of each."""
    low, high = upper_ms(-1), upper_ms(0)
    middle_s = (low + high) / 2e3 * f.pow(f.lit(high / low), f.col("bin"))
    return latencies.groupBy("run").agg(
        (f.sum(middle_s * f.col("packets")) / f.sum("packets")).alias("latency_s")
    )


def _rounds(trace: DataFrame) -> DataFrame:
    """Sum over levels of the mean round-trips, and how far apart the lowest rings' are."""
    rounds = trace.where(f.col("kind") == "RoundCompleted")
    by_level = rounds.groupBy("run", "level").agg(
        f.avg("seconds").alias("seconds"),
        f.count("*").alias("rounds"),
        f.countDistinct("node").alias("leaders"),
        (f.max("at") - f.min("at")).alias("span"),
    )
    lowest = f.when(f.col("level") == 0, f.col("span") * f.col("leaders") / f.col("rounds"))
    return by_level.groupBy("run").agg(
        f.sum("seconds").alias("round_trip_s"), f.max(lowest).alias("token_interval_s")
    )


def observe_run(row: Mapping[str, Any]) -> Observation:
    """Return a summary's row as an observation."""
    size = row["message_bytes"] or 1.0
    pending = row["pending_bytes"]
    return Observation(
        origin=f"trace: {row['run']}",
        setting="traces",
        nodes=int(row["receivers"]),
        message_bytes=float(size),
        rate=row["rate"],
        memory=row["memory"],
        pending=pending / size if pending is not None else None,
        ack_s=row["ack_s"],
        latency_s=row["latency_s"],
        token_interval_s=row["token_interval_s"],
        round_trip_s=row["round_trip_s"],
        load=row["load"],
    )
