"""Agreement on views."""

from __future__ import annotations

from quicksilver.membership.directory import GroupView
from quicksilver.membership.events import ViewsChanged, Welcomed
from quicksilver.membership.names import is_attendance
from quicksilver.multicast.events import SessionEvent
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher


class Views(Watcher):
    """A view number means the same to everybody, always; numbers only grow.

    "Numbered group views, numbered region views, and the map from each group
    view to the region views" (DESIGN.md, membership; dissertation 4.2.1 A). No
    two nodes are given different members under one number, whatever restarts of
    the GMS lie between; at one node neither views nor batches go back; an
    identifier is given to one incarnation only.
    """

    name = "views"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._groups: dict[tuple[int, int], tuple[object, ...]] = {}
        self._regions: dict[tuple[int, int], tuple[int, ...]] = {}
        self._newest: dict[tuple[SimNode, str, int], int] = {}
        self._batch: dict[SimNode, int] = {}
        self._owner: dict[int, SimNode] = {}

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        if isinstance(event, Welcomed):
            self._check_identity(node, event)
        elif isinstance(event, ViewsChanged):
            self._check_batch(node, node.engine.batch)
            for region in event.regions:
                known = self._regions.setdefault((region.id, region.view), region.members)
                if known != region.members:
                    self.fail(
                        f"{node}: view {region.view} of region {region.id} is {region.members}, "
                        f"for others it was {known}"
                    )
                self._check_number(node, "region", region.id, region.view)
            for view in event.groups:
                self._check_group(node, view)

    def _check_identity(self, node: SimNode, event: Welcomed) -> None:
        owner = self._owner.setdefault(event.node, node)
        if owner is not node:
            self.fail(f"{node} is welcomed as {event.node}, which {owner} had been")

    def _check_batch(self, node: SimNode, batch: int) -> None:
        before = self._batch.get(node, 0)
        if batch < before:
            self.fail(f"{node}: batch {batch} after {before}")
        self._batch[node] = batch

    def _check_group(self, node: SimNode, view: GroupView) -> None:
        told = (view.name, view.members, view.regions)
        known = self._groups.setdefault((view.id, view.view), told)
        if known != told:
            self.fail(
                f"{node}: view {view.view} of group {view.id} is {told}, for others it was {known}"
            )
        covered = [m for name in view.regions for m in self._regions.get(name, ())]
        if not set(view.members) <= set(covered) and not is_attendance(view.name):
            self.fail(f"{node}: regions {view.regions} do not cover view {view.view} of {view.id}")
        self._check_number(node, "group", view.id, view.view)

    def _check_number(self, node: SimNode, kind: str, number: int, view: int) -> None:
        name = (node, kind, number)
        before = self._newest.get(name, 0)
        if view < before:
            self.fail(f"{node}: view {view} of {kind} {number} after view {before}")
        self._newest[name] = view
