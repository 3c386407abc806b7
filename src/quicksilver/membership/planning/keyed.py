"""Hierarchies whose regions are exactly the nodes with the same groups in them."""

from __future__ import annotations

from collections.abc import Iterable

from quicksilver.membership.planning.layout import Hierarchy, Layout, Region
from quicksilver.wire.ids import NodeId


def place_by_key(layout: Layout, hierarchy: Hierarchy, changed: Iterable[NodeId]) -> None:
    """Restore the rule after what ``changed`` want in the hierarchy has changed.

    All other nodes stay where they are. A region keeps its number when all of
    it moves on together, as when everybody in it joins one more group.
    """
    affected = set(changed)
    buckets: dict[int, set[NodeId]] = {}
    for node in sorted(affected):
        key = layout.want_bits.get(node, 0) & hierarchy.groups
        if key:
            buckets.setdefault(key, set()).add(node)
        elif node in hierarchy.place:
            layout.move(node, hierarchy, None)
    free: dict[int, Region] = {}
    kept: dict[int, Region] = {}
    for number, region in sorted(hierarchy.regions.items()):
        staying = region.nodes - affected
        if staying:
            witness = min(staying)
            kept.setdefault(layout.want_bits[witness] & hierarchy.groups, region)
        else:
            free[number] = region
    # The largest buckets choose first, so that few nodes change their region.
    for key, nodes in sorted(buckets.items(), key=lambda b: (-len(b[1]), min(b[1]))):
        region = kept.get(key) or _claim(free, nodes) or layout.add_region(hierarchy)
        kept[key] = region
        for node in sorted(nodes):
            layout.move(node, hierarchy, region)


def _claim(free: dict[int, Region], nodes: set[NodeId]) -> Region | None:
    overlaps = [
        (-len(region.nodes & nodes), number)
        for number, region in free.items()
        if not region.nodes.isdisjoint(nodes)
    ]
    return free.pop(min(overlaps)[1]) if overlaps else None
