"""Applications hear of the views of their groups."""

from __future__ import annotations

from quicksilver.membership.events import WasExcluded
from quicksilver.multicast.events import GroupViewChanged, SessionEvent
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher
from quicksilver.wire.ids import NodeId


class ViewsTold(Watcher):
    """Each view is told once and in order, before messages come, and the last is the newest.

    "Views are events" (README.md): whoever is in a group, or sends to it, follows its
    views by what each one adds and takes away. Messages come to whoever was told a view
    that has it in, and no more of them once it has left.
    """

    name = "views-told"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._told: dict[tuple[SimNode, str, bool], tuple[int, int, frozenset[NodeId]]] = {}
        """By (node, group, whether it joined): the view told last."""

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        if isinstance(event, WasExcluded):
            for name in [name for name in self._told if name[0] is node]:
                del self._told[name]
        elif isinstance(event, GroupViewChanged):
            self._check(node, event)

    def _check(self, node: SimNode, event: GroupViewChanged) -> None:
        view = event.view
        name = (node, view.name, event.is_member)
        group, number, before = self._told.get(name, (0, 0, frozenset()))
        if group != view.id:
            number, before = 0, frozenset()
        if view.view <= number:
            self.fail(f"{node} is told view {view.view} of {view.name} after view {number}")
        members = frozenset(view.members)
        came, went = frozenset(event.joined), frozenset(event.left)
        if (came, went) != (members - before, before - members):
            self.fail(
                f"{node}: view {view.view} of {view.name} is {sorted(members)} after "
                f"{sorted(before)}, and it is told {event.joined} came and {event.left} went"
            )
        if event.is_member and node.id not in members:
            self.fail(f"{node} is told view {view.view} of {view.name}, in which it is not")
        self._told[name] = (view.id, view.view, members)

    def on_left(self, node: SimNode, groups: tuple[str, ...]) -> None:
        for group in groups:
            self._told.pop((node, group, True), None)
            if group not in node.opened:
                # Whoever joins by a pattern opens the group to send, and closes it.
                self._told.pop((node, group, False), None)

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        name = self.cluster.group_name(group)
        if (node, name, True) not in self._told:
            self.fail(f"{node} gets message {sequence} of {sender} to {name}, and is not in it")

    def on_settled(self) -> None:
        for node in self.cluster.alive():
            for view in node.session.directory.groups.values():
                newest = (view.id, view.view)
                for wanted, is_member in ((node.joined, True), (node.opened, False)):
                    told = self._told.get((node, view.name, is_member), (0, 0, frozenset()))
                    if view.name in wanted & node.ready and told[:2] != newest:
                        self.fail(
                            f"{node} knows view {view.view} of {view.name} and was told {told[1]}"
                        )
