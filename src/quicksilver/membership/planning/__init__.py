"""Region planning: from "who is in which group" to regions and hierarchies.

``model`` states the contract, ``layout`` holds a plan, ``exact``, ``perfect``,
``regular`` and ``merged`` are the planners, ``check`` verifies any plan.
"""

from __future__ import annotations

from collections.abc import Mapping

from quicksilver.membership.planning.exact import ExactPlanner
from quicksilver.membership.planning.merged import AutoPlanner, MergedPlanner
from quicksilver.membership.planning.model import PlanLimits, Planner
from quicksilver.membership.planning.perfect import PerfectPlanner
from quicksilver.membership.planning.regular import RegularPlanner
from quicksilver.wire.ids import GroupId

PLANNERS = {
    planner.name: planner
    for planner in (
        AutoPlanner,
        ExactPlanner,
        PerfectPlanner,
        RegularPlanner,
        MergedPlanner,
    )
}
"""Every planner by the name that users give it; ``auto`` is the default."""


def make_planner(
    name: str, limits: PlanLimits, rates: Mapping[GroupId, float] | None = None
) -> Planner:
    """Return a new planner; ``ValueError`` if there is none of that name.

    ``rates`` is the traffic of the groups, in any unit; a group that is not there has
    none. Without it, every group counts the same.
    """
    if name not in PLANNERS:
        raise ValueError(f"no planner {name!r}: choose one of {', '.join(PLANNERS)}")
    return PLANNERS[name](limits, rates)


__all__ = ["PLANNERS", "make_planner"]
