"""A record of every node's totals and levels each second of virtual time."""

from __future__ import annotations

from quicksilver.trace.records import NodeSampled, Tracer
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode

SAMPLE_S = 1.0
NODES_MAX = 256
"""Of larger clusters the first so many nodes are sampled, which include the senders."""


def sample(node: SimNode, tracer: Tracer, now: float) -> None:
    """Give the tracer one node's sample."""
    engine, host = node.engine, node.host.counters
    counters, scheduler = engine.counters, node.host.turn.scheduler
    levels = engine.stats()
    tracer(
        NodeSampled(
            now,
            node.id,
            wall_s=now,
            sent_messages=counters.sent_messages,
            sent_bytes=counters.sent_bytes,
            delivered_messages=sum(node.delivered.values()),
            delivered_bytes=counters.delivered_bytes,
            missing=counters.missing,
            repairs_received=counters.repairs_received,
            repairs_sent=counters.repairs_sent,
            resent=counters.resent,
            duplicates=counters.duplicates,
            kernel_drops=host.receive_drops,
            pending_bytes=int(levels["pending_bytes"]),
            queued_bytes=int(levels["queued_bytes"]),
            memory_bytes=node.memory_bytes(),
            cpu_s=host.busy_s,
            alarm_delay_s=scheduler.alarm_delay_s_max,
            inversion_s=scheduler.inversion_s_max,
        )
    )
    scheduler.alarm_delay_s_max = scheduler.inversion_s_max = 0.0
    for record in engine.take_groups(now):
        tracer(record)


def sample_cluster(cluster: Cluster, tracer: Tracer) -> None:
    """Sample all living nodes again and again, from now on.

    Sampling changes nothing: the run and its digest are the same without it.
    """

    def look() -> None:
        cluster.events.after(SAMPLE_S, look)
        for node in cluster.nodes[:NODES_MAX]:
            if not node.is_dead and node.id:
                sample(node, tracer, cluster.now)

    cluster.events.after(SAMPLE_S, look)
