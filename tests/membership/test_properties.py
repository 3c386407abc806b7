"""Random histories against what must always hold, and what must come in the end."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from quicksilver.membership import planning
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.planning import make_planner
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.membership.store import Commit, MemoryStore, StoreError
from quicksilver.wire.gms import ClusterSettings
from tests.membership.bucket_planner import BucketPlanner
from tests.membership.cluster import Cluster, Peer
from tests.membership.exact_planner import ExactPlanner

# Few names: nodes must often have equal sets, or no region has two members.
NAMES = ["a.x", "a.y", "b"]
BESIDES = ["$attend.queue.w.b", "$private.p"]
PATTERNS = ["a.*", "*", "a.>", ">", "*.x"]
every_name = st.lists(st.sampled_from(NAMES + BESIDES), max_size=4, unique=True)
patterns = st.lists(st.sampled_from(PATTERNS), max_size=2, unique=True)
names = st.lists(st.sampled_from(NAMES), max_size=3, unique=True)
pick = st.integers(0, 1_000)
hybrids = st.sampled_from(["auto", "auto", "off", frozenset(NAMES[:2])])
LIMITS = PlanLimits(regions_per_node_max=2, region_nodes_min=2)
PLANNERS = {
    "fake-exact": ExactPlanner,
    "fake-buckets": BucketPlanner,
    **{name: partial(make_planner, name, LIMITS) for name in planning.PLANNERS},
}


class CrashingStore(MemoryStore):
    """Fails when told to: just before, or just after a commit is durable."""

    def __init__(self) -> None:
        super().__init__()
        self.crash: str | None = None
        self.commits: list[Commit] = []

    def commit(self, commit: Commit) -> None:
        crash, self.crash = self.crash, None
        if crash == "before":
            raise StoreError("memory", "crashed before the commit")
        if self.commits:
            before, after = self.commits[-1].counters, commit.counters
            assert after.batch >= before.batch
            assert after.node >= before.node
            assert after.group >= before.group
            assert after.region >= before.region
        self.commits.append(commit)
        super().commit(commit)
        if crash == "after":
            raise StoreError("memory", "crashed after the commit")


class Histories(RuleBasedStateMachine):
    """Joins, leaves, crashes, lost connections, freezes and GMS restarts."""

    @initialize(planner=st.sampled_from(sorted(PLANNERS)), hybrid=hybrids)
    def begin(self, planner: str, hybrid) -> None:
        self.store = CrashingStore()
        self.cluster = Cluster(
            store=self.store,
            make_planner=PLANNERS[planner],
            settings=ClusterSettings(traffic_interval_s=0.2),
            config=ServiceConfig(hybrid=hybrid, adapt_interval_s=0.5),
            pool="239.192.0.0/29",
        )

    def peer(self, at: int) -> Peer:
        return self.cluster.peers[at % len(self.cluster.peers)]

    def has_peers(self) -> bool:
        return bool(self.cluster.peers)

    @precondition(lambda self: len(self.cluster.peers) < 8)
    @rule(join=every_name, opened=every_name, match=patterns)
    def a_node_starts(self, join: list[str], opened: list[str], match: list[str]) -> None:
        self.cluster.add().subscribe(join=join, open=opened, match=match)

    @precondition(has_peers)
    @rule(at=pick, join=every_name, leave=every_name, opened=names, closed=every_name)
    def a_node_subscribes(self, at, join, leave, opened, closed) -> None:
        self.peer(at).subscribe(join=join, leave=leave, open=opened, close=closed)

    @precondition(has_peers)
    @rule(at=pick, match=patterns, unmatch=patterns, leave=names)
    def a_node_changes_its_patterns(self, at, match, unmatch, leave) -> None:
        self.peer(at).subscribe(match=match, unmatch=unmatch, leave=leave)

    @precondition(has_peers)
    @rule(at=pick)
    def a_node_crashes(self, at: int) -> None:
        self.cluster.crash(self.peer(at))

    @precondition(has_peers)
    @rule(at=pick)
    def a_connection_breaks(self, at: int) -> None:
        self.cluster.disconnect(self.peer(at))

    @precondition(has_peers)
    @rule(at=pick)
    def a_node_leaves(self, at: int) -> None:
        peer = self.peer(at)
        peer.is_frozen = False
        self.cluster.leave(peer)

    @precondition(has_peers)
    @rule(at=pick)
    def a_node_freezes_or_thaws(self, at: int) -> None:
        peer = self.peer(at)
        peer.is_frozen = not peer.is_frozen

    @precondition(has_peers)
    @rule(at=pick, groups=names, count=st.sampled_from([0, 1, 1000]))
    def a_node_sends_to_groups(self, at: int, groups: list[str], count: int) -> None:
        """Some groups become worth an address of their own, or stop to be."""
        client = self.peer(at).client

        def tell(_: int) -> tuple[tuple[int, int], ...]:
            views = client.directory.groups.values()
            return tuple((view.id, count) for view in views if view.name in groups)

        client.set_traffic(tell)

    @rule(hybrid=hybrids)
    def the_gms_restarts(self, hybrid) -> None:
        self.cluster.config = replace(self.cluster.config, hybrid=hybrid)
        self.cluster.stop()
        self.cluster.start()

    @rule(when=st.sampled_from(["before", "after"]))
    def the_gms_crashes_in_its_next_commit(self, when: str) -> None:
        self.store.crash = when

    @rule(seconds=st.sampled_from([0.0, 0.001, 0.021, 0.3, 0.6, 4.0]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.run(seconds)

    @rule()
    def everything_settles(self) -> None:
        for peer in self.cluster.peers:
            peer.is_frozen = False
        self.cluster.settle()

    @invariant()
    def never_misfits(self) -> None:
        """Incremental updates always fit what the service believes a node has."""
        if hasattr(self, "cluster"):
            assert all(peer.client.misfits == 0 for peer in self.cluster.peers)

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.everything_settles()


@pytest.mark.slow
def test_any_history_keeps_views_consistent_and_converges() -> None:
    """View numbers never go back or stand for two views, group views are covered
    by disjoint region views, and all directories end up with the truth."""
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=int(os.environ.get("QS_EXAMPLES", "100")),
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
