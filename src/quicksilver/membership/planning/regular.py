"""Regular hierarchies: no region may become small.

"We do not add groups to an existing hierarchy if doing so would cause any of
the regions in the resulting hierarchy to become too small" (dissertation
4.1.2); groups may overlap otherwise.
"""

from __future__ import annotations

from collections.abc import Collection

from quicksilver.membership.planning.strict import StrictPlanner


class RegularPlanner(StrictPlanner):
    """Groups split regions only into parts of ``region_nodes_min`` or more."""

    name = "regular"

    def _fits(self, members: int, others: Collection[int], parts: Collection[int]) -> bool:
        smallest = self._layout.limits.region_nodes_min
        outside = members
        for part in parts:
            inside = part & members
            if inside and inside != part:
                count = inside.bit_count()
                if count < smallest or part.bit_count() - count < smallest:
                    return False
            outside &= ~part
        return not outside or outside.bit_count() >= smallest
