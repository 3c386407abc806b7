"""Without IP multicast, members hand packets on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.core.pull import Sink
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.receiving.relaying import RELAY_BYTES_MAX, RelayFeed
from quicksilver.multicast.tree import children_of, parent_of
from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.workload import send_numbered
from quicksilver.wire.gms import ClusterSettings

CHILDREN = (("10.0.0.2", 7000), ("10.0.0.3", 7000))


@given(
    members=st.sets(st.integers(1, 500), min_size=1, max_size=60),
    sender=st.integers(1, 500),
    fan_out=st.integers(0, 5),
)
def test_every_member_is_reached_once_and_agrees_with_its_parent(
    members: set[int], sender: int, fan_out: int
) -> None:
    """The sender may be a member or not; nobody sends more copies than the fan-out."""
    view = tuple(sorted(members))
    others = set(view) - {sender}
    reached: list[int] = []
    waiting = [sender]
    while waiting:
        node = waiting.pop()
        children = children_of(view, sender, node, fan_out)
        assert not fan_out or len(children) <= fan_out
        for child in children:
            assert parent_of(view, sender, child, fan_out) == node
        reached += children
        waiting += children
    assert sorted(reached) == sorted(others)


def test_senders_begin_with_different_members() -> None:
    """Or the first members of a region would hand on everybody's packets."""
    view = tuple(range(1, 11))
    firsts = {children_of(view, sender, sender, 3) for sender in view}
    assert len(firsts) > 5


def test_packets_past_the_limit_are_dropped_and_counted() -> None:
    """A node that cannot hand on as fast as packets arrive must not keep them all."""
    counters = Counters()
    feed = RelayFeed(Sink(), counters)
    packet = bytes(50_000)
    for _ in range(2 * RELAY_BYTES_MAX // len(packet)):
        feed.add(CHILDREN, [packet])
    assert feed.used_bytes <= RELAY_BYTES_MAX
    assert counters.relays_dropped
    sent = []
    while (transmit := feed.poll(0.0)) is not None:
        sent.append(transmit)
    assert feed.used_bytes == 0
    kept = RELAY_BYTES_MAX // len(packet)
    assert [len([t for t in sent if t.destination == child]) for child in CHILDREN] == [kept] * 2


def start(cluster: Cluster, count: int) -> list[SimNode]:
    cluster.watch(*ALL)
    nodes = cluster.start(count)
    for node in nodes[1:]:
        node.join("g")
    nodes[0].open("g")
    cluster.settle()
    return nodes


def finish(cluster: Cluster) -> None:
    for _ in range(4):
        cluster.run(10.0)
        cluster.watching.on_look()
    cluster.watching.on_settled()
    assert cluster.violations() == []


@pytest.mark.parametrize("fan_out", [0, 2, 3])
def test_a_sender_sends_as_many_copies_as_the_fan_out(fan_out: int) -> None:
    """And everybody gets each message once, in order, without a repair."""
    cluster = Cluster(seed=3, settings=ClusterSettings(transport="unicast", fan_out=fan_out))
    sender, *receivers = start(cluster, 21)
    before = cluster.network.sent_packets
    for _ in range(20):
        send_numbered(sender, "g", 5)
        cluster.run(0.01)
    cluster.run(1.0)
    assert all(node.delivered[cluster.group_id("g")] == 100 for node in receivers)
    relayed = [node.engine.counters.relayed_packets for node in receivers]
    packets = sender.engine.counters.sent_packets
    assert sum(relayed) == (packets * (20 - fan_out) if fan_out else 0)
    assert max(relayed) <= packets * fan_out
    assert sum(node.engine.counters.repairs_sent for node in receivers) == 0
    assert cluster.network.sent_packets > before
    finish(cluster)


def test_members_below_one_that_crashed_are_repaired() -> None:
    """Who hands packets on may die: its ring repairs the others until the view changes."""
    cluster = Cluster(seed=4, settings=ClusterSettings(transport="unicast", fan_out=2))
    sender, *receivers = start(cluster, 16)
    below = [n for n in receivers if n.engine.counters.relayed_packets]
    send_numbered(sender, "g", 10)
    cluster.run(0.2)
    below = [n for n in receivers if n.engine.counters.relayed_packets]
    below[0].crash()
    for _ in range(30):
        send_numbered(sender, "g", 5)
        cluster.run(0.05)
    finish(cluster)


def test_nodes_with_and_without_multicast_share_a_group() -> None:
    """A region with a member that cannot hear multicast does without; others keep it."""
    cluster = Cluster(seed=5, without_multicast=frozenset({2, 5}))
    cluster.watch(*ALL)
    nodes = cluster.start(8)
    for node in nodes:
        node.join("mixed")
    for node in nodes[6:]:
        node.join("able")
    nodes[0].open("able")
    cluster.settle()
    addresses = [node.engine.multicast_addresses() for node in nodes]
    assert addresses[6] == addresses[7]
    assert len(addresses[6]) == 1
    assert not any(addresses[:6])
    for node in (nodes[0], nodes[2], nodes[6]):
        for _ in range(5):
            send_numbered(node, "mixed", 4)
            cluster.run(0.02)
    send_numbered(nodes[0], "able", 7)
    finish(cluster)
    group = cluster.group_id("mixed")
    assert {node.delivered[group] for node in nodes} == {60, 40}


def test_a_sender_without_multicast_reaches_a_region_that_has_it() -> None:
    """It cannot send to the address: members hand its packets on to each other."""
    cluster = Cluster(seed=6, without_multicast=frozenset({0}))
    sender, *receivers = start(cluster, 12)
    assert all(node.engine.multicast_addresses() for node in receivers)
    send_numbered(sender, "g", 50)
    send_numbered(receivers[0], "g", 50)
    finish(cluster)
    assert any(node.engine.counters.relayed_packets for node in receivers)
