"""What a GMS tells a tool that looks at it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from heapq import nsmallest
from typing import Protocol

from quicksilver.membership.planning.model import Planner
from quicksilver.membership.tables import NodeRow, Tables
from quicksilver.wire import gms
from quicksilver.wire.ids import GroupId

HYBRID_MAX = 100
"""Groups with an address of their own that are listed."""


class NodeHealth(Protocol):
    """How a node is doing, as the service watches it."""

    row: NodeRow
    conn: int | None
    heard_at: float
    stats: dict[str, int | float | str]


class SnapshotMaker:
    """Makes snapshots; what the plan costs takes long to add up, so that is done rarely."""

    def __init__(
        self, cluster: int, tables: Tables, planner: Planner, plan_cost_interval_s: float
    ) -> None:
        self._cluster = cluster
        self._tables = tables
        self._planner = planner
        self._plan_cost_interval_s = plan_cost_interval_s
        self._cost: dict[str, float] = {}
        self._cost_batch = -1
        self._cost_at = float("-inf")

    def make(
        self,
        request: int,
        nodes: Iterable[NodeHealth],
        now: float,
        *,
        held_s: float,
        counters: dict[str, int],
    ) -> gms.Snapshot:
        """Answer an Inspect."""
        tables = self._tables
        return gms.Snapshot(
            request,
            self._cluster,
            tables.batch,
            self._planner.name,
            len(tables.groups),
            self._fresh_cost(now),
            tuple(
                gms.NodeStatus(
                    node.row.id,
                    node.row.name,
                    node.row.ip,
                    node.row.port,
                    node.conn is not None,
                    len(node.row.joined),
                    max(now - node.heard_at, 0.0),
                    node.stats,
                )
                for node in sorted(nodes, key=_node_id)
            ),
            tuple(
                gms.RegionStatus(
                    row.id, row.view, row.address, len(row.member_ids), len(row.groups)
                )
                for _, row in sorted(tables.regions.items())
            ),
            held_s,
            counters,
            tuple(self._hybrid(group) for group in nsmallest(HYBRID_MAX, tables.hybrid_groups)),
        )

    def _hybrid(self, group: GroupId) -> gms.HybridStatus:
        row = self._tables.groups[group]
        address, is_used = self._tables.hybrid_of(row)
        return gms.HybridStatus(
            row.name, address, row.members.bit_count(), len(row.regions), is_used
        )

    def _fresh_cost(self, now: float) -> dict[str, float]:
        stale = self._cost_batch != self._tables.batch
        if stale and now - self._cost_at >= self._plan_cost_interval_s:
            cost = asdict(self._planner.cost())
            self._cost = {key: float(value) for key, value in cost.items()}
            self._cost["addresses_shared"] = float(self._tables.pool.shared)
            self._cost_batch = self._tables.batch
            self._cost_at = now
        return self._cost


def _node_id(node: NodeHealth) -> int:
    return node.row.id
