"""Regions of nodes with *approximately* the same groups, few for every node.

Where the rules of the papers would put a node into more regions than the cap
allows, similar regions are merged, and members drop what they did not join. How
much dropping is worth a packet saved is the formula of ``optimise``, with
``region_nodes_min`` as the price of a packet: a region of its own pays off when
it spares that many nodes.

A large change is planned as a whole. A small one is fitted in: the nodes that
changed choose the cheapest region of each hierarchy, new groups the cheapest
hierarchy, and nobody else moves. Choices are sticky (a move must save a
quarter), so that regions do not flutter.

Where the traffic of the groups is known, the whole is planned for it, and anew when
the traffic has changed so much that it pays; fitting in counts groups alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from quicksilver.membership.planning.base import LayoutPlanner
from quicksilver.membership.planning.layout import Hierarchy, Layout, Region
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.membership.planning.optimise import (
    WORK_MAX,
    Band,
    Classes,
    Optimiser,
)
from quicksilver.wire.ids import GroupId, NodeId

_STICKY = 0.75
"""A change of place must cost less than this share of staying."""

_REPLAN_GAIN = 0.9
"""A new plan must cost less than this share of the old to be adopted."""

_ADAPT_GAIN = 0.8
"""A plan for the traffic of the moment must cost less than this share of the present one:
traffic changes, and everybody who is moved pays for it."""

_QUIET_RATE = 0.05
"""What a group counts at least, of the mean: one that is quiet now may speak tomorrow."""

_EXACT_GAIN = 0.75
"""What dropping packets must save before exact regions of good size are given up."""

_REPLAN_NODES_MAX = 600
_REPLAN_MEMBERSHIPS_MAX = 100_000
"""Up to here, planning anew takes a fraction of a second and is done unasked."""

_REPLAN_WORK_MAX = 500_000
"""Comparisons that an unasked plan may spend: measured, 0.2 s at most."""

_ADAPT_NODES_MAX = 2_000
_ADAPT_MEMBERSHIPS_MAX = 200_000
"""Up to here a plan for the traffic of the moment takes 0.5 s, and the batch that moves
everybody 0.7 s. Past ``_REPLAN_NODES_MAX`` nodes nothing is clustered: what such a plan gains by
are regions that fit the busiest groups, and finding those takes time by memberships alone. With
5,000 nodes the plan takes 0.6 s, the batch 2 s, and updates 930 MB."""


class Merger:
    """Keeps some hierarchies of a layout cheap; other rules may own the rest."""

    def __init__(
        self,
        layout: Layout,
        hierarchies: Sequence[Hierarchy],
        rates: Mapping[GroupId, float] | None = None,
    ) -> None:
        assert hierarchies
        self._layout = layout
        self.rates = rates
        self._hierarchies = list(hierarchies)
        self._packet_cost = layout.limits.region_nodes_min
        self._fitted: dict[GroupId, int] = {}
        """The size that each group had when its hierarchy was chosen."""

    def place(self, nodes: Iterable[NodeId], groups: Iterable[GroupId]) -> None:
        """Fit in nodes whose wishes changed and groups that changed or are new."""
        layout = self._layout
        waiting = {h.number: set(nodes) for h in self._hierarchies}
        sizes = {g: layout.member_bits[g].bit_count() for g in groups}
        for group in sorted(sizes, key=lambda g: (-sizes[g], g)):
            old = layout.hierarchy_of.get(group)
            if old is not None and not self._has_outgrown(group, sizes[group]):
                continue
            self._fitted[group] = sizes[group]
            new = self._choose_hierarchy(group, old)
            if new is old:
                continue
            layout.assign(group, new)
            members = set(layout.node_slots.keys(layout.member_bits[group]))
            waiting[new.number] |= members
            if old is not None:
                waiting.setdefault(old.number, set()).update(members)
        for hierarchy in self._hierarchies:
            for node in sorted(waiting[hierarchy.number]):
                self._place_node(node, hierarchy)

    def cost(self) -> float:
        """Return what the hierarchies cost, by the formula of ``optimise``."""
        if self.rates is not None:
            return self._weighted_cost(self.rates)
        return sum(
            region.heard_count * (len(region.nodes) + self._packet_cost)
            for hierarchy in self._hierarchies
            for region in hierarchy.regions.values()
        )

    def _weighted_cost(self, rates: Mapping[GroupId, float]) -> float:
        """Return the cost where groups weigh by their traffic, 1 on the mean."""
        prices = {
            number: len(region.nodes) + self._packet_cost
            for hierarchy in self._hierarchies
            for number, region in hierarchy.regions.items()
        }
        groups = sorted(self._layout.member_bits)
        total = sum(rates.get(group, 0.0) for group in groups)
        if not total:
            return 0.0
        spread = self._layout.spread
        cost = sum(
            rates.get(group, 0.0) * sum(prices.get(number, 0) for number in spread.get(group, ()))
            for group in groups
        )
        return cost * len(groups) / total

    def plan(
        self, groups: Iterable[GroupId], *, exact_first: bool, work_max: int = WORK_MAX
    ) -> list[Band]:
        """Return bands for the given groups; their numbers index ``sorted(groups)``.

        Parts list nodes by their place in the sorted list of all nodes.
        """
        layout = self._layout
        number = {group: i for i, group in enumerate(sorted(groups))}
        mask = sum(layout.group_slots.bit_of(group) for group in number)
        same: dict[int, list[int]] = {}
        for at, node in enumerate(sorted(layout.wants)):
            interests = layout.want_bits[node] & mask
            if interests:
                same.setdefault(interests, []).append(at)
        members = list(same.values())
        classes = Classes(
            weights=[len(part) for part in members],
            interests=[sorted(number[g] for g in layout.group_slots.keys(bits)) for bits in same],
            groups=len(number),
            rates=None if self.rates is None else [self.rates.get(g, 0.0) for g in number],
        )
        rates = classes.relative_rates()
        price = sum(
            (len(wanted) if rates is None else sum(rates[g] for g in wanted))
            * (weight + self._packet_cost)
            for weight, wanted in zip(classes.weights, classes.interests, strict=True)
        )
        bands = Optimiser(classes, self._packet_cost, work_max).plan(len(self._hierarchies))
        plans: list[Band] = []
        for band in bands:
            parts = [[n for c in part for n in members[c]] for part in band.parts]
            plans.append(Band(band.groups, parts, band.cost))
        is_tiny = sum(map(len, members)) < len(members) * self._packet_cost
        if exact_first and not is_tiny and sum(b.cost for b in bands) > _EXACT_GAIN * price:
            return [Band(list(number.values()), members, price)]
        return plans

    def adopt(self, groups: Iterable[GroupId], bands: list[Band]) -> None:
        """Rearrange the hierarchies as planned, keeping region numbers if possible."""
        layout = self._layout
        names = sorted(groups)
        nodes = sorted(layout.wants)
        targets = self._match_hierarchies(names, bands)
        for band, hierarchy in zip(bands, targets, strict=True):
            for g in band.groups:
                group = names[g]
                self._fitted[group] = layout.member_bits[group].bit_count()
                if layout.hierarchy_of.get(group) is not hierarchy:
                    layout.assign(group, hierarchy)
        for hierarchy in self._hierarchies:
            for node in sorted(hierarchy.place):
                if not layout.want_bits[node] & hierarchy.groups:
                    layout.move(node, hierarchy, None)
        for band, hierarchy in zip(bands, targets, strict=True):
            self._adopt_parts(hierarchy, [[nodes[n] for n in p] for p in band.parts])

    def _match_hierarchies(self, names: list[GroupId], bands: list[Band]) -> list[Hierarchy]:
        pairs: list[tuple[int, int, int]] = []
        for at, band in enumerate(bands):
            shared: dict[int, int] = {}
            for g in band.groups:
                old = self._layout.hierarchy_of.get(names[g])
                if old is not None:
                    shared[old.number] = shared.get(old.number, 0) + 1
            pairs += [(-count, at, number) for number, count in shared.items()]
        own = {h.number: h for h in self._hierarchies}
        found: dict[int, Hierarchy] = {}
        for _, at, number in sorted(pairs):
            if at not in found and number in own:
                found[at] = own.pop(number)
        spare = iter([own[number] for number in sorted(own)])
        return [found.get(at) or next(spare) for at in range(len(bands))]

    def _adopt_parts(self, hierarchy: Hierarchy, parts: list[list[NodeId]]) -> None:
        pairs: list[tuple[int, int, int]] = []
        for at, part in enumerate(parts):
            shared: dict[int, int] = {}
            for node in part:
                region = hierarchy.place.get(node)
                if region is not None:
                    shared[region.id] = shared.get(region.id, 0) + 1
            pairs += [(-count, at, number) for number, count in shared.items()]
        own: dict[int, Region] = dict(hierarchy.regions.items())
        found: dict[int, Region] = {}
        for _, at, number in sorted(pairs):
            if at not in found and number in own:
                found[at] = own.pop(number)
        targets = [found.get(at) or self._layout.add_region(hierarchy) for at in range(len(parts))]
        for part, region in zip(parts, targets, strict=True):
            for node in sorted(part):
                self._layout.move(node, hierarchy, region)

    def _has_outgrown(self, group: GroupId, size: int) -> bool:
        """Whether the choice of a hierarchy was made for a very different size."""
        before = self._fitted.setdefault(group, size)
        return size >= 2 * before or 2 * size <= before

    def _choose_hierarchy(self, group: GroupId, old: Hierarchy | None) -> Hierarchy:
        layout, packet = self._layout, self._packet_cost
        members = list(layout.node_slots.keys(layout.member_bits[group]))
        options: list[tuple[float, int, Hierarchy]] = []
        has_empty = False
        for hierarchy in self._hierarchies:
            if not hierarchy.groups:
                if has_empty:
                    continue
                has_empty = True
                cost = len(members) + packet + float(packet * len(members))
            else:
                regions: set[Region] = set()
                cost = 0.0
                for node in members:
                    region = hierarchy.place.get(node)
                    if region is None:
                        cost += 1 + 2 * packet  # its own packet, one more membership
                    else:
                        regions.add(region)
                cost += sum(len(region.nodes) + packet for region in regions)
            sticky = _STICKY if hierarchy is old else 1.0
            options.append((cost * sticky, hierarchy.number, hierarchy))
        return min(options)[2]

    def _place_node(self, node: NodeId, hierarchy: Hierarchy) -> None:
        wanted = self._layout.want_bits.get(node, 0) & hierarchy.groups
        if wanted:
            region = self._choose_region(node, hierarchy, wanted)
            target = region or self._layout.add_region(hierarchy)
            self._layout.move(node, hierarchy, target)
        elif node in hierarchy.place:
            self._layout.move(node, hierarchy, None)

    def _choose_region(self, node: NodeId, hierarchy: Hierarchy, wanted: int) -> Region | None:
        """Return where the node adds the least cost (None: a region of its own)."""
        layout, packet = self._layout, self._packet_cost
        count = wanted.bit_count()
        home = hierarchy.place.get(node)
        best: Region | None = None
        best_cost = float(count * (1 + packet))
        # Hot: every region of the hierarchy, half a microsecond each.
        for region in hierarchy.regions.values():
            floor = region.heard_count
            if floor <= best_cost and region is not home and region.nodes:
                new = count - (region.heard & wanted).bit_count()
                cost = floor + new * (len(region.nodes) + 1 + packet)
                if cost < best_cost or (
                    cost == best_cost and best is not None and region.id < best.id
                ):
                    best, best_cost = region, cost
        if home is None:
            return best
        alone = sum(
            1 for group in layout.group_slots.keys(wanted) if layout.spread[group][home.id] == 1
        )
        size = len(home.nodes) + packet
        staying = home.heard_count * size - (home.heard_count - alone) * (size - 1)
        if best_cost < _STICKY * staying and not (best is None and size == 1 + packet):
            return best
        return home


class MergedPlanner(LayoutPlanner):
    """All hierarchies are merged ones; whatever the overlap, the cap holds."""

    name = "merged"
    _exact_first = False

    def __init__(self, limits: PlanLimits, rates: Mapping[GroupId, float] | None = None) -> None:
        super().__init__(limits, rates)
        self._merger = self._make_merger()
        self._changed_count = 0
        """Changes of single nodes since the whole was last planned."""

    def _make_merger(self) -> Merger:
        return Merger(self._layout, self._layout.hierarchies, self._rates)

    def _become_restored(self) -> None:
        self._merger = self._make_merger()
        self._changed_count = 0

    def replan(self) -> None:
        """Plan everything anew; the next delta tells who moved.

        Takes seconds for thousands of nodes with irregular interests, which is
        why large plans are not renewed unasked.
        """
        groups = self._layout.member_bits.keys()
        bands = self._merger.plan(groups, exact_first=self._exact_first)
        self._merger.adopt(groups, bands)
        self._changed_count = 0

    def adapt(self, rates: Mapping[GroupId, float]) -> bool:
        """Plan for this traffic, if that is much cheaper and can be done in a moment."""
        groups = sorted(self._layout.member_bits)
        known = [rates.get(group, 0.0) for group in groups]
        if not any(known):
            return False
        floor = _QUIET_RATE * sum(known) / len(known)
        self._rates = {g: max(rate, floor) for g, rate in zip(groups, known, strict=True)}
        self._merger.rates = self._rates
        nodes = len(self._layout.wants)
        return nodes <= _ADAPT_NODES_MAX and self._replan_if_better(
            _ADAPT_GAIN,
            memberships_max=_ADAPT_MEMBERSHIPS_MAX,
            work_max=0 if nodes > _REPLAN_NODES_MAX else _REPLAN_WORK_MAX,
        )

    def _place(self, nodes: list[NodeId], groups: list[GroupId]) -> None:
        layout = self._layout
        new = sum(1 for n in nodes if not any(n in h.place for h in layout.hierarchies))
        if 2 * new > len(layout.wants):
            self.replan()
            return
        self._merger.place(nodes, groups)
        self._changed_count += len(nodes)
        if 2 * self._changed_count >= len(layout.wants) <= _REPLAN_NODES_MAX:
            # Early choices may have had their day.
            self._changed_count = 0
            self._replan_if_better(
                _REPLAN_GAIN,
                memberships_max=_REPLAN_MEMBERSHIPS_MAX,
                work_max=_REPLAN_WORK_MAX,
            )

    def _replan_if_better(self, gain: float, *, memberships_max: int, work_max: int) -> bool:
        """Adopt a new plan if it costs less than a share of the present one."""
        layout = self._layout
        memberships = sum(bits.bit_count() for bits in layout.want_bits.values())
        if memberships > memberships_max:
            return False
        groups = layout.member_bits.keys()
        bands = self._merger.plan(groups, exact_first=self._exact_first, work_max=work_max)
        if sum(b.cost for b in bands) >= gain * self._merger.cost():
            return False
        self._merger.adopt(groups, bands)
        return True


class AutoPlanner(MergedPlanner):
    """Exact regions while they are not tiny, optimised ones otherwise."""

    name = "auto"
    _exact_first = True
