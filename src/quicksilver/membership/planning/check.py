"""Whether a plan keeps the promises that ``model`` makes for every planner."""

from __future__ import annotations

from collections.abc import Mapping

from quicksilver.membership.planning.model import PlanLimits, PlanState
from quicksilver.stdx.errors import QuicksilverError
from quicksilver.wire.ids import GroupId, NodeId, RegionId


class PlanViolation(QuicksilverError):  # noqa: N818  # a verdict, not a failure
    """A promise that a plan breaks, and where."""

    def __init__(
        self,
        promise: str,
        *,
        group: GroupId | None = None,
        node: NodeId | None = None,
        regions: tuple[RegionId, ...] = (),
    ) -> None:
        super().__init__(promise, group, node, regions)
        self.promise = promise
        """``cover``, ``disjoint``, ``known``, ``order``, ``idle``, ``cap``, ``fresh``."""
        self.group = group
        self.node = node
        self.regions = regions

    def __str__(self) -> str:
        where = [
            f"{name} {value}"
            for name, value in (("group", self.group), ("node", self.node))
            if value is not None
        ]
        if self.regions:
            where.append(f"regions {', '.join(map(str, self.regions))}")
        return f"{_MEANINGS[self.promise]}: {'; '.join(where)}"


_MEANINGS = {
    "cover": "a member of the group is in none of its regions",
    "disjoint": "a node is in several regions of one group",
    "known": "the plan names what does not exist",
    "order": "identifiers are not ascending",
    "idle": "a region carries no group, or no member of a group that it carries",
    "cap": "a node is in too many regions",
    "fresh": "the next region number was used before",
}


def check_plan(
    members: Mapping[NodeId, frozenset[GroupId]], state: PlanState, limits: PlanLimits
) -> None:
    """Raise ``PlanViolation`` for the first promise that the plan breaks."""
    joined: dict[GroupId, set[NodeId]] = {}
    for node, groups in sorted(members.items()):
        for group in groups:
            joined.setdefault(group, set()).add(node)
    _check_regions(members, state, limits)
    carried: set[RegionId] = set()
    for group, numbers in sorted(state.groups.items()):
        carried.update(numbers)
        _check_group(group, numbers, joined.get(group, set()), state)
    for group in sorted(joined.keys() - state.groups.keys()):
        raise PlanViolation("cover", group=group, node=min(joined[group]))
    for number in sorted(state.regions.keys() - carried):
        raise PlanViolation("idle", regions=(number,))


def _check_regions(
    members: Mapping[NodeId, frozenset[GroupId]], state: PlanState, limits: PlanLimits
) -> None:
    homes: dict[NodeId, list[RegionId]] = {}
    for number, nodes in sorted(state.regions.items()):
        if number >= state.next_region:
            raise PlanViolation("fresh", regions=(number,))
        if list(nodes) != sorted(set(nodes)):
            raise PlanViolation("order", regions=(number,))
        if not nodes:
            raise PlanViolation("idle", regions=(number,))
        for node in nodes:
            homes.setdefault(node, []).append(number)
    for node, numbers in sorted(homes.items()):
        if not members.get(node):
            raise PlanViolation("known", node=node, regions=tuple(numbers))
        if len(numbers) > limits.regions_per_node_max:
            raise PlanViolation("cap", node=node, regions=tuple(numbers))


def _check_group(
    group: GroupId,
    numbers: tuple[RegionId, ...],
    joined: set[NodeId],
    state: PlanState,
) -> None:
    if list(numbers) != sorted(set(numbers)):
        raise PlanViolation("order", group=group, regions=numbers)
    if not joined:
        raise PlanViolation("known", group=group, regions=numbers)
    seen: dict[NodeId, RegionId] = {}
    for number in numbers:
        if number not in state.regions:
            raise PlanViolation("known", group=group, regions=(number,))
        nodes = state.regions[number]
        for node in nodes:
            if node in seen:
                both = (seen[node], number)
                raise PlanViolation("disjoint", group=group, node=node, regions=both)
            seen[node] = number
        if joined.isdisjoint(nodes):
            raise PlanViolation("idle", group=group, regions=(number,))
    for node in sorted(joined - seen.keys()):
        raise PlanViolation("cover", group=group, node=node, regions=numbers)
