"""Pairs and traffic from files, checked before a job begins; plans into files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # ships no types
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, BinaryType, NumericType

from quicksilver.analysis.errors import BadInputError
from quicksilver.membership.planning.files import (
    PlanFile,
    PlanFileHierarchy,
    PlanFileRegion,
    save_plan,
)
from quicksilver.spark.overlap.strategies import Planned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_READERS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
_PROBLEM_MAX = 200


def read_pairs(spark: SparkSession, path: str) -> DataFrame:
    """Read ``node`` and ``group``; raises BadInputError, also if a name is missing."""
    pairs = read_table(spark, path, ("node", "group"))
    is_missing = F.col("node").isNull() | F.col("group").isNull()
    _check_rows(pairs, is_missing, path, "pairs", "have no node or no group")
    return pairs


def read_traffic(spark: SparkSession, path: str) -> DataFrame:
    """Read ``group`` and ``rate``; raises BadInputError, also if a rate makes no sense."""
    traffic = read_table(spark, path, ("group", "rate"))
    if not isinstance(traffic.schema["rate"].dataType, NumericType):
        rate = F.col("rate").try_cast("double")
    else:
        rate = F.col("rate").cast("double")
    traffic = traffic.select("group", rate.alias("rate"))
    is_bad = F.col("group").isNull() | F.coalesce(~(F.col("rate") >= 0), F.lit(True))
    is_endless = F.col("rate").isin(float("inf"), float("nan"))
    _check_rows(
        traffic, is_bad | F.coalesce(is_endless, F.lit(True)), path, "rates", "are no numbers >= 0"
    )
    return traffic


def read_table(spark: SparkSession, path: str, columns: tuple[str, ...]) -> DataFrame:
    """Read a table with at least these columns; raises BadInputError.

    Parquet by default (a file or a folder); CSV with a header, or JSON lines, by the suffix.
    """
    kind = _READERS.get(Path(path).suffix, "parquet")
    reader = spark.read.format(kind)
    if kind == "csv":
        reader = reader.option("header", "true")
    try:
        table = reader.load(path)
    except (PySparkException, Py4JJavaError) as error:
        raise BadInputError(f"{path}: it cannot be read as {kind}: {_first_line(error)}") from None
    missing = [name for name in columns if name not in table.columns]
    if missing:
        there = ", ".join(table.columns) or "none"
        hint = " (JSON is read by lines, one object each)" if kind == "json" else ""
        raise BadInputError(f"{path}: no column {missing[0]!r}; it has: {there}{hint}")
    for name in columns:
        found = table.schema[name].dataType
        if not isinstance(found, AtomicType) or isinstance(found, BinaryType):
            simple = found.simpleString()
            raise BadInputError(f"{path}: column {name!r} is {simple}; write text or numbers")
    return table.select(*columns)


def _check_rows(table: DataFrame, is_bad: Any, path: str, what: str, problem: str) -> None:
    try:
        row = table.agg(F.count("*").alias("all"), F.count_if(is_bad).alias("bad")).first()
    except (PySparkException, Py4JJavaError) as error:
        raise BadInputError(f"{path}: it cannot be read: {_first_line(error)}") from None
    assert row is not None
    if not row["all"]:
        raise BadInputError(f"{path}: there are no {what} in it")
    if row["bad"]:
        raise BadInputError(f"{path}: {row['bad']:,} of {row['all']:,} {what} {problem}")


def _first_line(error: Exception) -> str:
    """Return what Spark says first, without its stack."""
    # Some failures of readers arrive as Java's own, which only name the call that failed.
    said = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
    line = " ".join(str(said).strip().split("\n")[0].split())
    return line if len(line) <= _PROBLEM_MAX else line[:_PROBLEM_MAX] + "…"


PLAN = "plan.json"


def to_plan_file(planned: Planned) -> PlanFile:
    """Return a plan as the GMS loads it.

    The file is one document, so this is where all of a plan comes to one machine:
    the places, which are fewer than the pairs, and never the pairs.
    """
    members = planned.places.groupBy("hierarchy", "region").agg(
        F.sort_array(F.collect_list("node")).alias("nodes")
    )
    regions: dict[int, list[tuple[str, ...]]] = {}
    for row in members.toLocalIterator():
        regions.setdefault(row["hierarchy"], []).append(tuple(row["nodes"]))
    named = planned.levels.groupBy("hierarchy").agg(
        F.sort_array(F.collect_list("group")).alias("groups")
    )
    groups = {row["hierarchy"]: tuple(row["groups"]) for row in named.toLocalIterator()}
    return PlanFile(
        version=1,
        hierarchies=tuple(
            PlanFileHierarchy(
                groups.get(level, ()),
                tuple(PlanFileRegion(nodes) for nodes in sorted(regions.get(level, []))),
            )
            for level in sorted(groups.keys() | regions.keys())
        ),
    )


def write_plan(planned: Planned, folder: Path) -> Path:
    """Write a plan file and the tables; return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    planned.places.write.mode("overwrite").parquet(str(folder / "places.parquet"))
    planned.levels.write.mode("overwrite").parquet(str(folder / "levels.parquet"))
    path = folder / PLAN
    save_plan(path, to_plan_file(planned))
    return path
