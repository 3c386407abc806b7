"""Membership alone: thousands of nodes at one GMS."""

from __future__ import annotations

import time
from collections.abc import Sequence

from quicksilver.core.ports import FrameTransmit
from quicksilver.experiments.base import (
    Column,
    Context,
    Experiment,
    ExperimentError,
    Finding,
    Metrics,
    Point,
    Row,
)
from quicksilver.experiments.scenario import simulating
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.service import MembershipService
from quicksilver.trials.cluster import Cluster

STEP_S = 0.05
JOIN_S_MAX = 300.0


class Members(Experiment):
    """Nodes join, some crash, some change groups; nobody sends."""

    name = "members"
    figures = "sections 4.2.1, 4.3.7"
    title = "nodes at the GMS"
    varies = "nodes"
    claims = {
        "section 4.2.1": "One GMS is enough for all; the papers batch changes so that a thousand "
        "joins do not become a thousand views, and measured up to 200 nodes",
    }
    sweep = {"nodes": (100, 1000, 10_000)}
    quick = {"nodes": (50, 200)}
    settings = {"group_size": 100, "crashes": 10, "batch_interval": 0.02}
    columns = (
        Column("join_s", "all joined, s", "{:.2f}"),
        Column("batches", "batches"),
        Column("gms_bytes", "GMS sent, MB", "{:.1f}", 1e-6),
        Column("crash_view_s", "crashes out, s", "{:.2f}"),
        Column("wall_s", "wall, s", "{:.1f}"),
        Column("gms_wall_s", "GMS, s", "{:.1f}"),
        Column("node_seconds_per_second", "node s/s", "{:,.0f}"),
    )

    def run(self, point: Point, context: Context) -> Metrics:
        with simulating():
            return _measure(point, context)

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        return [
            Finding(
                f"{row['nodes']:,} nodes joined, {row['crashes']} crashes left the views",
                f"{row['join_s']:.2f} s in {row['batches']} batches; {row['crash_view_s']:.2f} s",
                True,
            )
            for row in sorted(rows, key=lambda row: row["nodes"])
        ]


class _MeteredService(MembershipService):
    """A GMS that measures its batches' time and counts the bytes that it sends."""

    wall_s = 0.0
    sent_bytes = 0

    def handle_timeout(self, now: float) -> None:
        before = time.perf_counter()
        super().handle_timeout(now)
        self.wall_s += time.perf_counter() - before

    def poll_transmit(self) -> FrameTransmit | None:
        transmit = super().poll_transmit()
        if transmit is not None:
            self.sent_bytes += len(transmit.frame)
        return transmit


def _measure(point: Point, context: Context) -> Metrics:
    nodes = int(point.parameters["nodes"])
    size = int(point.parameters["group_size"])
    crashes = int(point.parameters["crashes"])
    started = time.perf_counter()
    cluster = Cluster(
        seed=context.seed,
        gms_config=ServiceConfig(
            batch_interval_s=float(point.parameters["batch_interval"]),
            nodes_max=max(10_000, nodes + 1),
            connections_max=max(10_000, nodes + 1),
        ),
        make_service=_MeteredService,
    )
    service = cluster.gms.service
    assert isinstance(service, _MeteredService)
    members = cluster.start(nodes)
    for place, node in enumerate(members):
        node.join(f"g{place // size}")
    _wait(cluster, cluster.is_settled, "join")
    joined_s = cluster.now
    batches = members[0].session.directory.batch
    crashed = members[:: max(1, nodes // max(1, crashes))][:crashes]
    gone = [node.id for node in crashed]
    for node in crashed:
        node.crash()
    began = cluster.now
    neighbours = [members[node.index ^ 1] for node in crashed if node.index ^ 1 < nodes]

    def is_noticed() -> bool:
        views = [view for n in neighbours for view in n.session.directory.groups.values()]
        return not any(number in view.members for number in gone for view in views)

    _wait(cluster, is_noticed, "notice the crashes")
    wall_s = time.perf_counter() - started
    return {
        "join_s": joined_s,
        "batches": batches,
        "gms_bytes": service.sent_bytes,
        "crash_view_s": cluster.now - began,
        "simulated_s": cluster.now,
        "wall_s": wall_s,
        "gms_wall_s": service.wall_s,
        "events": cluster.events.happened,
        "node_seconds_per_second": nodes * cluster.now / wall_s,
    }


def _wait(cluster: Cluster, until: object, what: str) -> None:
    assert callable(until)
    end = cluster.now + JOIN_S_MAX
    while not until():
        if cluster.now > end:
            raise ExperimentError(f"the nodes did not {what} within {JOIN_S_MAX:.0f} s")
        cluster.run(STEP_S)
