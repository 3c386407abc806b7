"""How one GMS behaves; nodes need not agree on any of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceConfig:
    """Timing and limits of a membership service."""

    batch_interval_s: float = 0.02
    """How long changes are collected before they become views. Longer: fewer
    views under churn; shorter: joins complete sooner."""

    join_wait_s: float = 1.0
    """How long a join may wait for a node that can send to the group and has not confirmed
    the view with the new member. Longer: joins wait longer for nodes that hang; shorter:
    what a slow node sends right after a join may miss the new member."""

    disconnect_grace_s: float = 0.5
    """How long a node whose connection broke without a Goodbye may take to
    resume. Longer: crashes are noticed later; shorter: a lost connection of a
    healthy node costs it its place."""

    resume_grace_s: float = 3.0
    """How long after a restart stored nodes may take to resume. Until all have, or this time is
    over, views do not change: joins and leaves wait."""

    silence_s_max: float = 30.0
    """While most nodes are silent the GMS suspects its own link and excludes nobody;
    whoever is silent for this long is excluded all the same. Longer: a longer cut of
    the GMS costs nobody its place; shorter: machines that died together are cleaned
    up sooner. Never less than the failure timeout."""

    any_address: bool = False
    """Let nodes announce addresses that their connections do not come from: for nodes
    that reach the GMS through one interface, or a translator, and each other through
    another. A stranger can then direct a cluster's traffic at somebody else."""

    greeting_timeout_s: float = 5.0
    """A connection that has not said Hello or asked for a Snapshot is closed."""

    inspect_idle_s: float = 60.0
    """A connection that only asks for Snapshots, and has stopped, is closed."""

    plan_cost_interval_s: float = 5.0
    """Least time between two computations of what the plan costs."""

    adapt_interval_s: float = 10.0
    """How often the plan of regions is compared with one for the traffic that nodes tell
    of; 0: never. A plan that costs a fifth less is adopted, and its nodes move. Plans
    of more than 2,000 nodes or 200,000 memberships take too long for that."""

    connections_max: int = 10_000
    greeting_connections_max: int = 256
    """Connections that have said nothing yet; of more, the oldest is closed."""
    inspecting_connections_max: int = 64
    """Connections of tools that only look."""
    inspect_rows_per_s: int = 20_000
    """Nodes and regions that snapshots may list in a second, about a fifth of a
    processor; tools wait for each other."""

    nodes_max: int = 10_000
    groups_max: int = 1_000_000
    groups_per_node_max: int = 100_000
    memberships_max: int = 10_000_000
    """Groups joined or opened, over all nodes."""
    groups_per_request_max: int = 10_000
    """Names in one Subscribe; beyond any of these limits a node is refused."""

    patterns_per_node_max: int = 1_000
    patterns_max: int = 100_000
    """Patterns that nodes subscribe to, each and together. Of the groups that they stand
    for, nodes are in as many as ``groups_per_node_max``, ``group_bytes_per_node_max`` and
    ``memberships_max`` leave room for; groups that are joined or opened by name come first."""

    group_bytes_max: int = 1 << 30
    """Memory for groups in all, by the estimate of ``tables.group_bytes``: 2 KB and
    three times the name each."""
    group_bytes_per_node_max: int = 256 << 20
    """The same for the groups that one node joined or opened, shared ones included."""

    request_bytes_max: int = 64 << 20
    """Bytes of requests that wait for the next batch; connections whose requests come
    on top of that are closed, and their nodes ask again."""

    input_bytes_max: int = 64 << 20
    """Bytes of frames that have not arrived completely, over all connections; past it
    the connection that holds most of them is closed."""

    output_bytes_max: int = 128 << 20
    """Bytes waiting for one connection that cannot take them; a node that is
    further behind is excluded. Must hold two complete updates."""

    output_bytes_total_max: int = 512 << 20
    """The same over all connections; past it the one that is furthest behind goes."""

    hybrid: Literal["auto", "off"] | frozenset[str] = "auto"
    """Which groups over several regions have a multicast address of their own, so that one
    packet reaches all of them. ``auto``: those for which it pays, by the traffic of late,
    every ``adapt_interval_s``; names: these, always; ``off``: none."""

    hybrid_gain_min: float = 1.0
    """With ``auto``: packets a second that an address must save, for each member; half of
    it is enough to keep it. Less: fewer packets, and more memberships."""

    memberships_per_node_max: int = 20
    """With ``auto``: regions and groups' own addresses that one node listens at. Linux
    allows a socket 20 by default; nodes open another one for more."""
