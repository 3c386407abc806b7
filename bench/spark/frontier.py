"""The papers' Zipf experiment: which model of subscription and which planner give which numbers.

    python -m bench.spark.frontier --sizes 250x1000,1000x5000,2000x10000 --figure frontier.svg

The papers (dissertation 4.1.2, Figures 4.5 and 4.6; 4.2.1) report 4-14 regions a
node, 95 % of a node's traffic in 2 of them, no group in more than about 5 regions,
and a hundred groups for an address. Every row is one plan; traffic is
Zipf-distributed over the groups, independently of their popularity, as in Figure
4.6. A plan is written ``planner:price``, with ``:traffic`` if it is made for the
traffic. What Spark plans at these sizes is what the planner of the GMS plans, so
that is asked directly.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from quicksilver.membership.planning import make_planner
from quicksilver.membership.planning.model import PlanLimits, PlanState
from quicksilver.spark.overlap.generate import MODELS, Workload, groups_of
from quicksilver.wire.ids import GroupId, NodeId

ALPHA = 1.5
PLANS = "perfect,regular,merged:5,merged:50,merged:5:traffic,merged:50:traffic,merged:500:traffic"

Members = dict[NodeId, frozenset[GroupId]]
Row = dict[str, Any]


def make_traffic(groups: int, seed: int) -> dict[GroupId, float]:
    """Return rates by Zipf over the groups in an order of chance."""
    order = list(range(1, groups + 1))
    random.Random(seed).shuffle(order)  # a workload, not a secret
    return {GroupId(group): float(rank + 1) ** -ALPHA for rank, group in enumerate(order)}


def plan_one(members: Members, choice: str, rates: Mapping[GroupId, float]) -> Row:
    """Return what one plan gives."""
    strategy, price, steered = ([*choice.split(":"), "", ""])[:3]
    limits = PlanLimits(region_nodes_min=int(price or 5))
    planner = make_planner(strategy, limits, rates if steered else None)
    begun = time.perf_counter()
    planner.apply(members)
    seconds = time.perf_counter() - begun
    found, equal = planner.cost(rates), planner.cost()
    return {
        "plan": choice,
        "regions_per_node_mean": round(found.regions_per_node_mean, 2),
        "regions_per_group_mean": round(found.regions_per_group_mean, 2),
        "regions_per_group_max": found.regions_per_group_max,
        "regions_per_message": round(_fan_out(planner.state(), rates), 2),
        "unwanted": round(found.unwanted_fraction, 4),
        "unwanted_if_equal": round(equal.unwanted_fraction, 4),
        "in_two_busiest": round(_top_two(planner.state(), rates), 3),
        "groups_per_region": round(found.groups / found.regions, 2),
        "seconds": round(seconds, 1),
    }


def _fan_out(state: PlanState, rates: Mapping[GroupId, float]) -> float:
    """Return how many regions a message is sent to, on average."""
    said = sum(rates[group] for group in state.groups)
    return sum(rates[group] * len(regions) for group, regions in state.groups.items()) / said


def _top_two(state: PlanState, rates: Mapping[GroupId, float]) -> float:
    """Return the share of a node's traffic in its two busiest regions, mean over nodes."""
    loads: dict[int, float] = {}
    for group, regions in state.groups.items():
        for region in regions:
            loads[region] = loads.get(region, 0.0) + rates[group]
    heard: dict[NodeId, list[float]] = {}
    for region, nodes in state.regions.items():
        for node in nodes:
            heard.setdefault(node, []).append(loads[region])
    shares = [sum(sorted(own)[-2:]) / sum(own) for own in heard.values()]
    return sum(shares) / len(shares)


def least_unwanted(members: Members, per_node: float, per_group: float, regions: int) -> float:
    """Return a share of unwanted packets, with equal traffic, that no such plan goes below.

    By counting, for nodes that choose independently. Who is in which group takes
    ``needed`` bits to write down. A plan takes ``per_node`` and ``per_group``
    numbers of regions for each node and group, and names all pairs that receive;
    saying which of these are wanted takes what is left. Few regions say little, so
    many must receive.
    """
    fans: dict[GroupId, int] = {}
    for wanted in members.values():
        for group in wanted:
            fans[group] = fans.get(group, 0) + 1
    nodes, pairs = len(members), sum(fans.values())
    needed = sum(_bits_to_choose(nodes, fan) for fan in fans.values())
    given = (nodes * per_node + len(fans) * per_group) * math.log2(regions)
    low, high = 0.0, 0.999
    for _ in range(40):
        middle = (low + high) / 2
        if given + _bits_to_choose(pairs / (1 - middle), pairs) < needed:
            low = middle
        else:
            high = middle
    return low


