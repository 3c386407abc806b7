"""``python -m bench.spark.giant``: what it costs a plan that no single task makes it.

The same pairs are planned by one task, as the GMS would, and by many, with the
limit of a task forced below the size of the component.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from quicksilver.spark.overlap.generate import MODELS, Workload, generate_pairs
from quicksilver.spark.overlap.measures import measure
from quicksilver.spark.overlap.strategies import PlanOptions, make_plan
from quicksilver.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN = (
    "hierarchies",
    "regions",
    "regions_per_node_mean",
    "regions_per_group_mean",
    "regions_per_group_max",
    "unwanted_traffic_share",
)


def compare(pairs: DataFrame, strategy: Any, task_pairs: int) -> list[dict[str, Any]]:
    """Return a row for each way."""
    rows: list[dict[str, Any]] = []
    for by, limit in (("one task", 10**9), ("many", task_pairs)):
        begun = time.perf_counter()
        options = PlanOptions(strategy=strategy, task_pairs_max=limit, block_pairs=task_pairs)
        found = measure(pairs, make_plan(pairs, options))
        row: dict[str, Any] = {"strategy": strategy, "by": by, "task_pairs": limit}
        row |= {name: round(getattr(found, name), 3) for name in SHOWN}
        rows.append(row | {"seconds": round(time.perf_counter() - begun, 1)})
    return rows


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="correlated")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--task-pairs", type=int, default=10_000)
    parser.add_argument("--strategies", default="perfect,regular,merged")
    given = parser.parse_args()
    workload = Workload(model=given.model, nodes=given.nodes, groups=given.groups)
    with session("giant bench") as spark:
        pairs = generate_pairs(spark, workload).persist()
        for strategy in given.strategies.split(","):
            for row in compare(pairs, strategy, given.task_pairs):
                print(json.dumps(row), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
