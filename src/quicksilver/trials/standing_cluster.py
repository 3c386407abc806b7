"""Clusters whose membership stands from the start: everybody knows everybody.

A node's own picture of a cluster of thousands is a megabyte, and with the GMS's updates to
all of them a simulation of 20,000 nodes would need hundreds of gigabytes. Where nobody
comes or goes, one directory serves all nodes; what they say to each other is the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.membership.directory import Directory, Misfit
from quicksilver.membership.events import ViewsChanged, Welcomed
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.wire import gms
from quicksilver.wire.ids import NodeId

CLUSTER = 1
REGION, GROUP = 1, 1
ADDRESS = "239.192.0.1"


def make_standing(cluster: Cluster, group: str, count: int) -> list[SimNode]:
    """Start so many nodes that are in one group from the first moment.

    The cluster must have been made with ``stands=True``: its GMS is not asked.
    """
    nodes = cluster.start(count)
    numbers = tuple(range(1, count + 1))
    directory = Directory()
    change = directory.apply(
        gms.Update(
            batch=1,
            nodes=tuple(
                gms.NodeInfo(number, f"n{number}", *node.address)
                for number, node in zip(numbers, nodes, strict=True)
            ),
            regions=(gms.RegionChange(REGION, 1, 0, ADDRESS, joined=numbers),),
            groups=(gms.GroupChange(GROUP, group, 1, 0, ((REGION, 1),), joined=numbers),),
        )
    )
    assert not isinstance(change, Misfit), change.reason
    views = ViewsChanged(change.regions, change.groups, (), (), ())
    for number, node in zip(numbers, nodes, strict=True):
        welcome = Welcomed(NodeId(number), CLUSTER, cluster.gms.settings, resumed=False)
        node.become_standing(directory, (welcome, views), group)
    return nodes


def settle(cluster: Cluster, nodes: Sequence[SimNode]) -> None:
    """Run until every node can send to the group."""
    while not all(node.senders for node in nodes):
        cluster.run(0.001)
