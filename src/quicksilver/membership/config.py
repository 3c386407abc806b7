"""How one GMS behaves; nodes need not agree on any of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """Timing and limits of a membership service."""

    batch_interval_s: float = 0.02
    """How long changes are collected before they become views. Longer: fewer
    views under churn; shorter: joins complete sooner."""

    disconnect_grace_s: float = 0.5
    """How long a node whose connection broke without a Goodbye may take to
    resume. Longer: crashes are noticed later; shorter: a lost connection of a
    healthy node costs it its place."""

    resume_grace_s: float = 3.0
    """How long after a restart stored nodes may take to resume."""

    greeting_timeout_s: float = 5.0
    """A connection that has not said Hello or asked for a Snapshot is closed."""

    inspect_idle_s: float = 60.0
    """A connection that only asks for Snapshots, and has stopped, is closed."""

    plan_cost_interval_s: float = 5.0
    """Least time between two computations of what the plan costs."""

    adapt_interval_s: float = 10.0
    """How often the plan of regions is compared with one for the traffic that nodes tell
    of; 0: never. A plan that costs a fifth less is adopted, and its nodes move. Plans
    of more than 600 nodes or 100,000 memberships take too long for that."""

    connections_max: int = 10_000
    nodes_max: int = 10_000
    groups_max: int = 1_000_000
    groups_per_node_max: int = 100_000
    groups_per_request_max: int = 10_000
    """Names in one Subscribe; beyond any of these limits a node is refused."""

    output_bytes_max: int = 128 << 20
    """Bytes waiting for one connection that cannot take them; a node that is
    further behind is excluded. Must hold two complete updates."""

    hybrid_groups: frozenset[str] = frozenset()
    """Names of groups that get a multicast address of their own."""