def _bits_to_choose(whole: float, part: float) -> float:
    """Return the binary logarithm of the number of subsets of that size."""
    ways = math.lgamma(whole + 1) - math.lgamma(part + 1) - math.lgamma(whole - part + 1)
    return ways / math.log(2)


def run(given: argparse.Namespace) -> Iterator[Row]:
    """Plan every combination."""
    for size in given.sizes.split(","):
        nodes, groups = (int(one) for one in size.split("x"))
        rates = make_traffic(groups, 7)
        for model in given.models.split(","):
            workload = Workload(model=model, nodes=nodes, groups=groups, alpha=ALPHA)
            members = {
                NodeId(n + 1): frozenset(GroupId(g + 1) for g in groups_of(workload, n))
                for n in range(nodes)
            }
            for choice in given.plans.split(","):
                yield {"size": size, "model": model, **plan_one(members, choice, rates)}
            if model.startswith("zipf"):
                bound = least_unwanted(members, 14, 5, max(2, groups // 100))
                yield {"size": size, "model": model, "plan": "bound", "unwanted_if_equal": bound}


def draw(rows: list[Row], path: Path) -> None:
    """Draw what a plan saves in packets against what it costs in unwanted traffic."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    sizes = list(dict.fromkeys(row["size"] for row in rows))
    figure, axes = plt.subplots(
        1, len(sizes), figsize=(4.6 * len(sizes), 4.6), layout="constrained", sharey=True
    )
    colours = dict(
        zip(MODELS, ("#2f5d8a", "#c4652a", "#5a8f4e", "#8a5a9e", "#777777"), strict=True)
    )
    for at, (size, panel) in enumerate(
        zip(sizes, [axes] if len(sizes) == 1 else axes, strict=True)
    ):
        panel.axhspan(0.8, 5, color="#e3ecf5", zorder=0)
        for row in rows:
            if row["size"] != size or "regions_per_message" not in row:
                continue
            steered = row["plan"].endswith("traffic")
            strict = not row["plan"].startswith("merged")
            panel.plot(
                100 * row["unwanted"],
                row["regions_per_message"],
                "s" if strict else "o",
                color=colours[row["model"]],
                markerfacecolor=colours[row["model"]] if steered else "white",
                markersize=7,
            )
        panel.set_yscale("log")
        panel.set_xlim(-3, 100)
        panel.set_title(size.replace("x", " nodes × ") + " groups", fontsize=10)
        panel.set_xlabel("received but not wanted, % of the traffic")
        panel.spines[["top", "right"]].set_visible(False)
        if at == 0:
            panel.set_ylabel("regions that a message is sent to, mean")
    marks = [
        Line2D([], [], marker="o", ls="", color=colours[m], label=m)
        for m in dict.fromkeys(row["model"] for row in rows)
    ]
    shapes = [
        ("o", "#333333", "merged, for the traffic"),
        ("o", "white", "merged"),
        ("s", "white", "perfect, regular"),
    ]
    marks += [
        Line2D([], [], marker=mark, ls="", color="#333333", markerfacecolor=fill, label=text)
        for mark, fill, text in shapes
    ]
    figure.legend(
        handles=marks, frameon=False, ncols=len(marks), loc="outside lower center", fontsize=9
    )
    figure.suptitle("Shaded: at most five regions a message, as the papers report", fontsize=10)
    figure.savefig(path)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="250x1000", help="nodes x groups, by commas")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--plans", default=PLANS)
    parser.add_argument("--rows", type=Path, help="draw these rows (JSON lines) as well")
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows: list[Row] = []
    if given.rows is not None:
        rows += [json.loads(line) for line in given.rows.read_text().splitlines()]
    for row in run(given) if given.sizes else ():
        rows.append(row)
        cells = json.dumps(row) if given.json else " | ".join(map(str, row.values()))
        print(cells, flush=True)
    if given.figure is not None:
        draw(rows, given.figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
