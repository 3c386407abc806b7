"""The papers' Zipf experiment: which model of subscription and which planner give which numbers.

    python -m bench.spark.frontier --nodes 2000 --groups 10000 --figure frontier.svg

The papers (dissertation 4.1.2, Figures 4.5 and 4.6) report 4-14 regions a node,
95 % of a node's traffic in 2 of them, and no group in more than about 5 regions.
Every row is one plan; traffic is Zipf-distributed over the groups, independently
of their popularity.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quicksilver.spark.overlap.generate import MODELS, Workload, generate_pairs
from quicksilver.spark.overlap.measure import measure
from quicksilver.spark.overlap.strategies import PlanOptions, make_plan
from quicksilver.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = (
    "model",
    "strategy",
    "price",
    "regions_per_node_mean",
    "regions_per_group_mean",
    "regions_per_group_max",
    "unwanted_traffic_share",
    "traffic_share_of_top_two",
    "addresses_saved",
    "seconds",
)


def make_traffic(spark: SparkSession, groups: int, alpha: float, seed: int) -> DataFrame:
    """Return rates by Zipf over the groups in an order of chance."""
    order = list(range(groups))
    random.Random(seed).shuffle(order)  # a workload, not a secret
    rows = [(f"g{group}", float(rank + 1) ** -alpha) for rank, group in enumerate(order)]
    return spark.createDataFrame(rows, "group string, rate double")


def run(spark: SparkSession, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Plan every combination; print each row as it is known."""
    traffic = make_traffic(spark, arguments.groups, 1.5, 7).persist()
    rows: list[dict[str, Any]] = []
    for model in arguments.models.split(","):
        workload = Workload(model=model, nodes=arguments.nodes, groups=arguments.groups)
        pairs = generate_pairs(spark, workload).persist()
        for choice in arguments.plans.split(","):
            strategy, _, price = choice.partition(":")
            options = PlanOptions(strategy=strategy, region_nodes_min=int(price or 5))
            begun = time.perf_counter()
            planned = make_plan(pairs, options)
            found = measure(pairs, planned, traffic)
            row: dict[str, Any] = {name: getattr(found, name, None) for name in COLUMNS}
            row |= {"model": model, "strategy": strategy, "price": options.region_nodes_min}
            row["seconds"] = round(time.perf_counter() - begun, 1)
            rows.append(row)
            print(json.dumps(row) if arguments.json else _line(row), flush=True)
        pairs.unpersist()
    return rows


def _line(row: dict[str, Any]) -> str:
    cells = (f"{one:.3g}" if isinstance(one, float) else str(one) for one in row.values())
    return "| " + " | ".join(cells) + " |"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw what a plan saves in packets against what it costs in unwanted traffic."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for model in dict.fromkeys(row["model"] for row in rows):
        own = sorted(
            (row["unwanted_traffic_share"], row["regions_per_group_mean"])
            for row in rows
            if row["model"] == model
        )
        axes.plot([x for x, _ in own], [y for _, y in own], "o-", label=model, markersize=4)
    axes.axhspan(0, 5, color="#d9e6f2", zorder=0)
    axes.text(0.01, 5.2, "the papers: at most about 5 regions a group", fontsize=8)
    axes.set_yscale("log")
    axes.set_xlabel("share of the traffic received that is not wanted")
    axes.set_ylabel("regions of a group, mean")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--plans", default="exact,perfect,regular,merged:1,merged:5,merged:50")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with session("frontier") as spark:
        if not arguments.json:
            print("| " + " | ".join(COLUMNS) + " |")
        rows = run(spark, arguments)
    if arguments.figure is not None:
        draw(rows, arguments.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
