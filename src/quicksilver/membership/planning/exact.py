"""The plain rule: nodes with the same set of groups form a region.

"For any set of groups S, region R_S is the set of all nodes x such that
G(x) = S" (dissertation 4.1.2). There is no unwanted traffic and every node is
in one region; where interests are irregular, the regions are tiny.
"""

from __future__ import annotations

from quicksilver.membership.planning.base import LayoutPlanner
from quicksilver.membership.planning.keyed import place_by_key
from quicksilver.wire.ids import GroupId, NodeId


class ExactPlanner(LayoutPlanner):
    """One hierarchy of all groups, regions of equal interests."""

    name = "exact"

    _is_restored = False

    def _become_restored(self) -> None:
        self._is_restored = True

    def _place(self, nodes: list[NodeId], groups: list[GroupId]) -> None:
        layout = self._layout
        hierarchy = layout.hierarchies[0]
        if self._is_restored:
            # The stored plan may be another planner's: check all of it, once.
            self._is_restored = False
            nodes, groups = sorted(layout.wants), sorted(layout.member_bits)
        for group in groups:
            if layout.hierarchy_of.get(group) is not hierarchy:
                layout.assign(group, hierarchy)
        for other in layout.hierarchies[1:]:
            for node in sorted(other.place):
                layout.move(node, other, None)
        place_by_key(layout, hierarchy, nodes)
