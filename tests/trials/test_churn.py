"""What a node that stays keeps of peers that come, leave and fail: nothing that grows."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from quicksilver.multicast.receiving.region import Region
from quicksilver.multicast.receiving.stream import ReceiveStream
from quicksilver.multicast.repair.recovery import RegionRecovery
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.recovery.ring import RingAgent
from quicksilver.stdx.rand import Rng
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.workload import send_numbered
from quicksilver.wire.packets import parse_key

NODES = 4
GROUPS = [f"g{number}" for number in range(8)]


def groups_of(index: int) -> list[str]:
    """A third of the groups is everybody's; of the others each node lacks some."""
    return [name for at, name in enumerate(GROUPS) if at % 3 == 0 or (index + at) % 3]


def make_cluster(planner: str) -> Cluster:
    cluster = Cluster(seed=3, planner=planner)
    for node in cluster.start(NODES):
        node.join(*groups_of(node.index))
    assert cluster.settle()
    return cluster


def churn(cluster: Cluster, times: int, rng: Rng) -> None:
    """Let a peer fail and start again, and somebody leave groups and join them again."""
    for _ in range(times):
        peer = 1 + rng.below(NODES - 1)
        send_to_all(cluster, rng)
        cluster.nodes[peer].crash()
        cluster.run(2.0)
        cluster.restart(peer).join(*groups_of(peer))
        send_to_all(cluster, rng)
        cluster.run(2.0)
        leaver = cluster.nodes[rng.below(NODES)]
        left = groups_of(leaver.index)[:3]
        leaver.leave(*left)
        send_to_all(cluster, rng)
        cluster.run(1.0)
        leaver.join(*left)
        cluster.run(1.0)
    assert cluster.settle()
    cluster.run(30.0)  # until nobody needs the views that were replaced


def send_to_all(cluster: Cluster, rng: Rng) -> None:
    for node in cluster.alive():
        for name in rng.sample(groups_of(node.index), 2):
            if name in node.joined:
                send_numbered(node, name, 3)
        node.flush(lambda: None)


@contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def held_by(lives: list[SimNode]) -> set[int]:
    """Whatever engines know of region views, those of dead processes included."""
    found: set[int] = set()
    for life in lives:
        for recovery in life.engine.recoveries():
            found.update(id(agent) for agent in recovery.stack.agents)
            found.add(id(recovery))
        for region in life.engine.regions():
            found.update(id(stream) for stream in region.streams.values())
            found.add(id(region))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("planner", ["merged", "exact"])
def test_views_that_are_over_are_freed_without_the_collector(planner: str) -> None:
    """``tune()`` lets the collector come by once an hour: what waits for it is a leak till then."""
    with without_collector():
        cluster = make_cluster(planner)
        before = len(cluster.nodes[0].engine.regions())
        churn(cluster, 6, Rng(4))
        held = held_by(cluster.lives)
        kinds = (Region, ReceiveStream, RegionRecovery, RingAgent)
        left = [type(one) for one in gc.get_objects() if isinstance(one, kinds)]
        assert len(held) >= before, "the scene is as it should be"
        assert len(left) == len(held)


@pytest.mark.slow
def test_streams_into_regions_that_ended_are_not_kept() -> None:
    """Regions come and go with their members; a node that stays remembers numbers at most."""
    cluster = make_cluster("exact")
    steady = cluster.nodes[0]
    rng = Rng(5)
    churn(cluster, 15, rng)
    counts = []
    for _ in range(2):
        churn(cluster, 5, rng)
        cluster.watching.each.clear()
        cluster.lives[:] = cluster.alive()
        gc.collect()
        whole = [
            one
            for one in gc.get_objects()
            if isinstance(one, SendStream) and parse_key(one.key)[1] == steady.id
        ]
        counts.append((len(whole), len(steady.engine.outgoing.streams.live())))
    for whole_count, live_count in counts:
        assert whole_count <= live_count + 4


def test_a_region_that_is_come_back_to_goes_on_with_its_numbers() -> None:
    """To its members, packets that began from 0 again would be old ones.

    Of a stream that was left and delivered only the number of its packets is kept.
    """
    cluster = Cluster(seed=3)
    a, b, c = cluster.start(3)
    b.join("g")
    c.join("g")
    a.open("g")
    assert cluster.settle()
    send_numbered(a, "g", 5)
    cluster.run(5.0)
    (stream,) = a.engine.outgoing.streams.live()

    def close() -> None:
        a.session.subscribe(close=["g"])

    a.host.submit(close)
    a.senders.clear()
    a.opened.clear()
    a.ready.clear()
    cluster.run(1.0)
    assert not a.engine.outgoing.streams.live()
    a.open("g")
    assert cluster.settle()
    (again,) = a.engine.outgoing.streams.live()
    assert again is not stream
    assert (again.view, again.next_sequence) == (stream.view, stream.next_sequence)
    send_numbered(a, "g", 5)
    cluster.run(5.0)
    assert b.delivered[cluster.group_id("g")] == c.delivered[cluster.group_id("g")] == 10
