"""A network that falls into parts which all reach the GMS: only a smaller part may go."""

from __future__ import annotations

import pytest

from quicksilver.multicast.config import EngineConfig
from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.faults import Partition
from quicksilver.trials.workload import make_payload
from quicksilver.wire.gms import ClusterSettings

SENDERS = (0, 1)


def split(
    nodes: int, island: tuple[int, ...], *, for_s: float = 4.5, partition_size: int = 5
) -> Cluster:
    """Return a cluster whose nodes could not reach those of an island, and then could."""
    cluster = Cluster(
        seed=7,
        config=EngineConfig(packet_bytes=1400),
        settings=ClusterSettings(failure_timeout_s=2.0, partition_size=partition_size),
    )
    cluster.watch(*ALL)
    for node in cluster.start(nodes):
        node.join("g")
    assert cluster.settle()
    fault = Partition(at=0.0, island=island, all_reach_gms=True)
    fault.begin(cluster)
    cluster.every(0.05, lambda: send(cluster), until=cluster.now + for_s)
    cluster.run(for_s)
    fault.end(cluster)
    for _ in range(200):
        cluster.run(0.1)
        cluster.watching.on_look()
    cluster.watching.on_settled()
    assert [str(v) for v in cluster.violations()] == []
    return cluster


def send(cluster: Cluster) -> None:
    for index in SENDERS:
        node = cluster.nodes[index]
        if "g" in node.ready:
            node.send("g", make_payload("g", index, node.life, node.sent["g"], 200))


def excluded(cluster: Cluster) -> set[int]:
    """Return whom the GMS excluded because others did not reach them.

    Some begin again on their own, because they lack what one who went had sent.
    """
    reasons = {node.index: " ".join(node.excluded_for) for node in cluster.nodes}
    return {index for index, text in reasons.items() if "answered no datagram" in text}


@pytest.mark.slow
@pytest.mark.parametrize("part", [0.1, 0.2, 0.35, 0.45])
@pytest.mark.parametrize("nodes", [20, 43])
def test_of_two_parts_only_the_smaller_goes(nodes: int, part: float) -> None:
    """Interleaved: some rings have most of their members in the smaller part.

    Both senders may be in it: then nobody else notices anything before being asked.
    """
    size = int(nodes * part)
    island = tuple(sorted(index * 7 % nodes for index in range(size)))
    assert excluded(split(nodes, island)) == set(island)


@pytest.mark.slow
@pytest.mark.parametrize("partition_size", [3, 5])
def test_of_two_halves_nobody_goes(partition_size: int) -> None:
    """Cut right through every ring, whose parts are never equal."""
    island = tuple(range(0, 20, 2))
    assert excluded(split(20, island, partition_size=partition_size)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("for_s", [9.0, 14.0])
def test_a_split_that_outlasts_the_first_exclusion_loses_nothing_silently(for_s: float) -> None:
    """Those of the smaller part come back while they still reach only each other, and what they
    send then is agreed on among them. When they go again, members of the larger part lack it:
    they begin anew by themselves rather than skip it. The GMS excludes none of them."""
    island = tuple(sorted(index * 7 % 20 for index in range(7)))
    cluster = split(20, island, for_s=for_s)
    assert excluded(cluster) == set(island)
    anew = {reason for n in cluster.nodes if n.index not in island for reason in n.excluded_for}
    assert all(reason.startswith("nobody has packets of node") for reason in anew)
    (group,) = {g for node in cluster.nodes for g in node.member_since}
    assert all(group in node.member_since for node in cluster.nodes), "all are back in the group"
