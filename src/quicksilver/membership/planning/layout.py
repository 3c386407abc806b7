"""The plan that all planners edit: groups in hierarchies, nodes in regions.

A plan is a list of hierarchies. Each group is in one of them, and each
hierarchy places every node that wants one of its groups into one region; a
group maps to the regions that its members are in. Whatever a planner decides,
two promises of ``model`` then hold by construction: the regions of a group are
disjoint and hold each member exactly once, and a node is in at most as many
regions as there are hierarchies, whose numbers lie below the cap.

Sets of nodes and of groups are Python integers used as bit sets (a union of
2,000 nodes takes a tenth of a microsecond). Bits are slots that are recycled,
so nothing grows with the number of nodes that ever lived; since slots depend on
history, no decision may depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Generic, TypeVar

from quicksilver.membership.planning.model import (
    PlanCost,
    PlanDelta,
    PlanLimits,
    PlanState,
)
from quicksilver.wire.ids import GroupId, NodeId, RegionId

K = TypeVar("K")


class Slots(Generic[K]):
    """Hands out the lowest free bit to each key."""

    __slots__ = ("_free", "_keys", "_slots")

    def __init__(self) -> None:
        # Not the bits themselves: each is as long as there are keys before it, and
        # 100,000 of them took 600 MB.
        self._slots: dict[K, int] = {}
        self._keys: list[K | None] = []
        self._free: list[int] = []

    def bit(self, key: K) -> int:
        """Return the bit of ``key``, giving it one if it has none."""
        slot = self._slots.get(key)
        if slot is None:
            if self._free:
                slot = heappop(self._free)
                self._keys[slot] = key
            else:
                slot = len(self._keys)
                self._keys.append(key)
            self._slots[key] = slot
        return 1 << slot

    def bit_of(self, key: K) -> int:
        """Return the bit set that holds just ``key``, which has a bit."""
        return 1 << self._slots[key]

    def release(self, key: K) -> None:
        """Free the bit of ``key``; no bit set may hold it any more."""
        slot = self._slots.pop(key)
        self._keys[slot] = None
        heappush(self._free, slot)

    def keys(self, bits: int) -> Iterator[K]:
        """Yield the keys of a bit set, in the order of slots."""
        digits = bin(bits)[:1:-1]
        at = digits.find("1")
        while at >= 0:
            key = self._keys[at]
            assert key is not None
            yield key
            at = digits.find("1", at + 1)


class Region:
    """Nodes that share one address within one hierarchy."""

    __slots__ = ("heard", "heard_count", "id", "nodes")

    def __init__(self, number: RegionId) -> None:
        self.id = number
        self.nodes: set[NodeId] = set()
        self.heard = 0
        """Groups of the hierarchy that some node here wants, as bits."""
        self.heard_count = 0
        """``heard.bit_count()``, which placement reads for every region."""


class Hierarchy:
    """A set of groups with regions of its own."""

    __slots__ = ("groups", "number", "place", "regions")

    def __init__(self, number: int) -> None:
        self.number = number
        self.groups = 0
        """The groups planned here, as bits."""
        self.regions: dict[RegionId, Region] = {}
        self.place: dict[NodeId, Region] = {}
        """Exactly the nodes that want a group of this hierarchy, between batches."""


class Layout:
    """One plan, and the delta since it was last asked for."""

    def __init__(self, limits: PlanLimits) -> None:
        self.limits = limits
        self.node_slots = Slots[NodeId]()
        self.group_slots = Slots[GroupId]()
        self.wants: dict[NodeId, frozenset[GroupId]] = {}
        self.want_bits: dict[NodeId, int] = {}
        self.member_bits: dict[GroupId, int] = {}
        self.hierarchies = [Hierarchy(i) for i in range(limits.regions_per_node_max)]
        self.hierarchy_of: dict[GroupId, Hierarchy] = {}
        self.spread: dict[GroupId, dict[RegionId, int]] = {}
        """How many members of a group each of its regions holds (never zero)."""
        self.next_region = 1
        self._regions_before: dict[RegionId, tuple[NodeId, ...] | None] = {}
        """What the next delta starts from; None: the region did not exist."""
        self._groups_before: dict[GroupId, tuple[RegionId, ...]] = {}

    # Edits ------------------------------------------------------------------

    def set_wants(self, node: NodeId, groups: frozenset[GroupId]) -> None:
        """Change what a node wants, leaving it in the regions that it is in."""
        old = self.wants.get(node, frozenset())
        node_bit = self.node_slots.bit(node)
        bits = self.want_bits.get(node, 0)
        for group in old - groups:
            bits &= ~self.group_slots.bit_of(group)
            self.member_bits[group] ^= node_bit
            region = self._region_of(node, group)
            if region is not None:
                self._count(group, region, -1)
        for group in groups - old:
            bits |= self.group_slots.bit(group)
            self.member_bits[group] = self.member_bits.get(group, 0) | node_bit
            region = self._region_of(node, group)
            if region is not None:
                self._count(group, region, 1)
        self.wants[node] = groups
        self.want_bits[node] = bits

    def forget(self, node: NodeId) -> None:
        """Drop a node that wants nothing and is in no region."""
        assert not self.want_bits[node]
        del self.wants[node], self.want_bits[node]
        self.node_slots.release(node)

    def forget_empty_groups(self, groups: Iterable[GroupId]) -> None:
        """Drop those of the given groups that nobody wants."""
        for group in sorted(groups):
            if self.member_bits.get(group) == 0:
                self.unassign(group)
                del self.member_bits[group]
                self.group_slots.release(group)

    def assign(self, group: GroupId, hierarchy: Hierarchy) -> None:
        """Plan a group in a hierarchy; members without a place there need one."""
        self.unassign(group)
        self.hierarchy_of[group] = hierarchy
        hierarchy.groups |= self.group_slots.bit_of(group)
        for node in self.node_slots.keys(self.member_bits[group]):
            region = hierarchy.place.get(node)
            if region is not None:
                self._count(group, region, 1)

    def unassign(self, group: GroupId) -> None:
        """Take a group out of its hierarchy; its members keep their places."""
        hierarchy = self.hierarchy_of.pop(group, None)
        if hierarchy is None:
            return
        for number, count in sorted(self.spread.get(group, {}).items()):
            self._count(group, hierarchy.regions[number], -count)
        hierarchy.groups &= ~self.group_slots.bit_of(group)

    def add_region(self, hierarchy: Hierarchy) -> Region:
        """Return a new, empty region with a number that was never used."""
        region = Region(RegionId(self.next_region))
        self.next_region += 1
        hierarchy.regions[region.id] = region
        return region

    def move(self, node: NodeId, hierarchy: Hierarchy, region: Region | None) -> None:
        """Put a node into a region of the hierarchy, or (None) into none."""
        old = hierarchy.place.get(node)
        if old is region:
            return
        wanted = list(self.group_slots.keys(self.want_bits[node] & hierarchy.groups))
        if old is not None:
            self._note_region(old)
            old.nodes.discard(node)
            for group in wanted:
                self._count(group, old, -1)
            if not old.nodes:
                del hierarchy.regions[old.id]
        if region is None:
            del hierarchy.place[node]
            return
        self._note_region(region)
        region.nodes.add(node)
        hierarchy.place[node] = region
        for group in wanted:
            self._count(group, region, 1)

    def _region_of(self, node: NodeId, group: GroupId) -> Region | None:
        hierarchy = self.hierarchy_of.get(group)
        return None if hierarchy is None else hierarchy.place.get(node)

    def _count(self, group: GroupId, region: Region, change: int) -> None:
        spread = self.spread.get(group)
        if spread is None:
            spread = self.spread[group] = {}
        old = spread.get(region.id, 0)
        new = old + change
        assert new >= 0
        if old and new:
            spread[region.id] = new
            return
        self._note_group(group)
        bit = self.group_slots.bit_of(group)
        if new:
            spread[region.id] = new
            region.heard |= bit
            region.heard_count += 1
        else:
            del spread[region.id]
            region.heard ^= bit
            region.heard_count -= 1
            if not spread:
                del self.spread[group]

    def _note_region(self, region: Region) -> None:
        if region.id not in self._regions_before:
            self._regions_before[region.id] = tuple(sorted(region.nodes)) or None

    def _note_group(self, group: GroupId) -> None:
        if group not in self._groups_before:
            self._groups_before[group] = tuple(sorted(self.spread.get(group, ())))

    # Answers ----------------------------------------------------------------

    def follow(self, state: PlanState) -> None:
        """Let the next delta start from ``state``, in order or not, instead of from the present."""
        self._regions_before = {r: tuple(n) for r, n in state.regions.items()}
        self._groups_before = {g: tuple(r) for g, r in state.groups.items()}
        for hierarchy in self.hierarchies:
            for number in hierarchy.regions:
                self._regions_before.setdefault(number, None)
        for group in self.spread:
            self._groups_before.setdefault(group, ())

    def take_delta(self) -> PlanDelta:
        """Return what changed since the last call."""
        now = {
            number: hierarchy.regions[number]
            for hierarchy in self.hierarchies
            for number in self._regions_before.keys() & hierarchy.regions.keys()
        }
        changed: dict[RegionId, tuple[NodeId, ...]] = {}
        gone: list[RegionId] = []
        for number, before in sorted(self._regions_before.items()):
            region = now.get(number)
            if region is None:
                if before is not None:
                    gone.append(number)
                continue
            nodes = tuple(sorted(region.nodes))
            if nodes != before:
                changed[number] = nodes
        groups: dict[GroupId, tuple[RegionId, ...]] = {}
        for group, was in sorted(self._groups_before.items()):
            regions = tuple(sorted(self.spread.get(group, ())))
            if regions != was:
                groups[group] = regions
        self._regions_before.clear()
        self._groups_before.clear()
        return PlanDelta(regions=changed, regions_gone=tuple(gone), groups=groups)

    def state(self) -> PlanState:
        """Return the whole plan as plain data."""
        regions = {
            number: tuple(sorted(region.nodes))
            for hierarchy in self.hierarchies
            for number, region in hierarchy.regions.items()
        }
        return PlanState(
            regions=dict(sorted(regions.items())),
            groups={g: tuple(sorted(r)) for g, r in sorted(self.spread.items())},
            hierarchies={
                g: h.number for g, h in sorted(self.hierarchy_of.items(), key=lambda item: item[0])
            },
            next_region=self.next_region,
        )

    def cost(self, traffic: Mapping[GroupId, float] | None) -> PlanCost:
        """Add up what the plan costs."""
        sizes = {
            number: len(region.nodes)
            for hierarchy in self.hierarchies
            for number, region in hierarchy.regions.items()
        }
        memberships = [0] * len(self.wants)
        order = {node: i for i, node in enumerate(sorted(self.wants))}
        for hierarchy in self.hierarchies:
            for node in hierarchy.place:
                memberships[order[node]] += 1
        delivered = wanted = 0.0
        for group, regions in sorted(self.spread.items()):
            weight = 1.0 if traffic is None else traffic.get(group, 0.0)
            delivered += weight * sum(sizes[number] for number in regions)
            wanted += weight * self.member_bits[group].bit_count()
        fans = [len(regions) for regions in self.spread.values()]
        return PlanCost(
            nodes=len(self.wants),
            groups=len(self.spread),
            regions=len(sizes),
            hierarchies=sum(1 for h in self.hierarchies if h.groups),
            regions_per_node_mean=sum(memberships) / max(1, len(memberships)),
            regions_per_node_max=max(memberships, default=0),
            regions_per_group_mean=sum(fans) / max(1, len(fans)),
            regions_per_group_max=max(fans, default=0),
            unwanted_fraction=1.0 - wanted / delivered if delivered else 0.0,
        )


def restore_layout(
    limits: PlanLimits,
    members: Iterable[tuple[NodeId, frozenset[GroupId]]],
    state: PlanState,
) -> Layout:
    """Return a layout that takes over a stored plan as far as it is consistent.

    What was dropped counts as a change, so the next delta mends whoever still
    follows the stored plan. Groups that the stored plan does not cover are left
    without a hierarchy, nodes without a place.
    """
    layout = Layout(limits)
    for node, groups in sorted(members, key=lambda item: item[0]):
        if groups:
            layout.set_wants(node, groups)
    used = [number + 1 for number in state.regions]
    layout.next_region = max(1, state.next_region, *used)
    home: dict[RegionId, Hierarchy] = {}
    for group, numbers in sorted(state.groups.items()):
        level = state.hierarchies.get(group, 0)
        if group in layout.member_bits and 0 <= level < len(layout.hierarchies):
            hierarchy = layout.hierarchies[level]
            if all(home.get(number, hierarchy) is hierarchy for number in numbers):
                home.update((n, hierarchy) for n in numbers if n in state.regions)
                layout.assign(group, hierarchy)
    for number, hierarchy in sorted(home.items(), key=lambda item: item[0]):
        region = Region(number)
        hierarchy.regions[number] = region
        for node in sorted(set(state.regions[number])):
            wanted = layout.want_bits.get(node, 0) & hierarchy.groups
            if wanted and node not in hierarchy.place:
                layout.move(node, hierarchy, region)
        if not region.nodes:
            del hierarchy.regions[number]
    layout.follow(state)
    return layout
