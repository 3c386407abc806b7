"""Sweeps as Spark jobs: what is not there yet is run, and each finished part is kept.

What a simulation is, ``quicksilver.experiments.sweep`` says; Spark only distributes.

Simulations are run in rounds, each a Spark job that appends Parquet files; a
sweep that is stopped goes on with what is missing. A round is so large that it
takes some ten seconds, and is cut into tasks of more than a second: an empty
task costs 40 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from quicksilver.experiments.store import POINTS, FinishedPoint
from quicksilver.experiments.sweep import Sweep, SweepTask, make_point, run_task

if TYPE_CHECKING:
    import pandas as pd
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

ROUND_S = 10.0
"""How long a round is to take: what a stopped sweep loses at most, and how often it tells."""
TASK_S = 1.5
TASKS_PER_CORE_MAX = 8
"""Several tasks a core even out that simulations differ."""

OUTCOMES = (
    "key string, kind string, experiment string, seed bigint, parameters string, "
    "metrics string, is_good boolean, problem string, replay string, run string, seconds double"
)
"""The fields of ``Outcome`` as columns."""

RESULTS = "results.parquet"
TRACES = "traces"
Progress = Callable[[int, int], None]
"""Takes how many simulations are done, and how many there are."""


def run_sweep(
    spark: SparkSession, sweep: Sweep, folder: Path, on_progress: Progress | None = None
) -> DataFrame:
    """Run what is missing; return all results.

    ``folder`` is seen by the driver and by all workers under the same name.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    traces = None if sweep.traces == "none" else folder / TRACES
    if traces is not None:
        traces.mkdir(exist_ok=True)
    results = folder / RESULTS
    tasks = list(sweep.tasks())
    seconds = _find_done(spark, results)
    waiting = [task for task in tasks if task.key not in seconds]
    finished = len(tasks) - len(waiting)
    mean_s = sum(seconds.values()) / len(seconds) if seconds else None
    cores = max(1, spark.sparkContext.defaultParallelism)
    tell = on_progress if on_progress is not None else lambda _, __: None
    tell(finished, len(tasks))
    left = iter(waiting)
    while part := list(islice(left, round_size(mean_s, cores))):
        parts = count_parts(len(part), mean_s, cores)
        # Their own time, not the round's: that has a job's overhead in it, and rounds that
        # are made smaller for it would have more of it.
        spent_s = spark.sparkContext.accumulator(0.0)
        outcomes = _run_round(spark, sweep, part, parts, traces, spent_s)
        outcomes.write.mode("append").parquet(str(results))
        mean_s = spent_s.value / len(part)
        finished += len(part)
        tell(finished, len(tasks))
    keys = spark.createDataFrame([(task.key,) for task in tasks], "key string")
    return _load(spark, results).dropDuplicates(["key"]).join(keys, on="key", how="left_semi")


def round_size(mean_s: float | None, cores: int) -> int:
    """Return how many simulations a round has; a few where their length is not known yet."""
    if mean_s is None:
        return 4 * cores
    return max(cores, round(cores * ROUND_S / max(mean_s, 1e-3)))


def count_parts(count: int, mean_s: float | None, cores: int) -> int:
    """Return into how many Spark tasks so many simulations are cut."""
    if mean_s is None:
        return min(count, 2 * cores)
    wanted = round(count * mean_s / TASK_S)
    return max(1, min(count, max(cores, min(wanted, TASKS_PER_CORE_MAX * cores))))


def _load(spark: SparkSession, results: Path) -> DataFrame:
    # The columns are given: a sweep that was stopped early has a folder with nothing in it.
    return spark.read.schema(OUTCOMES).parquet(str(results))


def _find_done(spark: SparkSession, results: Path) -> dict[str, float]:
    """Return the keys of what was finished, and how long each took."""
    if not results.exists():
        return {}
    rows = _load(spark, results).select("key", "seconds").collect()
    return {row["key"]: row["seconds"] for row in rows}


def _run_round(
    spark: SparkSession,
    sweep: Sweep,
    tasks: list[SweepTask],
    parts: int,
    traces: Path | None,
    spent_s: Accumulator[float],
) -> DataFrame:
    def run(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas as pd

        for batch in batches:
            for text in batch["task"]:
                task = msgspec.json.decode(text, type=SweepTask)
                outcome = run_task(sweep, task, traces)
                spent_s.add(outcome.seconds)
                yield pd.DataFrame([msgspec.to_builtins(outcome)])

    rows = [(msgspec.json.encode(task).decode(),) for task in tasks]
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


def write_points(results: DataFrame, sweep: Sweep, folder: Path) -> None:
    """Write the points of an experiment as ``quicksilver experiment`` does, for reports."""
    fresh = folder / f"_{POINTS}"
    with fresh.open("wb") as file:
        for row in results.where("is_good").toLocalIterator():
            parameters = msgspec.json.decode(row["parameters"])
            task = SweepTask(row["kind"], row["experiment"], row["seed"], parameters)
            finished = FinishedPoint.of(
                make_point(sweep, task), msgspec.json.decode(row["metrics"])
            )
            file.write(msgspec.json.encode(finished) + b"\n")
    fresh.replace(folder / POINTS)
