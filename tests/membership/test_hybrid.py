"""The GMS moves groups in and out of hybrid mode, by the traffic that nodes tell of."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.directory import GroupView
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.membership.store import SqliteStore, Store
from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.workload import send_numbered
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.ids import Address
from quicksilver.wire.packets import KIND_DATA, KIND_HYBRID

REGIONS = 3
MEMBERS = 2 * REGIONS
SETTINGS = ClusterSettings(traffic_interval_s=0.4)
AUTO = ServiceConfig(adapt_interval_s=1.0, hybrid_gain_min=10.0)
BUSY = 4
"""Messages in a twentieth of a second that are worth an address: 27 packets saved a second for
each member. 1 is not worth it, and enough to keep one."""


def wide_cluster(
    config: ServiceConfig = AUTO,
    *,
    groups: tuple[str, ...] = ("g",),
    planner: str = "exact",
    limits: PlanLimits | None = None,
    without_multicast: frozenset[int] = frozenset(),
    store: Store | None = None,
) -> Cluster:
    """Six members of all groups, two in each of three regions; a seventh node sends."""
    cluster = Cluster(
        seed=21,
        planner=planner,
        settings=SETTINGS,
        gms_config=config,
        limits=limits,
        without_multicast=without_multicast,
        store=store,
    )
    cluster.watch(*ALL)
    nodes = cluster.start(MEMBERS + 1)
    for place, node in enumerate(nodes[:MEMBERS]):
        node.join(*groups, f"own{place % REGIONS}")
    nodes[MEMBERS].open(*groups)
    assert cluster.settle()
    return cluster


def view_of(node: SimNode, group: str = "g") -> GroupView:
    return next(v for v in node.session.directory.groups.values() if v.name == group)


def mode_of(node: SimNode, group: str = "g") -> tuple[bool, bool]:
    """Whether there is an address, and whether senders use it."""
    view = view_of(node, group)
    return bool(view.hybrid), view.is_hybrid


def talk(cluster: Cluster, seconds: float, **counts: int) -> Counter[int]:
    """Let the sender send for a while; return the data packets that it sent, by kind."""
    kinds: Counter[int] = Counter()
    sender = cluster.nodes[MEMBERS]

    def tap(_at: float, source: Address, _to: Address, packet: bytes) -> None:
        if source == sender.address and packet[1] in (KIND_DATA, KIND_HYBRID):
            kinds[packet[1]] += 1

    cluster.network.taps.append(tap)
    end = cluster.now + seconds
    while cluster.now < end:
        for group, count in counts.items():
            send_numbered(sender, group, count)
        cluster.run(0.05)
        cluster.watching.on_look()
    cluster.network.taps.remove(tap)
    return kinds


def repairs(cluster: Cluster) -> int:
    return sum(node.engine.counters.repairs_received for node in cluster.nodes)


def check_nothing_is_wrong(cluster: Cluster) -> None:
    for _ in range(3):
        cluster.run(10.0)
        cluster.watching.on_look()
    cluster.watching.on_settled()
    assert cluster.violations() == []


def test_a_busy_group_moves_in_and_out_and_nothing_has_to_be_repaired() -> None:
    """Members listen before anybody sends there, and for as long as anybody might."""
    cluster = wide_cluster()
    sender = cluster.nodes[MEMBERS]
    seen = [mode_of(sender)]
    before = talk(cluster, 0.5, g=BUSY)
    for _ in range(80):
        talk(cluster, 0.05, g=BUSY)
        if mode_of(sender) != seen[-1]:
            seen.append(mode_of(sender))
    assert seen == [(False, False), (True, False), (True, True)]
    after = talk(cluster, 0.5, g=BUSY)
    assert before[KIND_DATA] >= REGIONS * after[KIND_HYBRID] > 0
    assert after[KIND_DATA] == before[KIND_HYBRID] == 0
    assert view_of(sender).hybrid in cluster.nodes[0].engine.multicast_addresses()
    for _ in range(200):
        cluster.run(0.05)
        if mode_of(sender) != seen[-1]:
            seen.append(mode_of(sender))
    assert seen[3:] == [(True, False), (False, False)]
    assert repairs(cluster) == 0
    check_nothing_is_wrong(cluster)


def test_traffic_around_the_limit_does_not_move_a_group_to_and_fro() -> None:
    """What is enough to get an address is twice what is needed to keep it."""
    cluster = wide_cluster()
    talk(cluster, 4.0, g=BUSY)
    service = cluster.gms.service
    moves = service.counters.hybrid_moves
    assert moves == 2
    for count in (1, 2, 1, 2, 1, 1, 2, 1):
        talk(cluster, 1.0, g=count)
    assert service.counters.hybrid_moves == moves
    assert mode_of(cluster.nodes[MEMBERS]) == (True, True)


@pytest.mark.parametrize(
    ("config", "without_multicast", "count"),
    [
        (AUTO, frozenset[int](), 1),
        (AUTO, frozenset({1}), BUSY),
        (replace(AUTO, hybrid="off"), frozenset[int](), BUSY),
        (replace(AUTO, adapt_interval_s=0.0), frozenset[int](), BUSY),
        (replace(AUTO, memberships_per_node_max=1), frozenset[int](), BUSY),
    ],
    ids=["quiet", "a member without multicast", "off", "no looks", "no membership left"],
)
def test_no_address(config: ServiceConfig, without_multicast: frozenset[int], count: int) -> None:
    """What an address costs is asked of nobody who cannot use it."""
    cluster = wide_cluster(config, without_multicast=without_multicast)
    kinds = talk(cluster, 5.0, g=count)
    assert mode_of(cluster.nodes[MEMBERS]) == (False, False)
    assert kinds[KIND_HYBRID] == 0


def test_a_region_with_others_in_it_is_not_reached_by_the_groups_own_address() -> None:
    """Whoever is not a member does not listen there, and would need every packet repaired."""
    config = ServiceConfig(hybrid=frozenset({"g"}))
    limits = PlanLimits(regions_per_node_max=1, region_nodes_min=1)
    cluster = wide_cluster(config, planner="merged", limits=limits)
    sender = cluster.nodes[MEMBERS]
    for place, node in enumerate([*cluster.nodes[:MEMBERS], *cluster.start(4)]):
        node.join(*[f"own{place % REGIONS}-{number}" for number in range(4)])
        assert cluster.settle()
    view = view_of(sender)
    inside = {n for r, _ in view.regions for n in sender.session.directory.regions[r].members}
    assert inside > set(view.members), "the plan must put strangers into the group's regions"
    assert mode_of(sender) == (True, False)
    assert talk(cluster, 1.0, g=BUSY)[KIND_HYBRID] == 0
    assert repairs(cluster) == 0
    check_nothing_is_wrong(cluster)


def test_groups_over_the_same_regions_share_an_address_and_packets() -> None:
    """Together they may be worth what none is alone, and it is one membership."""
    cluster = wide_cluster(groups=("g", "h", "i"))
    sender = cluster.nodes[MEMBERS]
    talk(cluster, 4.0, g=2, h=1, i=1)
    views = [view_of(sender, group) for group in ("g", "h", "i")]
    assert [view.is_hybrid for view in views] == [True, True, True]
    assert len({view.hybrid for view in views}) == 1
    assert talk(cluster, 0.5, g=2, h=1, i=1)[KIND_DATA] == 0
    # One leaves h: the others of h are no longer those of g.
    cluster.nodes[0].leave("h")
    assert cluster.settle()
    talk(cluster, 6.0, g=BUSY, h=BUSY, i=1)
    views = [view_of(sender, group) for group in ("g", "h", "i")]
    assert [view.is_hybrid for view in views] == [True, True, True]
    assert views[0].hybrid == views[2].hybrid != views[1].hybrid
    check_nothing_is_wrong(cluster)


def test_of_two_groups_the_busier_gets_the_last_membership() -> None:
    """And when that changes, the other one has to wait until it is given back."""
    config = replace(AUTO, memberships_per_node_max=2)
    cluster = wide_cluster(config, groups=("g",))
    for node in cluster.nodes[: MEMBERS - 1]:
        node.join("h")
    sender = cluster.nodes[MEMBERS]
    sender.open("h")
    assert cluster.settle()

    def most_addresses(seconds: float, **counts: int) -> int:
        most = 0
        end = cluster.now + seconds
        while cluster.now < end:
            talk(cluster, 0.05, **counts)
            most = max(most, *(len(n.engine.multicast_addresses()) for n in cluster.nodes[:2]))
        return most

    assert most_addresses(4.0, g=2, h=6 * BUSY) == 2
    assert (mode_of(sender), mode_of(sender, "h")) == ((False, False), (True, True))
    assert most_addresses(10.0, g=12 * BUSY, h=1) == 2
    assert (mode_of(sender), mode_of(sender, "h")) == ((True, True), (False, False))
    check_nothing_is_wrong(cluster)


def test_a_gms_that_starts_again_goes_on_with_the_addresses(tmp_path: Path) -> None:
    """The views that it gave out have the address in them; nobody has to move."""
    with closing(SqliteStore(tmp_path / "gms.db")) as store:
        cluster = wide_cluster(store=store)
        sender = cluster.nodes[MEMBERS]
        talk(cluster, 4.0, g=BUSY)
        before = view_of(sender)
        assert before.is_hybrid
        cluster.gms.restart(0.3)
        talk(cluster, 4.0, g=BUSY)
        assert view_of(sender) == before
        assert repairs(cluster) == 0
        cluster.run(20.0)
        assert mode_of(sender) == (False, False)
        check_nothing_is_wrong(cluster)


def test_an_operator_who_changes_her_mind_starts_the_gms_with_other_names() -> None:
    """Stored addresses go, and named groups get one, each with a new view."""
    cluster = wide_cluster(ServiceConfig(hybrid=frozenset({"g"})), groups=("g", "h"))
    sender = cluster.nodes[MEMBERS]
    assert (mode_of(sender), mode_of(sender, "h")) == ((True, True), (False, False))
    views = view_of(sender).view, view_of(sender, "h").view
    cluster.gms.config = ServiceConfig(hybrid=frozenset({"h"}))
    cluster.gms.restart(0.3)
    talk(cluster, 3.0, g=BUSY, h=BUSY)
    assert (mode_of(sender), mode_of(sender, "h")) == ((False, False), (True, True))
    assert (view_of(sender).view, view_of(sender, "h").view) == (views[0] + 1, views[1] + 1)
    check_nothing_is_wrong(cluster)
