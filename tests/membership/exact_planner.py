"""The smallest planner that keeps the promises: equal sets of groups, one region."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quicksilver.membership.planning.model import PlanCost, PlanDelta, PlanState
from quicksilver.wire.ids import GroupId, NodeId, RegionId


class ExactPlanner:
    """Regions are the classes of nodes with the same set of groups."""

    def __init__(self, name: str = "exact") -> None:
        self.name = name
        self.costs = 0
        self._node_region: dict[NodeId, RegionId] = {}
        self._members: dict[RegionId, set[NodeId]] = {}
        self._key: dict[RegionId, frozenset[GroupId]] = {}
        self._region: dict[frozenset[GroupId], RegionId] = {}
        self._groups: dict[GroupId, set[RegionId]] = {}
        self._next = 1

    def apply(self, changes: Mapping[NodeId, frozenset[GroupId]]) -> PlanDelta:
        regions: set[RegionId] = set()
        groups: set[GroupId] = set()
        for node, key in changes.items():
            before = self._node_region.pop(node, None)
            if before is not None:
                self._members[before].discard(node)
                regions.add(before)
            if not key:
                continue
            region = self._region.get(key)
            if region is None:
                region = RegionId(self._next)
                self._next += 1
                self._open(region, key)
                groups |= key
            self._members[region].add(node)
            self._node_region[node] = region
            regions.add(region)
        gone = sorted(r for r in regions if not self._members[r])
        for region in gone:
            key = self._key.pop(region)
            del self._region[key]
            del self._members[region]
            groups |= key
            for group in key:
                self._groups[group].discard(region)
        delta = PlanDelta(
            {r: tuple(sorted(self._members[r])) for r in sorted(regions) if r in self._members},
            tuple(gone),
            {g: tuple(sorted(self._groups[g])) for g in sorted(groups)},
        )
        for group in groups:
            if not self._groups[group]:
                del self._groups[group]
        return delta

    def _open(self, region: RegionId, key: frozenset[GroupId]) -> None:
        self._members[region] = set()
        self._key[region] = key
        self._region[key] = region
        for group in key:
            self._groups.setdefault(group, set()).add(region)

    def adapt(self, rates: Mapping[GroupId, float]) -> bool:
        return False

    def cost(self, traffic: Mapping[GroupId, float] | None = None) -> PlanCost:
        self.costs += 1
        return PlanCost(
            len(self._node_region), len(self._groups), len(self._members), 1, 1, 1, 1, 1, 0.0
        )

    def state(self) -> PlanState:
        return PlanState({}, {}, {}, self._next)

    def restore(
        self, members: Iterable[tuple[NodeId, frozenset[GroupId]]], state: PlanState
    ) -> None:
        self._next = state.next_region
        by_node = dict(members)
        for region, nodes in state.regions.items():
            self._open(region, by_node[nodes[0]])
            for node in nodes:
                self._members[region].add(node)
                self._node_region[node] = region
