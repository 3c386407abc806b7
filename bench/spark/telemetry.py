"""``python -m bench.spark.telemetry``: gold tables and figures from traces of two lengths.

The longer trace has ten times the rows; the ratio of the times says whether the work grows
worse than linearly. Memory: Spark's driver (which in local mode is also the only
executor) has the same limit for both, and Python's part of it is measured.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bench.spark.traces import RUN_NAME, write_trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Result(msgspec.Struct, frozen=True):
    """One length."""

    rows: int
    gold_s: float
    """From files to silver and all gold tables on disk."""
    figures_s: float
    """From the tables to the pictures of the run, and all anomalies."""
    python_rss_mb: float
    """The highest so far."""

    @property
    def seconds(self) -> float:
        return self.gold_s + self.figures_s


def measure(spark: SparkSession, folder: Path, rows: int, seed: int) -> Result:
    """Make a trace, unless it is there, and time what is made of it."""
    from quicksilver.spark.telemetry.anomalies import VIEWS
    from quicksilver.spark.telemetry.incremental import read_gold, update_gold
    from quicksilver.spark.telemetry.run_report import section_of
    from quicksilver.spark.telemetry.views import register

    traces = folder / f"traces-{rows}"
    if not (traces / "_whole").exists():
        shutil.rmtree(traces, ignore_errors=True)
        count = write_trace(spark, traces, rows, seed)
        (traces / "_whole").write_text(str(count))
    count = int((traces / "_whole").read_text())
    gold, out = folder / f"gold-{rows}", folder / f"figures-{rows}"
    for place in (gold, out):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    begun = time.perf_counter()
    update_gold(spark, traces, gold)
    gold_s = time.perf_counter() - begun
    begun = time.perf_counter()
    tables = register(read_gold(spark, gold))
    section_of(tables, traces, RUN_NAME, out)
    for name in VIEWS:
        tables[name].count()
    figures_s = time.perf_counter() - begun
    shutil.rmtree(gold)
    rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Result(count, round(gold_s, 2), round(figures_s, 2), round(rss_mb, 1))


def main() -> None:
    """Measure both lengths and print their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=5_000_000, help="of the shorter trace")
    parser.add_argument("--times", type=int, default=10, help="how much longer the other is")
    parser.add_argument("--folder", type=Path, default=Path("out/bench-telemetry"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--memory", default="2g", help="of Spark's driver")
    parser.add_argument("--make-only", action="store_true", help="only write the traces")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    from quicksilver.spark.sessions import session

    settings = {"spark.driver.memory": given.memory}
    with session("bench telemetry", master="local[2]", conf=settings) as spark:
        if given.make_only:
            for rows in (given.rows // 10, given.rows, given.rows * given.times):
                folder = given.folder / f"traces-{rows}"
                if not (folder / "_whole").exists():
                    shutil.rmtree(folder, ignore_errors=True)
                    (folder / "_whole").write_text(
                        str(write_trace(spark, folder, rows, given.seed))
                    )
            return
        measure(spark, given.folder, given.rows // 10, given.seed)
        short = measure(spark, given.folder, given.rows, given.seed)
        if not given.json:
            print(f"{short.rows:,} rows: {short.seconds:.1f} s", flush=True)
        long = measure(spark, given.folder, given.rows * given.times, given.seed)
    ratio = round(long.seconds / short.seconds, 2)
    if given.json:
        facts = {"short": short, "long": long, "ratio": ratio, "driver_memory": given.memory}
        print(msgspec.json.encode(facts).decode())
        return
    for each in (short, long):
        print(
            f"{each.rows:>12,} rows: tables {each.gold_s:.1f} s, figures {each.figures_s:.1f} s; "
            f"Python {each.python_rss_mb:.0f} MB"
        )
    print(f"{long.rows / short.rows:.1f} times the rows in {ratio} times the time")


if __name__ == "__main__":
    main()
