"""Pairs and traffic from files, checked before a job begins."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from quicksilver.spark.errors import BadInputError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_READERS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}


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
    except AnalysisException as error:
        problem = str(error).strip().split("\n")[0]
        raise BadInputError(f"{path}: it cannot be read as {kind}: {problem}") from None
    missing = [name for name in columns if name not in table.columns]
    if missing:
        there = ", ".join(table.columns) or "none"
        raise BadInputError(f"{path}: no column {missing[0]!r}; it has: {there}")
    return table.select(*columns)
