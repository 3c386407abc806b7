"""Gold tables kept up with traces that are still being written, by Structured Streaming.

The stream is of the names of files, so that what cannot be read is told and left out
instead of ending the query. New records become silver, in partitions by minute and
batch; then every minute that they touch is made anew, with a minute's margin, by the same
transforms that a batch uses: they look no further. So files may come late and in any order.

Whatever a batch writes replaces what an earlier attempt at the same batch wrote. After a
crash Spark gives the unfinished batch the same files again, and the result is the same.

Clocks are compared when a node is first seen. As more packets tell more, an estimate that
has moved by ``MOVED_S`` makes the run anew from its trace; smaller moves are left alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlparse

import msgspec
from pyspark.sql import functions as f

from quicksilver.analysis.clocks import align_clocks
from quicksilver.analysis.errors import BadInputError
from quicksilver.spark.telemetry import schemas
from quicksilver.spark.telemetry.reading import check_files, files_of, read_files, shorten
from quicksilver.spark.telemetry.transforms import (
    GOLD,
    HORIZON_S,
    contract,
    to_evidence,
    to_silver,
)
from quicksilver.trace.folders import KIND, RUN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

VERSION = 1
MINUTE_S = HORIZON_S
MOVED_S = 0.005
FILES_MAX = 10_000
"""Files of one batch; a hundred processes write about 6,000 in a minute."""

FILE_AGE = "3650d"
"""Spark forgets files that are older than the newest by so much; traces may lie for long."""

SILVER: Final = "silver"
SILVER_KEYS: Final = ("run", "minute", "batch")
STORED: Final = {**schemas.SILVER, "minute": "bigint", "batch": "bigint"}

Remark = Callable[[str], None]


class Clocks(msgspec.Struct):
    """What is known of the clocks of one run."""

    version: int = VERSION
    bases: dict[int, float | None] = {}
    delays: list[tuple[int, int, float]] = []
    offsets: dict[int, float] = {}

    def learn(self, evidence: Iterable[Row]) -> bool:
        """Take what new records tell; True if a clock that was in use has moved."""
        shortest = {(sender, node): delay for sender, node, delay in self.delays}
        for row in evidence:
            if row["sender"] is None:
                if self.bases.get(row["node"]) is None:
                    self.bases[row["node"]] = row["base_s"]
            else:
                pair = (row["sender"], row["node"])
                shortest[pair] = min(row["delay_s"], shortest.get(pair, row["delay_s"]))
        self.delays = [(*pair, delay) for pair, delay in sorted(shortest.items())]
        solved = align_clocks(self.bases, shortest)
        used = self.offsets
        if any(abs(solved[node] - offset) >= MOVED_S for node, offset in used.items()):
            self.offsets = solved
            return True
        self.offsets = {**solved, **used}
        return False


class GoldFolder:
    """Silver and gold tables in a folder, and how far they are."""

    def __init__(self, spark: SparkSession, folder: Path, gold: Path, remark: Remark) -> None:
        self._spark = spark
        self._folder = folder
        self._gold = gold
        self._remark = remark
        self.files = 0
        """Files that were taken in."""

    # Steps of a batch

    def take(self, names: DataFrame, batch: int) -> None:
        """Bring the tables up to date with some files."""
        paths = sorted(local_path(row["path"]) for row in names.collect())
        good, problems = check_files(path for path in paths if path.exists())
        for problem in shorten(problems):
            self._remark(problem)
        if not good:
            return
        bronze = read_files(self._spark, self._folder, good)
        clocks, moved = self._compare_clocks(bronze)
        if moved:
            self._remark(f"clocks are known better now; made anew: {', '.join(moved)}")
            self._forget(moved)
            new = [path for path in good if run_of(path) not in moved]
            again = check_files(files_of(self._folder, moved))[0]
            bronze = read_files(self._spark, self._folder, new + again)
        self._add_silver(bronze, clocks, batch)
        self._make_gold(self._minutes_of(batch))
        # Only now: a batch that is tried again must find the same clocks as before.
        for run, known in clocks.items():
            self._save_clocks(run, known)
        self.files += len(good)

    def _compare_clocks(self, bronze: DataFrame) -> tuple[dict[str, Clocks], list[str]]:
        evidence: dict[str, list[Row]] = {}
        for row in to_evidence(bronze).collect():
            evidence.setdefault(row["run"], []).append(row)
        clocks = {run: self._load_clocks(run) for run in sorted(evidence)}
        moved = [run for run, known in clocks.items() if known.learn(evidence[run])]
        return clocks, moved

    def _add_silver(self, bronze: DataFrame, clocks: Mapping[str, Clocks], batch: int) -> None:
        offsets = self._spark.createDataFrame(
            [(run, node, o) for run, known in clocks.items() for node, o in known.offsets.items()],
            schemas.ddl(schemas.OFFSETS),
        )
        rows = to_silver(bronze, offsets).withColumns(
            {"minute": f.floor(f.col("second") / MINUTE_S), "batch": f.lit(batch)}
        )
        before = [
            path for run in clocks for path in self._parts(run) if _value(path, "batch") < batch
        ]
        if before:
            # A file that was copied: its records lie in the same minutes as the first time.
            keys = ["run", "minute", "kind", "writer", "number", "at"]
            known = self._read_silver(before).select(*keys)
            rows = rows.join(known, on=keys, how="left_anti")
        stored = contract(rows, STORED)
        # Sorted by kind, so that readers of one kind pass over the others.
        self._write(stored.sortWithinPartitions(*SILVER_KEYS, "kind"), SILVER, *SILVER_KEYS)

    def _make_gold(self, touched: Mapping[str, set[int]]) -> None:
        wanted = {run: _widened(minutes) for run, minutes in touched.items()}
        needed = {run: _widened(minutes) for run, minutes in wanted.items()}
        parts = [
            path
            for run, minutes in needed.items()
            for path in self._parts(run)
            if _value(path.parent, "minute") in minutes
        ]
        if not parts:
            return
        silver = contract(self._read_silver(parts), schemas.SILVER)
        pairs = [(run, minute) for run, minutes in wanted.items() for minute in sorted(minutes)]
        only = f.broadcast(self._spark.createDataFrame(pairs, "run string, minute bigint"))
        for name, transform in GOLD.items():
            made = transform(silver).withColumn("minute", f.floor(f.col("second") / MINUTE_S))
            made = made.join(only, on=["run", "minute"], how="left_semi")
            self._write(made.repartition("run", "minute"), name, "run", "minute")

    def _write(self, table: DataFrame, name: str, *keys: str) -> None:
        (
            table.write.mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
            .option("compression", "zstd")
            .partitionBy(*keys)
            .parquet(str(self._gold / name))
        )

    # What is there

    def _parts(self, run: str) -> list[Path]:
        return sorted((self._gold / SILVER / f"{RUN}{run}").glob("minute=*/batch=*"))

    def _minutes_of(self, batch: int) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for path in (self._gold / SILVER).glob(f"{RUN}*/minute=*/batch={batch}"):
            run = path.parent.parent.name.removeprefix(RUN)
            found.setdefault(run, set()).add(_value(path.parent, "minute"))
        return found

    def _read_silver(self, paths: Sequence[Path]) -> DataFrame:
        reader = self._spark.read.schema(schemas.ddl(STORED))
        return reader.option("basePath", str(self._gold / SILVER)).parquet(*map(str, paths))

    def _forget(self, runs: Iterable[str]) -> None:
        for run in runs:
            for name in (SILVER, *GOLD):
                shutil.rmtree(self._gold / name / f"{RUN}{run}", ignore_errors=True)

    def _clocks_file(self, run: str) -> Path:
        return self._gold / "_clocks" / f"{run}.json"

    def _load_clocks(self, run: str) -> Clocks:
        path = self._clocks_file(run)
        if not path.exists():
            return Clocks()
        try:
            known = msgspec.json.decode(path.read_bytes(), type=Clocks)
        except msgspec.DecodeError as error:
            raise BadInputError(f"{path}: {error}; choose another --out") from None
        if known.version != VERSION:
            raise BadInputError(f"{path} is of another version; choose another --out")
        return known

    def _save_clocks(self, run: str, known: Clocks) -> None:
        path = self._clocks_file(run)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_bytes(msgspec.json.encode(known))
        unfinished.rename(path)


def start_gold(
    spark: SparkSession,
    folder: Path,
    gold: Path,
    *,
    run: str = "*",
    every_s: float | None = None,
    remark: Remark = lambda _: None,
    files_max: int = FILES_MAX,
) -> tuple[StreamingQuery, GoldFolder]:
    """Start keeping a folder's gold tables up; all that is there now, or for ever.

    ``every_s``: look for new files again and again after so long. A folder of gold tables
    belongs to one folder of traces, which it must be able to read again.
    """
    tables = GoldFolder(spark, folder, gold, remark)
    names = (
        spark.readStream.format("binaryFile")
        .schema("path string, modificationTime timestamp, length bigint, content binary")
        .option("pathGlobFilter", "*.parquet")
        .option("maxFilesPerTrigger", str(files_max))
        .option("maxFileAge", FILE_AGE)
        .load(f"{folder}/{RUN}{run}/{KIND}*")
        # Without the files' content, which is left on the disk this way.
        .select("path")
    )
    writer = names.writeStream.foreachBatch(tables.take).option(
        "checkpointLocation", str(gold / "_checkpoint")
    )
    if every_s is None:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{every_s} seconds")
    return writer.start(), tables


def update_gold(
    spark: SparkSession,
    folder: Path,
    gold: Path,
    *,
    run: str = "*",
    remark: Remark = lambda _: None,
    files_max: int = FILES_MAX,
) -> int:
    """Bring gold tables up to date with a folder of traces; returns how many files were new."""
    query, tables = start_gold(spark, folder, gold, run=run, remark=remark, files_max=files_max)
    query.awaitTermination()
    return tables.files


def read_gold(spark: SparkSession, gold: Path) -> dict[str, DataFrame]:
    """Return the stored tables: ``trace``, which is silver, and gold. Raises BadInputError."""
    if not (gold / SILVER).is_dir():
        raise BadInputError(f"{gold} has no tables; make them with: quicksilver gold DIR --out")
    found = {}
    for name in (SILVER, *GOLD):
        columns = schemas.SILVER if name == SILVER else schemas.GOLD[name]
        stored = schemas.ddl({**columns, "minute": "bigint"})
        table = spark.read.schema(stored).parquet(str(gold / name))
        found["trace" if name == SILVER else name] = contract(table, columns)
    return found


def local_path(name: str) -> Path:
    """Return a file as Spark names it."""
    parsed = urlparse(name)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else Path(name)


def run_of(path: Path) -> str:
    """Return the run that a trace's file belongs to."""
    return path.parent.parent.name.removeprefix(RUN)


def _value(path: Path, key: str) -> int:
    """Return the number in the name of a partition's folder."""
    return int(path.name.removeprefix(f"{key}="))


def _widened(minutes: Iterable[int]) -> set[int]:
    return {near for minute in minutes for near in (minute - 1, minute, minute + 1)}
