"""A record of every node's totals and levels each second of virtual time."""

from __future__ import annotations

from quicksilver.multicast.samples import sample
from quicksilver.trace.records import Tracer
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode

SAMPLE_S = 1.0
NODES_MAX = 256
"""Of larger clusters the first so many nodes are sampled, which include the senders."""


def sample_node(node: SimNode, tracer: Tracer, now: float) -> None:
    """Give the tracer one node's sample."""
    host = node.host
    memory_bytes, cpu_s = node.memory_bytes(), host.counters.busy_s
    scheduler = host.turn.scheduler
    sample(node.engine, scheduler, tracer, now, wall_s=now, memory_bytes=memory_bytes, cpu_s=cpu_s)


def sample_cluster(cluster: Cluster, tracer: Tracer) -> None:
    """Sample all living nodes again and again, from now on.

    Sampling changes nothing: the run and its digest are the same without it.
    """

    def look() -> None:
        cluster.events.after(SAMPLE_S, look)
        for node in cluster.nodes[:NODES_MAX]:
            if not node.is_dead and node.id:
                sample_node(node, tracer, cluster.now)

    cluster.events.after(SAMPLE_S, look)
