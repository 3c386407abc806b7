"""Reading traces, and comparing the clocks in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from quicksilver.analysis.errors import BadInputError
from quicksilver.spark.telemetry import schemas
from quicksilver.spark.telemetry.files import files_of, sort_out
from quicksilver.spark.telemetry.transforms import contract, to_evidence, to_offsets
from quicksilver.trace.folders import run_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_bronze(spark: SparkSession, folder: Path, runs: Sequence[str]) -> DataFrame:
    """Return the records of runs as they were written; what cannot be read is left out.

    Raises BadInputError if nothing can. Who wants to know what was left out asks
    ``files.find_problems``.
    """
    files = files_of(folder, runs)
    good, problems = sort_out(files)
    if not good:
        first = problems[0] if problems else "there is no file"
        raise BadInputError(f"{folder}: nothing can be read; {first}")
    if len(good) == len(files):
        return read_files(spark, folder, [run_folder(folder, run) for run in runs])
    return read_files(spark, folder, good)


def read_files(spark: SparkSession, folder: Path, paths: Sequence[Path]) -> DataFrame:
    """Return the records of files, or of folders, in a folder of runs."""
    reader = spark.read.schema(schemas.ddl(schemas.BRONZE)).option("basePath", str(folder))
    return contract(reader.parquet(*map(str, paths)), schemas.BRONZE)


def clock_offsets(bronze: DataFrame) -> DataFrame:
    """Return what to add to each node's clock, worked out now and once."""
    found = [tuple(row) for row in to_offsets(to_evidence(bronze)).collect()]
    return bronze.sparkSession.createDataFrame(found, schemas.ddl(schemas.OFFSETS))
