"""What a GMS tells a tool that looks at it."""

from __future__ import annotations

from dataclasses import asdict
from heapq import nsmallest

from quicksilver.membership.counters import ServiceCounters
from quicksilver.membership.health import Watch
from quicksilver.membership.planning.model import Planner
from quicksilver.membership.tables import Tables
from quicksilver.membership.watching import Watches
from quicksilver.wire import gms
from quicksilver.wire.ids import GroupId

HYBRID_MAX = 100
"""Groups with an address of their own that are listed."""


class SnapshotMaker:
    """Makes snapshots; what the plan costs takes long to add up, so that is done rarely."""

    def __init__(
        self,
        cluster: int,
        tables: Tables,
        planner: Planner,
        counters: ServiceCounters,
        plan_cost_interval_s: float,
    ) -> None:
        self._cluster = cluster
        self._tables = tables
        self._planner = planner
        self._counters = counters
        self._plan_cost_interval_s = plan_cost_interval_s
        self._cost: dict[str, float] = {}
        self._cost_batch = -1
        self._cost_at = float("-inf")

    def rows(self, watches: Watches) -> int:
        """Return how many rows a snapshot would list now."""
        tables = self._tables
        return len(watches.nodes) + len(tables.regions) + len(tables.hybrid_groups)

    def make(self, request: int, watches: Watches, now: float) -> bytes:
        """Answer an Inspect."""
        return gms.encode(self._snapshot(request, watches, now))

    def _snapshot(self, request: int, watches: Watches, now: float) -> gms.Snapshot:
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
                for node in sorted(watches.nodes.values(), key=_node_id)
            ),
            tuple(
                gms.RegionStatus(
                    row.id, row.view, row.address, len(row.member_ids), len(row.groups)
                )
                for _, row in sorted(tables.regions.items())
            ),
            watches.held_s(now),
            asdict(self._counters),
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


def _node_id(node: Watch) -> int:
    return node.row.id
