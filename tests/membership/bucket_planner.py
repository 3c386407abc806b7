"""A planner with merged regions: members get traffic of groups they did not join."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quicksilver.membership.planning.model import PlanCost, PlanDelta, PlanState
from quicksilver.wire.ids import GroupId, NodeId, RegionId

BUCKETS = 3


class BucketPlanner:
    """A region per residue of the node identifier, whatever the nodes joined."""

    name = "buckets"

    def __init__(self) -> None:
        self._joined: dict[NodeId, frozenset[GroupId]] = {}
        self._regions: dict[int, RegionId] = {}
        self._published = PlanState({}, {})
        self._next = 1

    def apply(self, changes: Mapping[NodeId, frozenset[GroupId]]) -> PlanDelta:
        for node, groups in changes.items():
            self._joined.pop(node, None)
            if groups:
                self._joined[node] = groups
        buckets: dict[int, list[NodeId]] = {}
        for node in sorted(self._joined):
            buckets.setdefault(node % BUCKETS, []).append(node)
        gone = [self._regions.pop(b) for b in list(self._regions) if b not in buckets]
        for bucket in buckets:
            if bucket not in self._regions:
                self._regions[bucket] = RegionId(self._next)
                self._next += 1
        regions = {self._regions[b]: tuple(nodes) for b, nodes in buckets.items()}
        spans: dict[GroupId, set[RegionId]] = {}
        for node, joined in self._joined.items():
            for group in joined:
                spans.setdefault(group, set()).add(self._regions[node % BUCKETS])
        groups_now = {g: tuple(sorted(r)) for g, r in spans.items()}
        before = self._published
        self._published = PlanState(regions, groups_now, {}, self._next)
        return PlanDelta(
            {r: m for r, m in regions.items() if before.regions.get(r) != m},
            tuple(sorted(gone)),
            {
                g: groups_now.get(g, ())
                for g in groups_now.keys() | before.groups.keys()
                if groups_now.get(g, ()) != before.groups.get(g)
            },
        )

    def adapt(self, rates: Mapping[GroupId, float]) -> bool:
        return False

    def cost(self, traffic: Mapping[GroupId, float] | None = None) -> PlanCost:
        return PlanCost(len(self._joined), 0, len(self._regions), 1, 1, 1, 1, 1, 0.0)

    def state(self) -> PlanState:
        return self._published

    def restore(
        self, members: Iterable[tuple[NodeId, frozenset[GroupId]]], state: PlanState
    ) -> None:
        self._joined = dict(members)
        self._published = state
        self._next = state.next_region
        self._regions = {nodes[0] % BUCKETS: r for r, nodes in state.regions.items()}
