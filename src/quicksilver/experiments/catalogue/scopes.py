"""What a manager, an agent and a message cost in trees of scopes, and under one flat GMS."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from statistics import fmean

from quicksilver.experiments.base import (
    Column,
    Context,
    Experiment,
    Finding,
    Metrics,
    Point,
    Row,
    Value,
    choose,
)
from quicksilver.experiments.scenario import simulating
from quicksilver.scopes.management.config import Config
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.gms import Client
from quicksilver.trials.scopes.cluster import NodeLife, ScopeCluster
from quicksilver.trials.scopes.plan import NodePlan, Plan, ScopePlan

TOPIC = "r/all"
SETTLE_S = 4.0
"""How long the tree has to come together."""

WHOLE_LEVELS = 3
"""With more levels than this, the lowest networks are modelled by one node each."""


class Scopes(Experiment):
    """3.2.10 and 3.2.14: management and recovery whose cost depends on a scope, not on the whole.

    With four levels the lowest networks have no manager here, and one node each that stands for
    all of theirs: the node that would host the network's agent. It runs the same agents as any
    other. One network is simulated in full.
    """

    name = "scopes"
    figures = "–"
    title = "trees of scopes"
    varies = "levels of the tree; a tree or one flat GMS"
    claims = {
        "–": "A join or a crash is handled in the scope where it happens, so that cost and state "
        "of managers do not depend on the size of the whole; latency grows with the depth"
    }
    sweep = {"levels": (1, 2, 3, 4), "kind": ("scopes", "flat")}
    quick = {"levels": (1, 2), "kind": ("scopes", "flat")}
    settings = {"fan_out": 18, "churn": 0.01, "seconds": 3.0, "flat_nodes_max": 1000}
    quick_settings = {"fan_out": 4, "churn": 0.1, "seconds": 2.0}
    columns = (
        Column("nodes", "nodes"),
        Column("simulated_nodes", "simulated"),
        Column("spread_ms", "spread, ms", "{:.1f}"),
        Column("stable_ms", "stable, ms", "{:.0f}"),
        Column("busiest_messages_per_second", "busiest manager, messages/s", "{:.1f}"),
        Column("busiest_kb_per_second", "kB/s", "{:.1f}"),
        Column("top_messages_per_second", "top manager, messages/s", "{:.1f}"),
        Column("records_max", "records of a manager"),
        Column("agent_bytes_max", "longest agent message, B"),
        Column("total_wall_s", "wall, s", "{:.0f}"),
    )

    def skips(self, parameters: Mapping[str, Value]) -> bool:
        nodes = int(parameters["fan_out"]) ** int(parameters["levels"])
        return parameters["kind"] == "flat" and nodes > int(parameters["flat_nodes_max"])

    def run(self, point: Point, context: Context) -> Metrics:
        started = time.perf_counter()
        with simulating():
            run = _run_flat if point.parameters["kind"] == "flat" else _run_scopes
            metrics = run(point.parameters, context.seed)
        return metrics | {"total_wall_s": time.perf_counter() - started}

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        found = []
        trees = sorted(choose(rows, kind="scopes"), key=lambda row: row["nodes"])
        if len(trees) > 1:
            first, last = trees[0], trees[-1]
            for name, what in (
                ("records_max", "records of a manager"),
                ("agent_bytes_max", "longest message of an agent, in bytes"),
            ):
                # The lowest scopes have members only, the others also an owner.
                holds = last[name] <= 3 * max(1, first[name])
                measured = f"{first[name]:,.0f}, {last[name]:,.0f}"
                sizes = f"{first['nodes']:,} and {last['nodes']:,} nodes"
                found.append(Finding(f"{what}, {sizes}", measured, holds))
            tops = [row for row in trees if row["levels"] > 1]
            if tops:
                most = max(row["top_messages_per_second"] for row in tops)
                found.append(
                    Finding(
                        "churn inside of networks is no news at the top",
                        f"{most:.2f} messages/s of the top manager",
                        most == 0.0,
                    )
                )
        for flat in sorted(choose(rows, kind="flat"), key=lambda row: row["nodes"]):
            tree = choose(trees, levels=flat["levels"])
            if tree and tree[0]["busiest_kb_per_second"]:
                ratio = flat["busiest_kb_per_second"] / tree[0]["busiest_kb_per_second"]
                what = f"what the GMS says, against the busiest manager, {flat['nodes']:,} nodes"
                found.append(Finding(what, f"{ratio:.1f} times the bytes"))
        return found


def make_plan(levels: int, fan_out: int, seed: int) -> tuple[Plan, int]:
    """Return a tree, and how many nodes it stands for."""
    scopes = [ScopePlan(name="r", policy="tree:4", recovery="tree:4", network="r")]
    level = ["r"]
    is_whole = levels <= WHOLE_LEVELS
    for _ in range(levels - 1 if is_whole else levels - 2):
        below = [f"{owner}/{place}" for owner in level for place in range(fan_out)]
        owners = [owner for owner in level for _ in range(fan_out)]
        for name, owner in zip(below, owners, strict=True):
            scopes.append(_scope(name, owner))
        level = below
    nodes: list[NodePlan] = []
    for owner in level:
        for place in range(fan_out):
            name = f"{owner}/x{place}"
            if not is_whole and not nodes:
                # The one network that has a manager and all of its nodes.
                scopes.append(_scope(name, owner))
                nodes += [_node(f"{name}/x{i}", name, sends=i == 0) for i in range(fan_out)]
            else:
                nodes.append(_node(name, owner, sends=not nodes))
    plan = Plan(
        seed=seed, scopes=tuple(scopes), nodes=tuple(nodes), faults=(), seconds=1.0,
        interval_s=1.0, burst=1, sizes=(100,),
    )  # fmt: skip
    return plan, fan_out**levels


def _scope(name: str, owner: str) -> ScopePlan:
    return ScopePlan(name=name, owners=(owner,), policy="tree:4", recovery="tree:4", network=name)


def _node(name: str, owner: str, *, sends: bool) -> NodePlan:
    return NodePlan(name=name, owner=owner, joins=(TOPIC,), opens=(TOPIC,) if sends else ())


def _run_scopes(given: Mapping[str, Value], seed: int) -> Metrics:
    levels, fan_out = int(given["levels"]), int(given["fan_out"])
    plan, count = make_plan(levels, fan_out, seed)
    cluster = ScopeCluster(plan, config=Config(alive_s=0.5, silent_s=3.0))
    cluster.start()
    cluster.events.run(SETTLE_S)
    publisher = cluster.nodes[plan.nodes[0].name]
    spread_s, stable_s = _time_message(cluster, publisher)
    before = {name: (m.spoken, m.spoken_bytes) for name, (_, m) in cluster.managers.items()}
    seconds = float(given["seconds"])
    changes = _churn(cluster, float(given["churn"]), seconds, levels)
    cluster.events.run(seconds)
    said = {
        name: (m.spoken - before[name][0], m.spoken_bytes - before[name][1])
        for name, (_, m) in cluster.managers.items()
    }
    busiest = max(said.values())
    return {
        "nodes": count,
        "simulated_nodes": len(plan.nodes),
        "managers": len(plan.scopes),
        "spread_ms": 1e3 * spread_s,
        "stable_ms": 1e3 * stable_s,
        "changes": changes,
        "busiest_messages_per_second": busiest[0] / seconds,
        "busiest_kb_per_second": max(size for _, size in said.values()) / seconds / 1e3,
        "mean_messages_per_second": fmean(number for number, _ in said.values()) / seconds,
        "top_messages_per_second": said["r"][0] / seconds,
        "records_max": max(len(saved) for saved in cluster.saved.values()),
        "agent_bytes_max": max(node.machine.agent_bytes_max for node in cluster.lives),
    }


def _time_message(cluster: ScopeCluster, publisher: NodeLife) -> tuple[float, float]:
    """Send a message; return after how long all have it, and its sender knows that they have."""
    begun, wanted = cluster.now, cluster.delivered + len(cluster.nodes) - 1
    cluster.publish(publisher, TOPIC, [bytes(100)])

    def is_everywhere() -> bool:
        return cluster.delivered >= wanted

    spread = cluster.events.run(10.0, is_everywhere)
    spread_s = cluster.now - begun
    number = publisher.forwarder.flush_mark(TOPIC)
    stable = cluster.events.run(20.0, lambda: publisher.forwarder.is_stable(TOPIC, number))
    assert spread, "a message did not reach all nodes within 10 s"
    assert stable, "a message did not become stable within 20 s"
    return spread_s, cluster.now - begun


def _churn(cluster: ScopeCluster, part: float, seconds: float, levels: int) -> int:
    """Let nodes crash, and start again at once, at a steady rate; return how often.

    Networks that one node stands for do not change: inside of them nobody is simulated.
    """
    owner = cluster.plan.nodes[0].owner
    nodes = cluster.plan.nodes[1:]
    if levels > WHOLE_LEVELS:
        nodes = tuple(node for node in nodes if node.owner == owner)
    changes = max(1, round(part * len(nodes) * seconds))
    rng = cluster.rng.derive("churn")

    def change() -> None:
        name = rng.choice(nodes).name
        cluster.crash_node(name)
        cluster.start_node(name)

    for place in range(changes):
        cluster.events.after(seconds * (place + 0.5) / changes, change)
    return changes


def _run_flat(given: Mapping[str, Value], seed: int) -> Metrics:
    """The same churn in one group under one GMS."""
    count = int(given["fan_out"]) ** int(given["levels"])
    seconds, part = float(given["seconds"]), float(given["churn"])
    cluster = Cluster(seed=seed)
    nodes = cluster.start(count)
    for node in nodes:
        node.join("all")
    cluster.settle()
    said = [0, 0]

    def count_frame(_: Client, frame: bytes) -> None:
        said[0] += 1
        said[1] += len(frame)

    cluster.gms.taps.append(count_frame)
    changes = max(1, round(part * count * seconds))
    rng = cluster.rng.derive("churn")

    def change() -> None:
        index = rng.below(count)
        cluster.nodes[index].crash()
        cluster.restart(index).join("all")

    for place in range(changes):
        cluster.events.after(seconds * (place + 0.5) / changes, change)
    cluster.run(seconds)
    return {
        "nodes": count,
        "simulated_nodes": count,
        "changes": changes,
        "busiest_messages_per_second": said[0] / seconds,
        "busiest_kb_per_second": said[1] / seconds / 1e3,
    }
