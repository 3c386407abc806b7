"""What a GMS tells a tool that looks at it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Protocol

from quicksilver.membership.planning.model import Planner
from quicksilver.membership.tables import NodeRow, Tables
from quicksilver.wire import gms


class NodeHealth(Protocol):
    """How a node is doing, as the service watches it."""

    row: NodeRow
    conn: int | None
    heard_at: float
    stats: dict[str, int | float | str]


class SnapshotMaker:
    """Makes snapshots; the plan's report, which may be costly, is made rarely."""

    def __init__(
        self, cluster: int, tables: Tables, planner: Planner, report_interval_s: float
    ) -> None:
        self._cluster = cluster
        self._tables = tables
        self._planner = planner
        self._report_interval_s = report_interval_s
        self._report: dict[str, float] = {}
        self._report_batch = -1
        self._report_at = float("-inf")

    def make(self, request: int, nodes: Iterable[NodeHealth], now: float) -> gms.Snapshot:
        """Answer an Inspect."""
        tables = self._tables
        return gms.Snapshot(
            request,
            self._cluster,
            tables.batch,
            self._planner.name,
            len(tables.groups),
            self._fresh_report(now),
            tuple(
                gms.NodeStatus(
                    node.row.id,
                    node.row.name,
                    node.row.host,
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
        )

    def _fresh_report(self, now: float) -> dict[str, float]:
        stale = self._report_batch != self._tables.batch
        if stale and now - self._report_at >= self._report_interval_s:
            report = asdict(self._planner.report())
            self._report = {key: float(value) for key, value in report.items()}
            self._report["addresses_shared"] = float(self._tables.pool.shared)
            self._report_batch = self._tables.batch
            self._report_at = now
        return self._report


def _node_id(node: NodeHealth) -> int:
    return node.row.id
