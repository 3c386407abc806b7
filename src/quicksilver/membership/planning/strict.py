"""Hierarchies that admit a group only if it fits those already there.

The papers split irregular systems greedily: "Pick the largest group; if there
exists a hierarchy to which it can be added, add it, otherwise start a new one"
(dissertation 4.1.2). The two rules for "can be added" are in ``perfect`` and
``regular``. Since each hierarchy costs its nodes a membership, only as many are
opened as the cap allows; groups that fit nowhere share merged hierarchies.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping

from quicksilver.membership.planning.base import LayoutPlanner
from quicksilver.membership.planning.keyed import place_by_key
from quicksilver.membership.planning.layout import Hierarchy
from quicksilver.membership.planning.merged import Merger
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.wire.ids import GroupId, NodeId

_MERGED_HIERARCHIES = 2
"""Reserved for what fits nowhere: one for popular groups, one for rare ones."""


class StrictPlanner(LayoutPlanner):
    """Greedy hierarchies under a rule, merged ones for the rest."""

    _needs_parts = True
    """Whether the rule looks at regions; keeping them costs a third of a join (125 ms
    instead of 87 ms of CPU with 2,000 nodes in 1,000 of 10,000 groups each)."""

    def __init__(self, limits: PlanLimits, rates: Mapping[GroupId, float] | None = None) -> None:
        super().__init__(limits, rates)
        self._become_restored()
        self._is_restored = False

    @abstractmethod
    def _fits(self, members: int, others: Collection[int], parts: Collection[int]) -> bool:
        """Whether a group may join a hierarchy.

        ``members`` are its nodes; ``others`` the nodes of each group that is
        there (none: a new hierarchy); ``parts`` the regions these make. All are
        bit sets.
        """

    def _become_restored(self) -> None:
        self._is_restored = True
        hierarchies = self._layout.hierarchies
        merged = max(1, min(_MERGED_HIERARCHIES, len(hierarchies) - 1))
        self._strict = hierarchies[: len(hierarchies) - merged]
        self._merger = Merger(self._layout, hierarchies[len(hierarchies) - merged :], self._rates)

    def _place(self, nodes: list[NodeId], groups: list[GroupId]) -> None:
        layout = self._layout
        # Regions of a stored plan may be another planner's: check all, once.
        checked = layout.wants.keys() if self._is_restored else nodes
        self._is_restored = False
        affected = {h.number: set(checked) for h in self._strict}
        new = sum(1 for n in nodes if not any(n in h.place for h in layout.hierarchies))
        is_bulk = 2 * new > len(layout.wants)
        if is_bulk:
            groups = sorted(layout.member_bits)
        tables = {h.number: _Table(self, h) for h in self._strict}
        rest: list[GroupId] = []
        for group in sorted(groups, key=lambda g: (-layout.member_bits[g].bit_count(), g)):
            old = layout.hierarchy_of.get(group)
            target = self._find_home(group, old, tables, is_bulk=is_bulk)
            if target is None:
                rest.append(group)
            if target is old or (target is None and old not in self._strict):
                continue
            members = set(layout.node_slots.keys(layout.member_bits[group]))
            layout.unassign(group)
            if old is not None and old.number in tables:
                tables[old.number].remove(group)
                affected[old.number] |= members
            if target is not None:
                layout.assign(group, target)
                tables[target.number].add(group)
                affected[target.number] |= members
        for hierarchy in self._strict:
            place_by_key(layout, hierarchy, affected[hierarchy.number])
        if is_bulk:
            self._merger.adopt(rest, self._merger.plan(rest, exact_first=False))
        else:
            self._merger.place(nodes, rest)

    def _find_home(
        self,
        group: GroupId,
        old: Hierarchy | None,
        tables: dict[int, _Table],
        *,
        is_bulk: bool,
    ) -> Hierarchy | None:
        """Return the first strict hierarchy that the group fits, if any."""
        if old is not None and old.number in tables:
            tables[old.number].remove(group)
            fits = tables[old.number].fits(group)
            tables[old.number].add(group)
            if fits:
                return old
        elif old is not None and not is_bulk:
            return None  # merged groups stay merged until all is planned anew
        for hierarchy in self._strict:
            if hierarchy is not old and tables[hierarchy.number].fits(group):
                return hierarchy
        return None


class _Table:
    """The groups of a hierarchy and the parts that they make, during one batch."""

    def __init__(self, planner: StrictPlanner, hierarchy: Hierarchy) -> None:
        self._planner = planner
        self._layout = planner._layout
        self._groups: dict[GroupId, int] | None = None
        self._parts: dict[int, int] = {}
        """From the groups that nodes have in common here to those nodes."""
        self._hierarchy = hierarchy

    def fits(self, group: GroupId) -> bool:
        groups = self._load()
        members = self._layout.member_bits[group]
        return self._planner._fits(members, groups.values(), self._parts.values())

    def add(self, group: GroupId) -> None:
        self._load()[group] = members = self._layout.member_bits[group]
        if not self._planner._needs_parts:
            return
        bit = self._layout.group_slots.bit_of(group)
        parts: dict[int, int] = {}
        for key, nodes in self._parts.items():
            inside = nodes & members
            if inside:
                parts[key | bit] = inside
            if inside != nodes:
                parts[key] = nodes ^ inside
            members &= ~inside
        if members:
            parts[bit] = members
        self._parts = parts

    def remove(self, group: GroupId) -> None:
        if self._load().pop(group, None) is None or not self._planner._needs_parts:
            return
        bit = self._layout.group_slots.bit_of(group)
        parts: dict[int, int] = {}
        for key, nodes in self._parts.items():
            rest = key & ~bit
            if rest:
                parts[rest] = parts.get(rest, 0) | nodes
        self._parts = parts

    def _load(self) -> dict[GroupId, int]:
        if self._groups is None:
            layout, mask = self._layout, self._hierarchy.groups
            self._groups = {
                group: layout.member_bits[group] for group in layout.group_slots.keys(mask)
            }
            for node, wanted in layout.want_bits.items() if self._planner._needs_parts else ():
                key = wanted & mask
                if key:
                    bit = layout.node_slots.bit_of(node)
                    self._parts[key] = self._parts.get(key, 0) | bit
        return self._groups
