"""A node that was in a view without ever hearing of it cannot go on as it was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from quicksilver.membership.addresses import AddressPool
from quicksilver.membership.admission import ResumeProblem, find_resume_problem
from quicksilver.membership.batch import BatchInput, run_batch
from quicksilver.membership.health import Watch
from quicksilver.membership.planning.model import PlanDelta, Planner
from quicksilver.membership.tables import NodeRow, Tables
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.wire import gms
from quicksilver.wire.ids import GroupId, NodeId, RegionId

A, B = NodeId(1), NodeId(2)
G = GroupId(1)
R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)


def _cluster() -> tuple[Cluster, list[SimNode]]:
    cluster = Cluster(seed=1)
    nodes = cluster.start(4)
    for node in nodes:
        node.join("g")
    assert cluster.settle()
    return cluster, nodes


def lose_connection(cluster: Cluster, node: SimNode) -> None:
    """Break a node's connection to the GMS, and let it take most of its grace to come back."""
    number = node._connection
    assert number is not None
    cluster.gms.disconnect(number)
    node.handle_closed(number, "reset")
    node.freeze(0.45)
    cluster.run(0.05)


@pytest.mark.parametrize(("changes", "exclusions"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_who_missed_a_view_comes_back_as_a_new_node(changes: int, exclusions: int) -> None:
    """One change while it was away leads straight to the view that it is given. With
    two, something may have been committed to the view between, which it never had:
    had it resumed, it would have a gap although it stayed."""
    cluster, nodes = _cluster()
    away = nodes[0]
    lose_connection(cluster, away)
    for node in nodes[1 : 1 + changes]:
        node.join("another")
        cluster.run(0.1)
    cluster.run(3.0)
    assert away.exclusions == exclusions
    assert cluster.is_settled()
    assert sum(node.exclusions for node in nodes) == exclusions


@pytest.mark.parametrize(("changes", "exclusions"), [(0, 0), (1, 0), (2, 1)])
def test_a_restart_of_the_gms_between_hides_no_view(changes: int, exclusions: int) -> None:
    """Who was given which view is kept with the views: the GMS that the node comes back
    to need not be the one that made them."""
    cluster, nodes = _cluster()
    away = nodes[0]
    lose_connection(cluster, away)
    for node in nodes[1 : 1 + changes]:
        node.join("another")
        cluster.run(0.1)
    cluster.gms.restart(0.2)
    cluster.run(4.0)
    assert away.exclusions == exclusions
    assert cluster.is_settled()
    assert sum(node.exclusions for node in nodes) == exclusions


@pytest.mark.parametrize(
    "last",
    [
        PlanDelta(regions_gone=(R3,), groups={G: (R1, R2)}),
        PlanDelta(regions={R3: (B,)}, groups={G: (R1, R3)}),
    ],
    ids=["the view ends", "the view goes on without it"],
)
@pytest.mark.parametrize(("heard", "may_resume"), [(3, True), (2, True), (1, False)])
def test_a_view_that_ends_without_another_has_come_and_gone(
    last: PlanDelta, heard: int, *, may_resume: bool
) -> None:
    """Where nodes are in several regions, a group may move to a new one and back to old ones,
    whose views stay. What was sent meanwhile went to a view that this node never heard of."""
    deltas = iter(
        [
            PlanDelta(regions={R1: (A,), R2: (B,)}, groups={G: (R1, R2)}),
            PlanDelta(regions={R3: (A, B)}, groups={G: (R3,)}),
            last,
        ]
    )
    planner = cast("Planner", SimpleNamespace(name="script", apply=lambda _: next(deltas)))
    pool = AddressPool("239.192.0.0/16")
    tables = Tables(pool=pool, hybrid_names=frozenset(), has_multicast=True)
    hello = gms.Hello(gms.PROTOCOL_VERSION, "n", "10.0.0.1", 7, 1 << 20)
    rows = [tables.make_node(hello, b"secret") for _ in (A, B)]
    joins = [(row.id, 1, gms.Subscribe(1, join=("g",))) for row in rows]
    for given in (
        BatchInput(rows, joins),
        BatchInput(is_adapted=True),
        BatchInput(is_adapted=True),
    ):
        run_batch(tables, planner, given, cluster=1)
    problem = _find_problem(tables.nodes[A], heard)
    assert (problem is None) == may_resume
    assert problem is None or problem.has_missed


@pytest.mark.parametrize(("heard", "may_resume"), [(9, True), (8, True), (7, True), (6, False)])
def test_who_came_into_groups_twice_without_hearing_of_it_begins_anew(
    heard: int, *, may_resume: bool
) -> None:
    """Since when it is in them can be told of one batch only, and senders may name either."""
    row = NodeRow(NodeId(3), 0, "n", "10.0.0.1", 7, 1 << 20, b"secret", joined_in=(9, 7))
    problem = _find_problem(row, heard)
    assert (problem is None) == may_resume
    assert problem is None or problem.ends_incarnation


def _find_problem(row: NodeRow, heard: int) -> ResumeProblem | None:
    """Return why a node cannot resume that heard of a batch last."""
    watch = cast("Watch", SimpleNamespace(departs="", row=row))
    resume = gms.Resume(1, row.id, b"secret", heard)
    hello = gms.Hello(gms.PROTOCOL_VERSION, "n", "10.0.0.1", 7, 1 << 20, resume)
    return find_resume_problem(hello, resume, watch, cluster=1)
