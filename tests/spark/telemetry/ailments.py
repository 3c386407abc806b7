"""Simulated runs, one healthy and others with one thing wrong, and their traces.

Three groups of four receivers and a sender each, which makes three regions; a message of
1000 bytes is a packet.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from quicksilver.multicast.config import EngineConfig
from quicksilver.sim.model import HostModel
from quicksilver.trace.parquet import ParquetTrace
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.faults import AnyFault, Loss, Partition, Sleeps, Slowness, schedule
from quicksilver.trials.node import SimNode
from quicksilver.trials.samples import sample_cluster

GROUPS = ("a", "b", "c")
RECEIVERS = 4
SECONDS = 40.0
TICK_S = 0.02
EVEN: Mapping[str, int] = dict.fromkeys(GROUPS, 6)
"""Messages that go to each group at a tick."""

# Receivers of a are nodes 0 to 3, of b 4 to 7, of c 8 to 11.
FAULTS: Mapping[str, tuple[AnyFault, ...]] = {
    "healthy": (),
    "lossy": tuple(Loss(at=2.0, for_s=SECONDS, node=node, rate=0.01) for node in range(12)),
    "sleeper": (Sleeps(at=5.0, for_s=30.0, node=1, sleep_s=0.5, every_s=2.0),),
    "convoy": (Sleeps(at=5.0, for_s=30.0, node=1, sleep_s=2.5, every_s=6.0),),
    "overload": (Slowness(at=5.0, for_s=25.0, node=5, factor=300.0),),
    "hot": (),
    "partition": (Partition(at=10.0, for_s=15.0, island=(8, 9)),),
}


def run(folder: Path, name: str, seconds: float = SECONDS) -> Cluster:
    """Simulate one of ``FAULTS`` and write its trace."""
    loads = dict(EVEN)
    config = EngineConfig(packet_bytes=1400)
    if name == "hot":
        loads["b"] = 40
    if name == "convoy":
        config = EngineConfig(packet_bytes=1400, window_bytes_max=200_000)
    with ParquetTrace(folder, name, "sim", waits=True) as trace:
        model = HostModel(nic_bytes_per_s=2e6) if name == "hot" else HostModel()
        cluster = Cluster(seed=5, config=config, model=model, tracer=trace)
        sample_cluster(cluster, trace)
        cluster.start(RECEIVERS * len(GROUPS))
        for place, group in enumerate(GROUPS):
            for node in cluster.nodes[RECEIVERS * place : RECEIVERS * (place + 1)]:
                node.join(group)
        senders = dict(zip(GROUPS, cluster.start(len(GROUPS)), strict=True))
        for group, sender in senders.items():
            sender.open(group)
        cluster.settle()
        schedule(cluster, FAULTS[name], seconds)
        for group, sender in senders.items():
            cluster.every(TICK_S, partial(_send, sender, group, loads[group]), seconds - 3.0)
        cluster.run(seconds)
    return cluster


def _send(node: SimNode, group: str, count: int) -> None:
    if group in node.ready and not node.is_dead:
        node.send(group, *[b"x" * 1000] * count)
