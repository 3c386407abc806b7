"""Plans as files: computed elsewhere, by names, for ``--plan``.

    {"version": 1, "hierarchies": [
        {"groups": ["prices", "trades"],
         "regions": [{"nodes": ["n1", "n2"]}, {"nodes": ["n3"]}]}]}

Groups of one hierarchy share its regions. A file need not be complete: groups
and nodes that it does not mention are placed where they cost least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from quicksilver.membership.planning.base import LayoutPlanner
from quicksilver.membership.planning.layout import Hierarchy, Layout, Region
from quicksilver.membership.planning.merged import Merger
from quicksilver.membership.planning.model import PlanLimits, PlanState
from quicksilver.stdx.errors import QuicksilverError
from quicksilver.wire.ids import GroupId, NodeId, RegionId

K = TypeVar("K")

FILE_BYTES_MAX = 256 << 20
"""Longer files are refused unread."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]
NodeName = Callable[[NodeId], str | None]
GroupName = Callable[[GroupId], str | None]


class PlanFileRegion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that share one region."""

    nodes: tuple[Name, ...]


class PlanFileHierarchy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Groups, and the regions that their members are divided into."""

    groups: tuple[Name, ...]
    regions: tuple[PlanFileRegion, ...] = ()


class PlanFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A plan by names."""

    version: Literal[1]
    hierarchies: Annotated[tuple[PlanFileHierarchy, ...], msgspec.Meta(max_length=1000)]


class PlanFileError(QuicksilverError, ValueError):
    """A plan file that cannot be used."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(source, reason)
        self.source = source
        self.reason = reason

    def __str__(self) -> str:
        return f"plan {self.source}: {' '.join(self.reason.split())}"


def parse_plan(data: bytes, source: str) -> PlanFile:
    """Read a plan; ``source`` names it in the ``PlanFileError`` of a bad one."""
    if len(data) > FILE_BYTES_MAX:
        raise PlanFileError(source, f"longer than {FILE_BYTES_MAX} bytes")
    try:
        plan = msgspec.json.decode(data, type=PlanFile)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PlanFileError(source, str(error)) from error
    groups: set[str] = set()
    for number, hierarchy in enumerate(plan.hierarchies):
        twice = _first_repeated(hierarchy.groups, groups)
        if twice is not None:
            reason = f"group {twice!r} is listed twice; a group is in one hierarchy"
            raise PlanFileError(source, reason)
        nodes: set[str] = set()
        for region in hierarchy.regions:
            twice = _first_repeated(region.nodes, nodes)
            if twice is not None:
                where = f"in hierarchy {number}; its regions must be disjoint"
                raise PlanFileError(source, f"node {twice!r} is listed twice {where}")
    return plan


def load_plan(path: Path) -> PlanFile:
    """Read a plan file; every failure is a ``PlanFileError``."""
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise PlanFileError(str(path), error.strerror or str(error)) from error
    return parse_plan(data, str(path))


def encode_plan(plan: PlanFile) -> bytes:
    """Return the file's bytes, indented for people."""
    return msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"


def save_plan(path: Path, plan: PlanFile) -> None:
    """Write a plan file; a reader sees the old one or the new one, whole."""
    unfinished = path.with_name(path.name + ".new")
    try:
        unfinished.write_bytes(encode_plan(plan))
        unfinished.replace(path)
    except OSError as error:
        raise PlanFileError(str(path), error.strerror or str(error)) from error


def name_plan(state: PlanState, node_name: NodeName, group_name: GroupName) -> PlanFile:
    """Return a plan by names; what has no name is left out."""
    levels: dict[int, list[GroupId]] = {}
    for group in sorted(state.groups):
        levels.setdefault(state.hierarchies.get(group, 0), []).append(group)
    hierarchies: list[PlanFileHierarchy] = []
    for _, groups in sorted(levels.items()):
        numbers = sorted({number for group in groups for number in state.groups[group]})
        regions: list[PlanFileRegion] = []
        taken: set[str] = set()
        for number in numbers:
            # A node and its next incarnation may be in two regions for a while.
            names = _names(state.regions.get(number, ()), node_name)
            regions.append(PlanFileRegion(tuple(n for n in names if n not in taken)))
            taken.update(names)
        hierarchies.append(PlanFileHierarchy(_names(groups, group_name), tuple(regions)))
    return PlanFile(version=1, hierarchies=tuple(hierarchies))


def _names(keys: Iterable[K], name: Callable[[K], str | None]) -> tuple[str, ...]:
    found = (name(key) for key in keys)
    return tuple(dict.fromkeys(text for text in found if text))


def _first_repeated(names: Iterable[str], seen: set[str]) -> str | None:
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


class LoadedPlanner(LayoutPlanner):
    """Places by name as a file says, and the rest where it costs least."""

    name = "loaded"

    def __init__(
        self,
        plan: PlanFile,
        limits: PlanLimits,
        *,
        node_name: NodeName,
        group_name: GroupName,
    ) -> None:
        super().__init__(limits)
        if len(plan.hierarchies) > limits.regions_per_node_max:
            many = f"{len(plan.hierarchies)} hierarchies"
            reason = f"{many}, but a node may be in {limits.regions_per_node_max} regions"
            raise PlanFileError("file", reason)
        self._plan = plan
        self._node_name = node_name
        self._group_name = group_name
        self._become_restored()

    def _become_restored(self) -> None:
        self._merger = _PinnedMerger(self._layout, self._plan, self._node_name, self._group_name)

    def _place(self, nodes: list[NodeId], groups: list[GroupId]) -> None:
        self._merger.place(nodes, groups)


class _PinnedMerger(Merger):
    """Lets the file decide first."""

    def __init__(
        self, layout: Layout, plan: PlanFile, node_name: NodeName, group_name: GroupName
    ) -> None:
        super().__init__(layout, layout.hierarchies)
        self._node_name = node_name
        self._group_name = group_name
        self._levels: dict[str, int] = {}
        self._parts: dict[tuple[int, str], int] = {}
        for level, hierarchy in enumerate(plan.hierarchies):
            self._levels.update((group, level) for group in hierarchy.groups)
            for part, region in enumerate(hierarchy.regions):
                self._parts.update(((level, node), part) for node in region.nodes)
        self._numbers: dict[tuple[int, int], RegionId] = {}
        """The region that stands for each part of the file."""
        for own in layout.hierarchies:
            for node in sorted(own.place):
                found = self._part_of(node, own)
                if found is not None:
                    self._numbers.setdefault((own.number, found), own.place[node].id)

    def _part_of(self, node: NodeId, hierarchy: Hierarchy) -> int | None:
        name = self._node_name(node)
        return None if name is None else self._parts.get((hierarchy.number, name))

    def _choose_hierarchy(self, group: GroupId, old: Hierarchy | None) -> Hierarchy:
        name = self._group_name(group)
        level = None if name is None else self._levels.get(name)
        if level is None:
            return super()._choose_hierarchy(group, old)
        return self._layout.hierarchies[level]

    def _place_node(self, node: NodeId, hierarchy: Hierarchy) -> None:
        part = self._part_of(node, hierarchy)
        if part is None or not self._layout.want_bits.get(node, 0) & hierarchy.groups:
            super()._place_node(node, hierarchy)
            return
        known = self._numbers.get((hierarchy.number, part))
        region: Region | None = None if known is None else hierarchy.regions.get(known)
        if region is None:
            region = self._layout.add_region(hierarchy)
            self._numbers[hierarchy.number, part] = region.id
        self._layout.move(node, hierarchy, region)
