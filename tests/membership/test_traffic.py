"""The GMS plans for the traffic that nodes tell of."""

from __future__ import annotations

from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.planning import make_planner
from quicksilver.membership.planning.check import check_plan
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.membership.planning.workload import zipf_memberships
from quicksilver.membership.tables import NodeRow
from quicksilver.membership.traffic import MESSAGES_TOLD_MAX, TrafficMeter
from quicksilver.stdx.rand import Rng
from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.workload import send_numbered
from quicksilver.wire.gms import TRAFFIC_GROUPS_MAX, ClusterSettings
from quicksilver.wire.ids import GroupId, NodeId

NODES = 40
GROUPS = 24
BUSY = 3
"""Groups that carry nearly all traffic."""


def memberships() -> dict[NodeId, frozenset[GroupId]]:
    rng = Rng(5).derive("memberships")
    groups = [GroupId(g) for g in range(1, GROUPS + 1)]
    return {NodeId(n): frozenset(rng.sample(groups, 8)) for n in range(1, NODES + 1)}


def row(*groups: int) -> NodeRow:
    node = NodeRow(NodeId(1), 0, "n", "10.0.0.1", 9000, 0, b"")
    node.joined = frozenset(map(GroupId, groups))
    return node


def test_what_is_old_counts_less() -> None:
    """A group that was busy yesterday must not shape the plan of today."""
    meter = TrafficMeter(report_interval_s=5.0)
    assert meter.handle_report(row(1, 2), [(1, 100)], 5.0)
    assert meter.take_rates(10.0) == {1: 10.0}
    meter.handle_report(row(1, 2), [(2, 60)], 15.0)
    assert meter.take_rates(20.0) == {1: 50.0 / 15.0, 2: 4.0}
    for look in range(10):
        meter.take_rates(30.0 + 10.0 * look)
    assert meter.take_rates(130.0) == {}


def test_rates_are_messages_a_second_whenever_somebody_looks() -> None:
    """An hour without traffic must not make what comes after it look like nothing."""
    meter = TrafficMeter(report_interval_s=5.0)
    for look in range(3):
        began = 3600.0 * look
        for report in range(2):
            meter.handle_report(row(1), [(1, 500)], began + 5.0 + 5.0 * report)
        assert meter.take_rates(began + 10.0)[GroupId(1)] == 100.0
    silent = meter.take_rates(7220.0)[GroupId(1)]
    assert silent < 70.0
    assert meter.take_rates(7230.0)[GroupId(1)] < silent


def test_nobody_speaks_for_groups_of_others() -> None:
    """A node could make the GMS plan for traffic that does not exist."""
    meter = TrafficMeter()
    assert not meter.handle_report(row(1), [(2, 10**6), (1, 0), (1, -5)], 1.0)
    many = [(group, 1) for group in range(1, 3 * TRAFFIC_GROUPS_MAX)]
    meter.handle_report(row(*range(1, 3 * TRAFFIC_GROUPS_MAX)), [*many, (1, 1 << 60)], 1.0)
    assert len(meter.take_rates(2.0)) == TRAFFIC_GROUPS_MAX
    meter.handle_report(row(1), [(1, 1 << 60)], 2.0)
    assert meter.take_rates(3.0)[GroupId(1)] <= 1 + MESSAGES_TOLD_MAX


def test_a_plan_for_the_traffic_wastes_less_and_keeps_every_promise() -> None:
    """Few groups carry most of the traffic: they get regions that fit (dissertation 4.1.2)."""
    members = memberships()
    limits = PlanLimits()
    planner = make_planner("merged", limits)
    planner.apply(members)
    rates = {GroupId(g): 1000.0 if g <= BUSY else 1.0 for g in range(1, GROUPS + 1)}
    before = planner.cost(rates).unwanted_fraction
    assert planner.adapt(rates)
    delta = planner.apply({})
    assert delta.regions
    check_plan(members, planner.state(), limits)
    assert planner.cost(rates).unwanted_fraction < before / 2
    assert not planner.adapt(rates), "the same traffic must not move anybody again"


def test_a_plan_for_the_traffic_is_made_for_a_thousand_nodes_too() -> None:
    """Where clustering takes too long, the busiest groups still get regions that fit."""
    limits = PlanLimits()
    members = zipf_memberships(1000, 400, 0.02, 1.5, 1)
    planner = make_planner("auto", limits)
    planner.apply(members)
    rates = {GroupId(g): 1000.0 / (1 + 37 * g % 400) for g in range(1, 401)}
    before = planner.cost(rates)
    assert planner.adapt(rates)
    assert planner.apply({}).regions
    check_plan(members, planner.state(), limits)
    after = planner.cost(rates)
    assert after.unwanted_fraction < before.unwanted_fraction / 2
    assert not planner.adapt(rates)


def test_planners_with_a_rule_stay_as_they_are() -> None:
    """Exact regions and strict hierarchies follow from memberships alone."""
    for name in ("exact", "perfect", "regular"):
        planner = make_planner(name, PlanLimits())
        planner.apply(memberships())
        assert not planner.adapt({GroupId(1): 1000.0})


def send_for(cluster: Cluster, senders: list[SimNode], seconds: float) -> float:
    """Send mostly to the busy groups; return which part of what arrived was not wanted."""

    def count() -> tuple[int, int]:
        counters = [node.engine.counters for node in cluster.nodes]
        unwanted = sum(each.unwanted_messages for each in counters)
        return unwanted, unwanted + sum(each.delivered_messages for each in counters)

    unwanted, arrived = count()
    end = cluster.now + seconds
    while cluster.now < end:
        for node in senders:
            for group in range(BUSY):
                send_numbered(node, f"g{group}", 4)
            send_numbered(node, f"g{BUSY}", 1)
        cluster.run(0.1)
    after = count()
    return (after[0] - unwanted) / max(1, after[1] - arrived)


def test_nodes_move_while_messages_are_under_way_and_none_is_lost() -> None:
    """From heartbeats to other regions: every check looks on while the plan changes."""
    cluster = Cluster(
        seed=7,
        planner="merged",
        settings=ClusterSettings(traffic_interval_s=0.5),
        gms_config=ServiceConfig(adapt_interval_s=2.0),
    )
    cluster.watch(*ALL)
    nodes = cluster.start(NODES)
    for node, groups in zip(nodes, memberships().values(), strict=True):
        for group in sorted(groups):
            node.join(f"g{group - 1}")
    senders = nodes[:2]
    for node in senders:
        for group in range(BUSY + 1):
            node.open(f"g{group}")
    cluster.settle()
    before = send_for(cluster, senders, 1.0)
    send_for(cluster, senders, 2.0)
    service = cluster.gms.service
    assert service.counters.adapted == 1
    after = send_for(cluster, senders, 1.0)
    assert after < before / 2
    for _ in range(3):
        cluster.run(10.0)
        cluster.watching.on_look()
    cluster.watching.on_settled()
    assert cluster.violations() == []
    assert service.counters.adapted == 1
