"""Groups over a simulated node: the same engine and GMS, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from quicksilver.live.runtime.executor import Executor
from quicksilver.live.services.groups import GroupHub, GroupView
from quicksilver.multicast.events import GroupReady, GroupViewChanged, SessionEvent
from quicksilver.trials.watch import Watcher

if TYPE_CHECKING:
    from quicksilver.trials.cluster import Cluster
    from quicksilver.trials.node import SimNode


class SimGroups(GroupHub):
    """The groups of one simulated node."""

    def __init__(self, node: SimNode, executor: Executor) -> None:
        super().__init__(executor)
        self._node = node
        _Dispatcher.of(node.cluster).hubs[node] = self

    def subscribe(self, join: Sequence[str], leave: Sequence[str]) -> None:
        """Make one request."""
        self._node.change(
            join=tuple(join), leave=tuple(leave), echo=True, done=self.handle_subscribed
        )

    def transmit(self, name: str, message: bytes) -> None:
        """Send to a group that is joined."""
        self._node.send(name, message)

    def flush(self, done: Callable[[], None]) -> None:
        """Call back when all that was sent is on every surviving member."""
        self._node.flush(lambda: self._executor.post(done))

    # In a turn of the host

    def on_event(self, event: SessionEvent) -> None:
        """The node's session reported something."""
        if isinstance(event, GroupViewChanged):
            view = event.view
            if view.name in self._node.joined and event.is_member:
                members = tuple(map(int, view.members))
                self.handle_view(view.name, GroupView(view.view, members, self._node.id))
        elif isinstance(event, GroupReady) and event.name in self._node.joined:
            self.handle_joined(event.name)


class _Dispatcher(Watcher):
    """Hands what a cluster tells to the hub of the node that it happened on."""

    name = "live objects"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.hubs: dict[SimNode, SimGroups] = {}

    @staticmethod
    def of(cluster: Cluster) -> _Dispatcher:
        for watcher in cluster.watchers:
            if isinstance(watcher, _Dispatcher):
                return watcher
        made = _Dispatcher(cluster)
        cluster.watchers.append(made)
        return made

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        hub = self.hubs.get(node)
        if hub is not None:
            hub.handle_messages(self.cluster.group_name(group), sender, (payload,))

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        hub = self.hubs.get(node)
        if hub is not None:
            hub.on_event(event)

    def on_crashed(self, node: SimNode) -> None:
        self.hubs.pop(node, None)
