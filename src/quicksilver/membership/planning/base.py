"""What all planners share: the order of one batch, and restoring."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from quicksilver.membership.planning.layout import Layout, restore_layout
from quicksilver.membership.planning.model import (
    PlanCost,
    PlanDelta,
    PlanLimits,
    PlanState,
)
from quicksilver.wire.ids import GroupId, NodeId


class LayoutPlanner(ABC):
    """A planner that edits a ``Layout``; subclasses decide what goes where."""

    name: str

    def __init__(self, limits: PlanLimits, rates: Mapping[GroupId, float] | None = None) -> None:
        if limits.regions_per_node_max < 1 or limits.region_nodes_min < 1:
            raise ValueError("plan limits must be at least 1")
        self._layout = Layout(limits)
        self._rates = rates
        """Traffic of the groups, where it is known; none: the same in all."""
        self._is_stale = False
        """A restored plan may lack places that members need."""

    def apply(self, changes: Mapping[NodeId, frozenset[GroupId]]) -> PlanDelta:
        """Set the groups of the given nodes (empty set: the node is gone)."""
        layout = self._layout
        nodes: set[NodeId] = set()
        groups: set[GroupId] = set()
        for node, wanted in sorted(changes.items()):
            before = layout.wants.get(node, frozenset())
            if wanted != before:
                nodes.add(node)
                groups |= wanted ^ before
                layout.set_wants(node, wanted)
        was_stale, self._is_stale = self._is_stale, False
        if was_stale:
            nodes.update(self._find_unplaced())
            groups |= layout.member_bits.keys() - layout.hierarchy_of.keys()
        self._drop_idle(nodes)
        layout.forget_empty_groups(groups)
        remaining = sorted(n for n in nodes if layout.want_bits.get(n))
        touched = sorted(g for g in groups if g in layout.member_bits)
        for node in sorted(nodes):
            if not layout.want_bits[node]:
                layout.forget(node)
        if remaining or touched or was_stale:
            self._place(remaining, touched)
        return layout.take_delta()

    def adapt(self, rates: Mapping[GroupId, float]) -> bool:
        """Stay: the rule alone decides, whatever the traffic is."""
        return False

    def cost(self, traffic: Mapping[GroupId, float] | None = None) -> PlanCost:
        """Return what the plan costs, with equal or the given traffic."""
        return self._layout.cost(traffic)

    def state(self) -> PlanState:
        """Return the whole plan as plain data."""
        return self._layout.state()

    def restore(
        self, members: Iterable[tuple[NodeId, frozenset[GroupId]]], state: PlanState
    ) -> None:
        """Continue from a stored plan without moving anyone."""
        self._layout = restore_layout(self._layout.limits, members, state)
        self._is_stale = True
        self._become_restored()

    @abstractmethod
    def _become_restored(self) -> None:
        """Take up the layout that was restored."""

    @abstractmethod
    def _place(self, nodes: list[NodeId], groups: list[GroupId]) -> None:
        """Give every group a hierarchy and every node its places.

        ``nodes`` are those whose wishes changed and who still want something;
        ``groups`` those whose members changed and that still have some.
        """

    def _find_unplaced(self) -> list[NodeId]:
        layout = self._layout
        found: list[NodeId] = []
        for node, wanted in layout.want_bits.items():
            for hierarchy in layout.hierarchies:
                if wanted & hierarchy.groups and node not in hierarchy.place:
                    found.append(node)
                    break
        return found

    def _drop_idle(self, nodes: Iterable[NodeId]) -> None:
        for node in sorted(nodes):
            for hierarchy in self._layout.hierarchies:
                if node in hierarchy.place and not self._layout.want_bits[node] & hierarchy.groups:
                    self._layout.move(node, hierarchy, None)
