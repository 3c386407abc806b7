"""``python -m bench.spark.overlap``: regions of many pairs against counting the pairs.

    python -m bench.spark.overlap --pairs 20,200 --folder /tmp/pairs

Pairs are made by the project's generator, once, and kept in ``--folder``. All is
measured in one session with a small heap, in turns, after a round that is thrown
away; a time is the median of the rounds. Pairs are counted in two ways:

footers
    ``spark.read.parquet(file).count()``, which looks at no pair: Parquet knows.
scan
    Pairs with a node and a group, which reads both columns.

``regions`` is the fingerprints and the regions of pairs that are not repeated,
written to a sink that discards; ``deduplicated`` the same for pairs that may be.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from quicksilver.spark.overlap.classes import find_regions
from quicksilver.spark.overlap.generate import MODELS, Workload, generate_pairs
from quicksilver.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MILLION = 1_000_000


def make_file(spark: SparkSession, workload: Workload, folder: Path, *, is_shuffled: bool) -> str:
    """Return a file of pairs, made unless it is there."""
    order = "shuffled" if is_shuffled else "by-node"
    path = folder / f"{workload.model}-{workload.nodes}-{order}.parquet"
    if not (path / "_SUCCESS").exists():
        pairs = generate_pairs(spark, workload, tasks=16)
        if is_shuffled:
            pairs = pairs.repartition(16, F.rand(seed=1)).sortWithinPartitions(F.rand(seed=2))
        pairs.write.mode("overwrite").parquet(str(path))
    return str(path)


def into_nothing(table: DataFrame) -> None:
    """Compute every column of every row."""
    table.write.format("noop").mode("overwrite").save()


def timed(work: Callable[[], object]) -> float:
    """Return seconds."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def measure(
    spark: SparkSession, path: str, rounds: int, *, does_deduplicate: bool
) -> dict[str, Any]:
    """Return the median time of each way over one file."""
    pairs = spark.read.parquet(path)
    is_pair = F.col("node").isNotNull() & F.col("group").isNotNull()
    ways: dict[str, Callable[[], object]] = {
        "footers": pairs.count,
        "scan": lambda: pairs.where(is_pair).count(),
        "regions": lambda: into_nothing(find_regions(pairs, unique=True)),
    }
    if does_deduplicate:
        ways["deduplicated"] = lambda: into_nothing(find_regions(pairs))
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, work in ways.items():
            spark.catalog.clearCache()
            seconds = timed(work)
            if number or not rounds:
                times[name].append(seconds)
    found: dict[str, Any] = {name: round(statistics.median(own), 3) for name, own in times.items()}
    found["pairs"] = pairs.count()
    found["regions_found"] = find_regions(pairs, unique=True).count()
    for name in ("footers", "scan"):
        found[f"regions_of_{name}"] = round(found["regions"] / found[name], 2)
    return found


def memory(spark: SparkSession) -> dict[str, int]:
    """Return the driver's JVM in MiB: its heap at most, what is alive in it now, its peak size."""
    jvm: Any = spark.sparkContext._jvm
    runtime = jvm.java.lang.Runtime.getRuntime()
    jvm.java.lang.System.gc()
    status = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return {
        "heap_max_mib": runtime.maxMemory() >> 20,
        "heap_alive_mib": (runtime.totalMemory() - runtime.freeMemory()) >> 20,
        "rss_peak_mib": int(peak.split()[1]) >> 10,
    }


def run(spark: SparkSession, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure every size, smallest first; print each as it is known."""
    rows: list[dict[str, Any]] = []
    for millions in sorted(float(one) for one in given.pairs.split(",")):
        nodes = max(1, round(millions * MILLION / (given.groups * 0.1)))
        workload = Workload(model=given.model, nodes=nodes, groups=given.groups, templates=500)
        path = make_file(spark, workload, given.folder, is_shuffled=given.shuffled)
        row = {"model": given.model, "nodes": nodes, "shuffled": given.shuffled}
        row |= measure(spark, path, given.rounds, does_deduplicate=given.deduplicate)
        row |= memory(spark)
        if rows:
            row["times_of_first"] = round(row["regions"] / rows[0]["regions"], 2)
        rows.append(row)
        print(json.dumps(row) if given.json else _text(row), flush=True)
    return rows


def _text(row: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items())


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", default="20,200", help="sizes in millions, by commas")
    parser.add_argument("--model", choices=MODELS, default="correlated")
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, required=True, help="where the pairs are kept")
    parser.add_argument("--heap", default="2g", help="of the driver, which runs the tasks too")
    parser.add_argument("--shuffled", action="store_true", help="pairs in an order of chance")
    parser.add_argument("--deduplicate", action="store_true", help="also drop repeated pairs")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with session("overlap bench", conf={"spark.driver.memory": given.heap}) as spark:
        run(spark, given)
    return 0


if __name__ == "__main__":
    sys.exit(main())
