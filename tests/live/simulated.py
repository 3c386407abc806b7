"""Live objects on simulated nodes: the groups, the clock and the chance of a simulated host.

    cluster = Cluster(seed=7)
    (node,) = cluster.start(1)
    runtime = runtime_on(node)
    runtime.executor.post(lambda: runtime.open(reference))
    cluster.run(5.0)

What objects do is work of the host's process: it waits for the processor, stops
while the process is frozen, and ends when it is killed. The same seed gives the
same run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quicksilver.live.runtime.executors import Executor
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.services.groups import (
    RUNTIMES,
    GroupHub,
    Groups,
    GroupView,
    RuntimeNodes,
)
from quicksilver.live.services.identity import Identity
from quicksilver.multicast.events import GroupReady, GroupViewChanged, SessionEvent
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher

if TYPE_CHECKING:
    from quicksilver.trials.cluster import Cluster


class SimGroups(GroupHub):
    """The groups of one simulated node."""

    def __init__(self, node: SimNode, executor: Executor) -> None:
        super().__init__(executor)
        self._node = node
        self._runtimes = RuntimeNodes()
        _Dispatcher.of(node.cluster).hubs[node] = self

    def subscribe(self, join: Sequence[str], leave: Sequence[str]) -> None:
        """Make one request."""
        if RUNTIMES not in self._node.joined:
            join = (RUNTIMES, *join)
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
                members = self._runtimes.among(view.members, self._node.session.directory)
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


class _Timer:
    __slots__ = ("step",)

    def __init__(self, step: Callable[[], None]) -> None:
        self.step: Callable[[], None] | None = step

    def cancel(self) -> None:
        self.step = None


class SimExecutor:
    """Runs steps in the turns of a simulated host."""

    def __init__(self, node: SimNode) -> None:
        self._host = node.host
        self._events = node.cluster.events
        self._is_closed = False

    def now(self) -> float:
        """The host's clock."""
        return self._host.clock()

    @property
    def is_here(self) -> bool:
        """There is one thread in a simulation."""
        return True

    def post(self, step: Callable[[], None]) -> None:
        """Run a step soon, after those posted before, if the process lives that long."""
        if not self._is_closed:
            self._host.submit(step)

    def call_later(self, delay_s: float, step: Callable[[], None]) -> _Timer:
        """Run a step after some time."""
        timer = _Timer(step)

        def run() -> None:
            if timer.step is not None and not self._is_closed:
                timer.step()

        def due() -> None:
            if timer.step is not None:
                self.post(run)

        self._events.after(max(0.0, delay_s) / (1.0 + self._host.drift), due)
        return timer

    def close(self) -> None:
        """Run nothing more."""
        self._is_closed = True


def runtime_on(
    node: SimNode,
    *,
    components: tuple[type, ...] | None = None,
    services: Mapping[type, object] | None = None,
    **options: Any,
) -> Runtime:
    """Return a runtime whose objects live on a simulated node and use its groups.

    Without ``components`` it knows all of the library. Its chance comes from the
    cluster's seed and the node's number.
    """
    from quicksilver.live.components.library import equip

    executor = SimExecutor(node)
    rng = node.cluster.rng.derive(f"live objects {node.index}.{node.life}")
    runtime = Runtime(executor, seed=rng.bits64(), services=services, **options)
    runtime.provide(Groups, SimGroups(node, executor))
    runtime.provide(Identity, Identity(rng.bits64))
    if components is None:
        equip(runtime)
    else:
        runtime.add_components(components)
    return runtime
