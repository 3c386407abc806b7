"""Nodes and managers that end as their users want them to hold up nobody who goes on."""

from __future__ import annotations

import pytest

from quicksilver.scopes.management.messages import Flavour
from quicksilver.trials.scopes.cluster import GRACE_S, ScopeCluster
from quicksilver.trials.scopes.plan import NodePlan, Plan, ScopePlan

TOPIC = "campus/news"
STAYS, ENDS = "campus/lan1", "campus/lan2"


def make_cluster() -> ScopeCluster:
    """Return a cluster of two networks of two nodes each; in each one of them sends."""
    scopes = [ScopePlan(name="campus", network="campus", recovery="star")]
    nodes = []
    for network in (STAYS, ENDS):
        scopes.append(ScopePlan(name=network, owners=("campus",), network=network))
        for node in "ab":
            opens = (TOPIC,) if node == "a" else ()
            name = f"{network}/{node}"
            nodes.append(NodePlan(name=name, owner=network, joins=(TOPIC,), opens=opens))
    return ScopeCluster(
        Plan(
            seed=1,
            scopes=tuple(scopes),
            nodes=tuple(nodes),
            faults=(),
            seconds=1.0,
            interval_s=1.0,
            burst=1,
            sizes=(1,),
            far_s=1e-3,
        )
    )


def send(cluster: ScopeCluster, count: int) -> None:
    for _ in range(count):
        for network in (STAYS, ENDS):
            cluster.publish(cluster.nodes[f"{network}/a"], TOPIC, [b"news"])
        cluster.events.run(0.002)


def has_all(cluster: ScopeCluster, count: int) -> bool:
    """Whether everybody has what was sent, though perhaps nobody knows that yet."""
    return all(
        node.low(TOPIC, cluster.nodes[f"{network}/a"].sender) >= count
        for node in cluster.living()
        for network in (STAYS, ENDS)
    )


def flush(cluster: ScopeCluster, name: str, count: int) -> float:
    """Wait until a node's messages are everywhere; return how long that took."""
    since = cluster.now
    while not cluster.nodes[name].node.promised.is_stable(TOPIC, count):
        assert cluster.now < since + 2 * GRACE_S
        cluster.events.run(0.01)
    return cluster.now - since


@pytest.mark.parametrize("ordering", ["fifo", "total"])
def test_a_network_that_ends_holds_up_no_flush(ordering: str) -> None:
    """Its nodes close right after the last messages, before all domains have agreed on them,
    and then its manager ends: its owner must not wait for nodes that nobody starts again."""
    cluster = make_cluster()
    cluster.start()
    cluster.events.run(2.0)
    cluster.change_session(TOPIC, Flavour(ordering=ordering))
    cluster.events.run(20.0)
    send(cluster, 50)
    while not has_all(cluster, 50):
        cluster.events.run(0.002)
    assert not cluster.nodes[f"{STAYS}/a"].node.promised.is_stable(TOPIC, 50), (
        "there is something to do"
    )
    cluster.end_node(f"{ENDS}/b")
    flush(cluster, f"{ENDS}/a", 50)
    cluster.end_node(f"{ENDS}/a")
    cluster.events.run(0.002)
    cluster.end_manager(ENDS)
    cluster.end_node(f"{STAYS}/b")
    assert flush(cluster, f"{STAYS}/a", 50) < 1.0


def test_a_node_that_ends_has_left_its_topics() -> None:
    """Its manager need not find out by silence; what it had not worked out yet it says as it
    ends itself."""
    cluster = make_cluster()
    cluster.start()
    cluster.events.run(2.0)
    (topic,) = cluster.managers["campus"][1].manager.topics()
    assert set(topic.parts) == {STAYS, ENDS}
    for node in "ab":
        cluster.end_node(f"{ENDS}/{node}")
    cluster.events.run(0.002)
    cluster.end_manager(ENDS)
    cluster.events.run(0.1)
    assert set(topic.parts) == {STAYS}
