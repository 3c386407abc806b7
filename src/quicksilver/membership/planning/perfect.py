"""Perfect hierarchies: "every pair of groups is either ordered by inclusion or
disjoint" (dissertation 4.1.2, Figure 4.4)."""

from __future__ import annotations

from collections.abc import Collection

from quicksilver.membership.planning.strict import StrictPlanner


class PerfectPlanner(StrictPlanner):
    """Any two groups of a hierarchy are nested or disjoint."""

    name = "perfect"
    _needs_parts = False

    def _fits(self, members: int, others: Collection[int], parts: Collection[int]) -> bool:
        for other in others:
            shared = members & other
            if shared and shared != members and shared != other:
                return False
        return True
