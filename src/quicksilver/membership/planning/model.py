"""What a region planner is given and what it answers.

A planner turns "who is in which group" into regions: sets of nodes that share
one multicast address and one recovery protocol. All planners keep these
promises, and ``check_plan`` verifies them:

* every member of a group is in exactly one of the regions the group maps to,
  and those regions are disjoint (dissertation 4.2.1 A);
* a region may hold nodes that did not join some group that maps to it; they
  drop its packets ("unwanted traffic"), which only merged regions allow;
* no node is in more regions than ``regions_per_node_max``;
* the result depends on the inputs alone: no clock, no chance, no hash order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from quicksilver.wire.ids import GroupId, NodeId, RegionId


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLimits:
    """How far a plan may go."""

    regions_per_node_max: int = 20
    """Linux allows 20 multicast memberships a socket by default."""

    region_nodes_min: int = 5
    """Regular hierarchies: a split that makes a smaller part is refused."""


@dataclass(frozen=True, slots=True)
class PlanDelta:
    """What one batch of changes did to the plan."""

    regions: Mapping[RegionId, tuple[NodeId, ...]] = field(default_factory=dict)
    """Members, ascending, of every region that is new or changed."""

    regions_gone: tuple[RegionId, ...] = ()

    groups: Mapping[GroupId, tuple[RegionId, ...]] = field(default_factory=dict)
    """Regions, ascending, of every group whose list changed (empty: no members)."""


@dataclass(frozen=True, slots=True)
class PlanCost:
    """What a plan costs; the numbers that the papers give for theirs."""

    nodes: int
    groups: int
    regions: int
    hierarchies: int
    regions_per_node_mean: float
    regions_per_node_max: int
    regions_per_group_mean: float
    regions_per_group_max: int
    unwanted_fraction: float
    """Deliveries to nodes that did not join, of all deliveries, with equal
    traffic in every group (or by the given weights)."""


@dataclass(frozen=True, slots=True)
class PlanState:
    """A whole plan as plain data: what the GMS stores and ``--plan`` loads."""

    regions: Mapping[RegionId, tuple[NodeId, ...]]
    groups: Mapping[GroupId, tuple[RegionId, ...]]
    hierarchies: Mapping[GroupId, int] = field(default_factory=dict)
    """Which hierarchy each group is in; empty for planners without any."""
    next_region: int = 1


class Planner(Protocol):
    """Keeps a plan up to date, batch by batch."""

    name: str

    def apply(self, changes: Mapping[NodeId, frozenset[GroupId]]) -> PlanDelta:
        """Set the groups of the given nodes (empty set: the node is gone)."""
        ...

    def adapt(self, rates: Mapping[GroupId, float]) -> bool:
        """Plan for this traffic, if that is much cheaper; True: the next ``apply`` says who moves.

        Planners whose rule leaves no choice, and plans too large to be made in a
        moment, stay as they are.
        """
        ...

    def cost(self, traffic: Mapping[GroupId, float] | None = None) -> PlanCost: ...

    def state(self) -> PlanState: ...

    def restore(
        self, members: Iterable[tuple[NodeId, frozenset[GroupId]]], state: PlanState
    ) -> None:
        """Continue from a stored plan without moving anyone.

        Where ``state`` lacks what ``members`` need (a loaded plan that is out
        of date), the next ``apply`` repairs it.
        """
        ...
