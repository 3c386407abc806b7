"""A GMS that starts again, and nodes that come back to it one after the other."""

from __future__ import annotations

import pytest

from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.wire.gms import ClusterSettings

GMS = -1


@pytest.mark.parametrize("planner", ["merged", "exact", "regular"])
def test_whoever_comes_back_in_time_is_not_excluded(planner: str) -> None:
    """Others are back sooner, and join and leave; nobody may miss two views because of that.

    A node that was in a view of which it never heard lacks the messages to it.
    """
    cluster = Cluster(seed=5, planner=planner)
    cluster.watch(*ALL)
    nodes = cluster.start(4)
    late, *others = nodes
    for node in nodes:
        node.join("g", "h")
    assert cluster.settle()
    cluster.run(1.0)
    cluster.gms.restart(1.0)
    cluster.network.cut(GMS, late.index)
    cluster.run(1.1)
    for node in others[:2]:
        node.leave("g")
        cluster.run(0.2)
    for node in others[:2]:
        node.join("g")
        cluster.run(0.2)
    cluster.network.mend(GMS, late.index)
    assert cluster.run(5.0, cluster.is_settled)
    cluster.run(5.0)
    assert [node.exclusions for node in nodes] == [0, 0, 0, 0]
    assert [str(violation) for violation in cluster.violations()] == []


def test_joins_wait_no_longer_than_the_grace_for_who_died_meanwhile() -> None:
    """A node that crashed while the GMS was down does not come back."""
    cluster = Cluster(seed=5)
    a, b, c = cluster.start(3)
    for node in (a, b, c):
        node.join("g")
    assert cluster.settle()
    cluster.gms.restart(0.5)
    c.crash()
    cluster.run(0.6)
    a.join("h")
    assert not cluster.run(1.0, cluster.is_settled)
    assert cluster.run(3.0, cluster.is_settled)
    assert cluster.run(3.0, lambda: c.id not in members_of(cluster, "g"))


def members_of(cluster: Cluster, name: str) -> tuple[int, ...]:
    directory = cluster.nodes[0].session.directory
    return tuple(directory.groups[cluster.group_id(name)].members)  # type: ignore[index]  # an int


def test_nobody_waits_once_all_are_back() -> None:
    """With everybody there, the first join after a restart takes as long as any."""
    cluster = Cluster(seed=5)
    a, b = cluster.start(2)
    a.join("g")
    b.join("g")
    assert cluster.settle()
    cluster.run(1.0)
    cluster.gms.restart(0.5)
    cluster.run(0.45)
    a.join("h")
    assert cluster.run(1.5, cluster.is_settled)


def test_whoever_is_new_after_a_restart_waits_and_is_let_in() -> None:
    """The GMS waits for the dead before it changes views; newcomers, who have nothing to say
    until they are in, were taken for failed meanwhile, and what they said next ended the GMS."""
    cluster = Cluster(seed=5, settings=ClusterSettings(failure_timeout_s=1.0))
    nodes = cluster.start(3)
    for node in nodes:
        node.join("g")
    assert cluster.settle()
    cluster.gms.restart(0.5)
    nodes[2].crash()
    cluster.run(0.52)
    (newcomer,) = cluster.start(1)
    newcomer.join("g")
    cluster.run(1.5)
    newcomer.join("h")
    assert cluster.run(8.0, cluster.is_settled)
    assert cluster.gms.service.counters.failed == 1
    assert newcomer.exclusions == 0
    assert newcomer.id in members_of(cluster, "g")
