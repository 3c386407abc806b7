"""Reading traces, finding clock offsets, and the incremental form of the gold tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from quicksilver.spark.errors import BadInputError
from quicksilver.spark.telemetry import schemas
from quicksilver.spark.telemetry.clocks import solve_offsets
from quicksilver.spark.telemetry.transforms import (
    contract,
    match_packets,
    to_node_totals,
    to_region_seconds,
    to_silver,
)
from quicksilver.trace.folders import RUN, find_runs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAMED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "region_seconds": to_region_seconds,
    "node_totals": to_node_totals,
}
"""Gold tables that can be kept up incrementally."""


def find_traces(path: Path) -> tuple[Path, list[str]]:
    """Return the folder of runs behind a path and the runs that are meant.

    The path is a folder of runs, one run, or an experiment's folder with its traces.
    Raises BadInputError.
    """
    if not path.is_dir():
        raise BadInputError(f"{path} is no folder; give one that --trace wrote, or a run in it")
    if path.name.startswith(RUN):
        folder, runs = path.parent, [path.name.removeprefix(RUN)]
    else:
        folder = path / "traces" if (path / "traces").is_dir() else path
        runs = find_runs(folder)
    if not runs:
        raise BadInputError(f"{path} has no runs; a trace is in folders named run=NAME")
    filled = [run for run in runs if any((folder / f"{RUN}{run}").glob("kind=*/[!._]*.parquet"))]
    if not filled:
        raise BadInputError(f"{path}: no records were written in {', '.join(runs[:5])}")
    return folder, filled


def find_torn(folder: Path, runs: Sequence[str]) -> list[Path]:
    """Return files of finished names that are no whole Parquet files."""
    torn = []
    for run in runs:
        for path in sorted((folder / f"{RUN}{run}").glob("kind=*/[!._]*.parquet")):
            with path.open("rb") as file:
                file.seek(0, 2)
                size = file.tell()
                file.seek(max(0, size - 4))
                if size < 12 or file.read() != b"PAR1":
                    torn.append(path)
    return torn


def read_bronze(spark: SparkSession, folder: Path, runs: Sequence[str]) -> DataFrame:
    """Return the records of runs as they were written; what is torn is left out."""
    reader = (
        spark.read.schema(_bronze_schema())
        .option("basePath", str(folder))
        .option("ignoreCorruptFiles", "true")
    )
    return contract(reader.parquet(*(str(folder / f"{RUN}{run}") for run in runs)), schemas.BRONZE)


def _bronze_schema() -> str:
    return schemas.ddl(schemas.BRONZE)


def clock_offsets(bronze: DataFrame) -> DataFrame:
    """Return what to add to each node's clock: see ``clocks``."""
    spark = bronze.sparkSession
    rows = contract(bronze, schemas.BRONZE)
    is_sample = f.col("kind") == "NodeSampled"
    base = {
        (row["run"], row["node"]): row["base_s"]
        for row in rows.where(is_sample)
        .groupBy("run", "node")
        .agg(f.percentile_approx(f.col("wall_s") - f.col("at"), 0.5).alias("base_s"))
        .collect()
    }
    nodes = [(row["run"], row["node"]) for row in rows.select("run", "node").distinct().collect()]
    # Nodes without a sample lived for less than a second: they get the others' estimate.
    usual: dict[str, float] = {}
    for (run, _), value in sorted(base.items()):
        usual.setdefault(run, value)
    shortest = (
        match_packets(rows)
        .groupBy("run", "sender", "node")
        .agg(f.min("delay_s").alias("delay_s"))
        .collect()
    )
    found: list[tuple[str, int, float]] = []
    for run in sorted({run for run, _ in nodes}):
        mine = [node for of, node in nodes if of == run]
        first = {node: base.get((run, node), usual.get(run, 0.0)) for node in mine}
        delays = {
            (row["sender"], row["node"]): row["delay_s"] + first[row["node"]] - first[row["sender"]]
            for row in shortest
            if row["run"] == run and row["sender"] != row["node"]
        }
        shifts = solve_offsets(mine, delays)
        found += [(run, node, first[node] + shifts[node]) for node in sorted(mine)]
    return spark.createDataFrame(found, schemas.ddl(schemas.OFFSETS))


def update_gold(spark: SparkSession, folder: Path, run: str, gold: Path) -> dict[str, int]:
    """Bring a run's streamed gold tables up to date with what was written since the last time.

    Returns the rows that each table has now. Clocks are compared with all that is there.
    A second is written when a minute has passed beyond it, so the last minute of a run
    comes only when it has gone on. Runs are kept apart because each has a time of its own.
    """
    offsets = clock_offsets(read_bronze(spark, folder, [run])).cache()
    place = gold / f"{RUN}{run}"
    counts = {}
    for name, transform in STREAMED.items():
        stream = (
            spark.readStream.schema(_bronze_schema())
            .option("basePath", str(folder))
            .option("ignoreCorruptFiles", "true")
            # A stream heeds basePath, and so finds the column run, only with a pattern.
            .parquet(f"{folder}/{RUN}[{run[0]}]{run[1:]}")
        )
        query = (
            transform(to_silver(stream, offsets))
            .writeStream.format("parquet")
            .outputMode("append")
            .option("path", str(place / name))
            .option("checkpointLocation", str(place / f"_{name}"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        counts[name] = spark.read.parquet(str(place / name)).count()
    return counts
