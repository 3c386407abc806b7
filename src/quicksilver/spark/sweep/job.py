"""The job: what is not there yet is run, and each finished part is kept.

Simulations are run in rounds, each a Spark job that appends Parquet files; a
sweep that is stopped goes on with what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from quicksilver.spark.sweep.config import Sweep, SweepTask
from quicksilver.spark.sweep.running import OUTCOMES, run_task

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

ROUND_TASKS_PER_CORE = 50
"""What a stopped sweep loses at most, for each core."""

RESULTS = "results.parquet"
Progress = Callable[[int, int], None]
"""Takes how many simulations are done, and how many there are."""


def run_sweep(
    spark: SparkSession, sweep: Sweep, folder: Path, on_progress: Progress | None = None
) -> DataFrame:
    """Run what is missing; return all results."""
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / RESULTS
    done = _find_done(spark, results)
    tasks = list(sweep.tasks())
    waiting = [task for task in tasks if task.key not in done]
    cores = spark.sparkContext.defaultParallelism
    finished = len(tasks) - len(waiting)
    if on_progress is not None:
        on_progress(finished, len(tasks))
    size = cores * ROUND_TASKS_PER_CORE
    for first in range(0, len(waiting), size):
        part = waiting[first : first + size]
        _run_round(spark, sweep, part, cores).write.mode("append").parquet(str(results))
        finished += len(part)
        if on_progress is not None:
            on_progress(finished, len(tasks))
    keys = spark.createDataFrame([(task.key,) for task in tasks], "key string")
    everything = spark.read.parquet(str(results)).dropDuplicates(["key"])
    return everything.join(keys, on="key", how="left_semi")


def _find_done(spark: SparkSession, results: Path) -> set[str]:
    if not results.exists():
        return set()
    return {row["key"] for row in spark.read.parquet(str(results)).select("key").collect()}


def _run_round(spark: SparkSession, sweep: Sweep, tasks: list[SweepTask], cores: int) -> DataFrame:
    def run(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas as pd

        for batch in batches:
            for text in batch["task"]:
                task = msgspec.json.decode(text, type=SweepTask)
                yield pd.DataFrame([msgspec.to_builtins(run_task(sweep, task))])

    rows = [(msgspec.json.encode(task).decode(),) for task in tasks]
    # A simulation takes seconds and a task milliseconds: several tasks a core even the load out.
    parts = min(len(rows), cores * 8)
    table = spark.createDataFrame(rows, "task string").repartition(parts)
    return table.mapInPandas(run, OUTCOMES)


class Summary(msgspec.Struct, frozen=True):
    """How a sweep went."""

    simulations: int
    failed: int
    failures: list[dict[str, Any]]
    """Seed, problem and replay command of the first that failed."""


def summarise(results: DataFrame, failures_max: int = 20) -> Summary:
    """Count what failed, and name the first."""
    from pyspark.sql import functions as F

    counts = results.agg(
        F.count("*").alias("all"), F.sum(F.col("is_good").cast("int")).alias("good")
    ).first()
    assert counts is not None
    bad = results.where(~F.col("is_good")).select("seed", "problem", "replay")
    first = bad.orderBy("seed", "replay").limit(failures_max).collect()
    total, good = int(counts["all"]), int(counts["good"] or 0)
    return Summary(total, total - good, [row.asDict() for row in first])
