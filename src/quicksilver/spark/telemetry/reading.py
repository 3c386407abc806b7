"""Reading traces: which files are good, what is wrong with the others, whose clock is off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.parquet

from quicksilver.analysis.errors import BadInputError
from quicksilver.analysis.inputs import PATTERN
from quicksilver.spark.telemetry import schemas
from quicksilver.spark.telemetry.schemas import KINDS, RECORD_TYPES
from quicksilver.spark.telemetry.transforms import contract, to_evidence, to_offsets
from quicksilver.trace.folders import KIND, RUN, run_folder
from quicksilver.trace.parquet import arrow_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


NEEDED = ("writer", "number", "at", "node")
"""Columns without which a row is no record."""

REMARKS_MAX = 20


def files_of(folder: Path, runs: Iterable[str]) -> list[Path]:
    """Return the finished files of runs, in order."""
    return [path for run in runs for path in sorted((folder / f"{RUN}{run}").glob(PATTERN))]


def check_files(paths: Iterable[Path]) -> tuple[list[Path], list[str]]:
    """Return the files that can be read, and a line for each thing that is wrong.

    Looks only at the ends of files, where Parquet has its schema.
    """
    good: list[Path] = []
    problems: list[str] = []
    unknown: dict[tuple[str, str], None] = {}
    for path in paths:
        problem = check_file(path)
        if problem is not None:
            problems.append(f"left out, because it {problem}: {path}")
            continue
        good.append(path)
        kind = path.parent.name.removeprefix(KIND)
        if kind not in KINDS:
            unknown[path.parent.parent.name.removeprefix(RUN), kind] = None
    problems += [
        f"run {run} has records of kind {kind}, which this version does not know: they are in "
        "'trace' with time and node only; update quicksilver"
        for run, kind in unknown
    ]
    return good, problems


def check_file(path: Path) -> str | None:
    """Return what is wrong with a file, if something is."""
    try:
        if not path.stat().st_size:
            return "is empty"
        schema = pyarrow.parquet.read_schema(path)
    except (pyarrow.ArrowException, OSError):
        return "is torn"
    types = {field.name: field.type for field in schema}
    missing = [name for name in NEEDED if name not in types]
    if missing:
        return f"is no trace (it lacks {', '.join(missing)})"
    for name, type_ in types.items():
        wanted = RECORD_TYPES.get(name)
        if wanted is not None and not _is_same(type_, arrow_type(wanted)):
            return f"is no trace ({name} is {type_}, not {wanted})"
    return None


def _is_same(type_: Any, wanted: Any) -> bool:
    if pyarrow.types.is_list(wanted):
        return bool(pyarrow.types.is_list(type_) and type_.value_type.equals(wanted.value_type))
    return bool(type_.equals(wanted))


def find_problems(folder: Path, runs: Sequence[str]) -> list[str]:
    """Return what of runs cannot be read, a line each, at most a page of them."""
    return shorten(check_files(files_of(folder, runs))[1])


def shorten(problems: Sequence[str]) -> list[str]:
    """Return so many lines as a person reads."""
    if len(problems) <= REMARKS_MAX:
        return list(problems)
    return [*problems[:REMARKS_MAX], f"… and {len(problems) - REMARKS_MAX:,} lines like these"]


def read_bronze(spark: SparkSession, folder: Path, runs: Sequence[str]) -> DataFrame:
    """Return the records of runs as they were written; what cannot be read is left out.

    Raises BadInputError if nothing can. Who wants to know what was left out asks
    ``find_problems``.
    """
    files = files_of(folder, runs)
    good, problems = check_files(files)
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
