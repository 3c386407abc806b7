"""What happened, kept once for all checks that judge it in the end.

The views that every node was given, by batch, and the runs of messages that
every node delivered. Both are compact: a run of consecutive messages is two
numbers, however long it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

from quicksilver.membership.directory import GroupView
from quicksilver.membership.events import (
    SubscriptionCompleted,
    ViewsChanged,
    Welcomed,
)
from quicksilver.multicast.events import SessionEvent
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher

Run = list[int]
"""First and last sequence number of consecutive messages."""


class Ledger(Watcher):
    """Keeps records and judges nothing; checks share one through ``of``."""

    name = "ledger"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.life_of: dict[int, SimNode] = {}
        """Whose an identifier is or was."""
        self.regions: dict[tuple[int, int], tuple[int, ...]] = {}
        """Members of every region view."""
        self.batches: defaultdict[tuple[int, int], dict[int, Run]] = defaultdict(dict)
        """By (sender, group): what was committed in each batch, as far as anybody
        delivered it."""
        self.runs: defaultdict[tuple[int, int], dict[int, list[Run]]] = defaultdict(dict)
        """By (sender, group): what each receiving incarnation delivered, in order."""
        self.begins: dict[tuple[int, int], int] = {}
        """By (sender, group): its first number in the group. Numbers go on when a group
        of the same name comes back with another identifier."""
        self._views: defaultdict[tuple[int, int], list[tuple[int, GroupView | None]]] = defaultdict(
            list
        )
        """By (node, group): the views that the node was given, with their batches."""
        self._members: dict[tuple[int, int, int], frozenset[int]] = {}

    @classmethod
    def of(cls, cluster: Cluster) -> Ledger:
        """Return the cluster's ledger; the first who asks has it made.

        It is told of everything before the check that asks for it is.
        """
        for watcher in cluster.watchers:
            if isinstance(watcher, cls):
                return watcher
        ledger = cls(cluster)
        cluster.watchers.append(ledger)
        return ledger

    # What is told

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        if isinstance(event, Welcomed):
            self.life_of[event.node] = node
        elif isinstance(event, ViewsChanged):
            batch = node.engine.batch
            for region in event.regions:
                self.regions.setdefault((region.id, region.view), region.members)
            for view in event.groups:
                views = self._views[node.id, view.id]
                if not views:
                    sender = node.session.find_sender(view.name)
                    self.begins[node.id, view.id] = sender.next_sequence if sender else 0
                views.append((batch, view))
            for group in event.groups_gone:
                self._views[node.id, group].append((batch, None))
        elif isinstance(event, SubscriptionCompleted):
            known = node.session.directory.groups
            for group in event.groups.values():
                if group not in known:
                    self._views[node.id, group].append((node.engine.batch, None))

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        name = (sender, group)
        batches = self.batches[name]
        known = batches.get(batch)
        if known is None:
            batches[batch] = [sequence, sequence]
        elif sequence > known[1]:
            known[1] = sequence
        elif sequence < known[0]:
            known[0] = sequence
        by_receiver = self.runs[name]
        runs = by_receiver.get(node.engine.node)
        if runs is None:
            by_receiver[node.engine.node] = [[sequence, sequence]]
        elif runs[-1][1] + 1 == sequence:
            runs[-1][1] = sequence
        else:
            runs.append([sequence, sequence])

    # What it knows

    def is_up(self, incarnation: int) -> bool:
        """Whether an incarnation never crashed and was never counted out."""
        life = self.life_of.get(incarnation)
        return life is not None and not life.is_dead and life.id == incarnation

    def views_of(self, node: int, group: int) -> list[tuple[int, GroupView | None]]:
        """Return all views of a group that a node was given, with their batches.

        None stands for times at which the node was not to know the group.
        """
        return self._views.get((node, group), [])

    def groups_of(self, node: int) -> list[int]:
        """Return the groups of which a node was given a view."""
        return sorted(group for known, group in self._views if known == node)

    def groups_by_life(self) -> dict[tuple[SimNode, str], list[tuple[int, int]]]:
        """Return the incarnations of every life that knew a group of a name, and its number."""
        found: dict[tuple[SimNode, str], list[tuple[int, int]]] = {}
        for node, group in sorted(self._views):
            life = self.life_of.get(node)
            # A group that ended before anybody had a view of it has no name.
            if life is not None and any(view is not None for _, view in self._views[node, group]):
                name = (life, self.cluster.group_name(group))
                found.setdefault(name, []).append((node, group))
        return found

    def view_at(self, node: int, group: int, batch: int) -> GroupView | None:
        """Return the view of a group that a node had in a batch.

        A node that has left commits what it had queued to the last view that it had.
        """
        views = self._views.get((node, group), [])
        place = bisect_right(views, batch, key=lambda entry: entry[0])
        return next((view for _, view in reversed(views[:place]) if view is not None), None)

    def members_at(self, node: int, group: int, batch: int) -> frozenset[int]:
        """Return who was in the view of a group that a node had in a batch."""
        name = (node, group, batch)
        members = self._members.get(name)
        if members is None:
            view = self.view_at(node, group, batch)
            members = frozenset() if view is None else frozenset(view.members)
            self._members[name] = members
        return members

    def region_of(self, view: GroupView, node: int) -> tuple[int, int] | None:
        """Return the region view through which a node hears a group view."""
        for name in view.regions:
            if node in self.regions.get(name, ()):
                return name
        return None

    def stayed_since(self, incarnation: int, group: int, batch: int) -> bool:
        """Whether a node has been up and in a group from a batch on until now."""
        if not self.is_up(incarnation):
            return False
        life = self.life_of[incarnation]
        return (
            life.member_since.get(group, 1 << 62) <= batch
            and self.cluster.group_name(group) in life.joined
        )


def lacking(runs: list[Run], first: int, last: int) -> Run | None:
    """Return the first part of [first, last] that no run covers."""
    at = first
    for start, stop in sorted(runs):
        if start > at:
            return [at, min(last, start - 1)]
        at = max(at, stop + 1)
        if at > last:
            return None
    return [at, last] if at <= last else None
