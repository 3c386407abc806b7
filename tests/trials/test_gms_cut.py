"""The GMS's own link is down: nobody is excluded, nothing is lost, and all learn it soon."""

from __future__ import annotations

import pytest

from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.faults import GmsCut, Partition, schedule
from quicksilver.trials.node import SimNode
from quicksilver.trials.workload import send_numbered


def make(count: int) -> tuple[Cluster, list[SimNode]]:
    cluster = Cluster(seed=5)
    cluster.watch(*ALL)
    nodes = cluster.start(count)
    for node in nodes:
        node.join("g")
    assert cluster.settle()
    return cluster, nodes


@pytest.mark.slow
@pytest.mark.parametrize("cut_s", [1.0, 3.5, 10.0, 25.0])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_nobody_is_excluded_and_nothing_is_lost(count: int, cut_s: float) -> None:
    """Nodes talk to each other all the time; only the GMS hears nothing of it."""
    cluster, nodes = make(count)
    schedule(cluster, (GmsCut(at=cluster.now + 1.0, for_s=cut_s),), until=cluster.now + 60.0)
    for _ in range(int(cut_s) + 10):
        for node in nodes:
            send_numbered(node, "g", 3)
        cluster.run(1.0)
        cluster.watching.on_look()
    cluster.run(5.0)
    assert cluster.gms.service.counters.failed == 0
    assert [node.exclusions for node in nodes] == [0] * count
    group = cluster.group_id("g")
    sent = 3 * (int(cut_s) + 10)
    assert [node.delivered[group] for node in nodes] == [sent * (count - 1)] * count
    assert [str(v) for v in cluster.violations()] == []
    assert bool(cluster.gms.notes) == (cut_s > 3.0)


@pytest.mark.slow
@pytest.mark.parametrize("cut_s", [5.0, 30.0])
def test_a_node_that_was_cut_off_learns_it_within_the_failure_timeout(cut_s: float) -> None:
    """It gave its dead connection up meanwhile, and tries often enough to be back soon."""
    cluster, nodes = make(4)
    lonely = nodes[3]
    begin = cluster.now
    fault = Partition(at=begin, for_s=cut_s, island=(lonely.index,))
    schedule(cluster, (fault,), until=begin + 100.0)
    cluster.run(cut_s)
    assert lonely.exclusions == 0
    timeout_s = cluster.gms.settings.failure_timeout_s
    assert cluster.run(timeout_s, lambda: lonely.exclusions == 1)
    assert cluster.run(timeout_s, lambda: "g" in lonely.ready)


@pytest.mark.slow
def test_a_node_gives_up_a_dead_connection_within_the_failure_timeout() -> None:
    """Whatever TCP thinks: the GMS answers heartbeats, and nothing came."""
    cluster, nodes = make(3)
    lonely = nodes[2]
    cluster.run(2.0)
    assert lonely.is_control_open()
    for other in (-1, 0, 1):
        cluster.network.cut(other, lonely.index)
    settings = cluster.gms.settings
    assert cluster.run(
        settings.failure_timeout_s + settings.heartbeat_interval_s,
        lambda: not lonely.is_control_open(),
    )


@pytest.mark.slow
def test_a_node_whose_address_changes_is_back_within_two_failure_timeouts() -> None:
    """One until it finds its connection dead; then it says Hello anew, under the new address."""
    cluster, nodes = make(4)
    moved = nodes[3]
    cluster.run(1.0)
    old = moved.id
    moved.move("10.9.9.9")
    timeout_s = cluster.gms.settings.failure_timeout_s
    assert cluster.run(2 * timeout_s, lambda: moved.exclusions == 1 and "g" in moved.ready)
    assert moved.id not in (0, old)
    for node in nodes:
        send_numbered(node, "g", 3)
    before = [node.delivered[cluster.group_id("g")] for node in nodes]
    cluster.run(2.0)
    after = [node.delivered[cluster.group_id("g")] for node in nodes]
    assert [b - a for a, b in zip(before, after, strict=True)] == [9] * 4
    assert [node.exclusions for node in nodes] == [0, 0, 0, 1]
    assert [str(v) for v in cluster.violations()] == []
