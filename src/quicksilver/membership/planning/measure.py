"""What planning costs and how good its plans are, for one workload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from statistics import median

from quicksilver.membership.planning import make_planner
from quicksilver.membership.planning.check import check_plan
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.membership.planning.workload import ZipfDraw, zipf_memberships
from quicksilver.stdx.rand import Rng
from quicksilver.wire.ids import NodeId

_JOINS = 5


def measure_plan(
    nodes: int,
    groups: int,
    fraction: float,
    alpha: float,
    planner: str,
    seed: int,
    *,
    clock: Callable[[], float],
    memory_bytes: Callable[[], int] | None = None,
    limits: PlanLimits | None = None,
) -> dict[str, float | int | str]:
    """Plan a Zipf workload, let a few more nodes join, and report.

    ``clock`` returns seconds; ``memory_bytes`` the peak memory of the process
    so far. The plan is checked before the numbers are returned.
    """
    limits = limits or PlanLimits()
    members = zipf_memberships(nodes, groups, fraction, alpha, seed)
    made = make_planner(planner, limits)
    started = clock()
    made.apply(members)
    plan_s = clock() - started
    cost = made.cost()
    draw = ZipfDraw(groups, max(1, round(groups * fraction)), alpha)
    rng = Rng(seed).derive("joins")
    joins_s: list[float] = []
    moved: list[int] = []
    for node in range(nodes + 1, nodes + 1 + _JOINS):
        wanted = draw.sample(rng)
        members[NodeId(node)] = wanted
        started = clock()
        delta = made.apply({NodeId(node): wanted})
        joins_s.append(clock() - started)
        moved.append(len(delta.regions) + len(delta.regions_gone))
    check_plan(members, made.state(), limits)
    numbers: dict[str, float | int | str] = {
        "planner": planner,
        "plan_s": plan_s,
        "join_s": median(joins_s),
        "join_regions_changed": median(moved),
    }
    if memory_bytes is not None:
        numbers["memory_bytes"] = memory_bytes()
    numbers.update(asdict(cost))
    return numbers
