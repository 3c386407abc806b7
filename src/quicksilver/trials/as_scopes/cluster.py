"""A cluster of the engine's trials, built of scopes.

It has what applications, faults and checks of the engine's trials ask of a cluster, by the same
names, over a ``ScopeCluster`` that does the work. So those are used as they are; they take it
for a ``Cluster``, and ``as_cluster`` and ``as_sim_node`` are where types are told so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from quicksilver.membership.events import Welcomed
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.node import ScopeNode
from quicksilver.scopes.node_parts import NodeEvent
from quicksilver.sim.model import LinkModel
from quicksilver.trials.as_scopes.checks import SCOPES_CHECKS, Flushed
from quicksilver.trials.as_scopes.node import TwinNode
from quicksilver.trials.as_scopes.plan import SCOPE, as_scopes, node_name
from quicksilver.trials.draw import Plan
from quicksilver.trials.gms import GMS_INDEX
from quicksilver.trials.scopes.cluster import NodeLife, ScopeCluster
from quicksilver.trials.scopes.watch import ScopeWatcher
from quicksilver.trials.watch import Violation, Watchers
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.ids import NodeId

if TYPE_CHECKING:
    from quicksilver.trials.cluster import Cluster
    from quicksilver.trials.node import SimNode


class TwinCluster:
    """The nodes of a plan as members of one scope, and its manager in place of a GMS."""

    def __init__(self, plan: Plan, *, make_node: Callable[..., ScopeNode] = ScopeNode) -> None:
        self.plan = plan
        self.features = plan.features
        config = Config(
            alive_s=plan.heartbeat_interval_s / 2,
            silent_s=plan.failure_timeout_s,
            yield_s=plan.failure_timeout_s / 2,
            retry_s_max=1.0,
            answer_s=1.0,
        )
        self.scopes = ScopeCluster(
            as_scopes(plan), checks=SCOPES_CHECKS, make_node=make_node, config=config
        )
        self.rng, self.events = self.scopes.rng, self.scopes.events
        self.network = self.scopes.internet.network
        self.network.link = LinkModel(latency_s=plan.latency_s, jitter_s=plan.jitter_s)
        self.gms = TwinManager(self.scopes)
        self.watching = Watchers(self.as_cluster())
        self.watchers = self.watching.each
        self.nodes: list[TwinNode] = []
        self.lives: list[TwinNode] = []
        self._flushed = next(w for w in self.scopes.watchers if isinstance(w, Flushed))
        self._twins: dict[NodeLife, TwinNode] = {}
        self._numbers: dict[Sender, int] = {}
        self._groups: list[str] = [""]
        self.scopes.watchers.append(_Bridge(self))
        self.gms.come_up()

    def as_cluster(self) -> Cluster:
        return cast("Cluster", self)

    def as_sim_node(self, node: TwinNode) -> SimNode:
        return cast("SimNode", node)

    @property
    def now(self) -> float:
        return self.events.now

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        return self.events.run(seconds, until)

    # Nodes

    def start(self, count: int) -> None:
        for index in range(len(self.nodes), len(self.nodes) + count):
            self._start(index)

    def restart(self, index: int) -> None:
        assert self.nodes[index].is_dead
        self._start(index)

    def _start(self, index: int) -> None:
        life = self.scopes.start_node(node_name(index), index=index)
        number = self._numbers[life.sender] = len(self._numbers) + 1
        node = self._twins[life] = TwinNode(self, index, life, number)
        if index == len(self.nodes):
            self.nodes.append(node)
        else:
            self.nodes[index] = node
        self.lives.append(node)
        known = self.as_sim_node(node)
        self.watching.on_event(known, Welcomed(NodeId(number), 1, ClusterSettings(), resumed=False))
        self.watching.on_started(known)

    def alive(self) -> list[TwinNode]:
        return [node for node in self.nodes if not node.is_dead]

    def is_settled(self) -> bool:
        return all(node.joined | node.opened <= node.ready for node in self.alive())

    def is_member(self, life: NodeLife, topic: str) -> bool | None:
        """Whether the manager knows that a node subscribes to a topic; None: it is away."""
        known = self.scopes.managers.get(SCOPE)
        if known is None:
            return None
        found = known[1].manager.find_topic(topic)
        part = None if found is None else found.parts.get(life.plan.name)
        return part is not None and part.subscribes

    def spoken(self) -> int:
        return self.scopes.spoken()

    # Names, as numbers where the engine has numbers

    def group_id(self, name: str) -> int:
        if name not in self._groups:
            self._groups.append(name)
        return self._groups.index(name)

    def group_name(self, group: int) -> str:
        return self._groups[group]

    def number_of(self, sender: Sender) -> int:
        return self._numbers.get(sender, 0)

    def twin_of(self, life: NodeLife) -> TwinNode:
        return self._twins[life]

    # What is told

    def handle_flushed(self, node: TwinNode, goals: dict[str, int]) -> None:
        self._flushed.on_flushed(node.scoped, goals)

    def look(self) -> None:
        """Some time has passed."""
        for node in self.alive():
            ways = (node.index, GMS_INDEX), (GMS_INDEX, node.index)
            is_heard = all(self.network.passes(*way) for way in ways)
            if not is_heard:
                node.scoped.is_disturbed = True  # Its manager may take it for dead.
            is_frozen = node.scoped.host.is_frozen
            node.look(is_told=is_heard and not is_frozen and SCOPE in self.scopes.managers)
        for watcher in self.scopes.watchers:
            watcher.on_look()
        self.watching.on_look()

    def handle_healed(self) -> None:
        """No fault is active any more; whoever is in a topic has to get everything now."""
        self.watching.on_healed()
        for watcher in self.scopes.watchers:
            watcher.on_healed()
        for node in self.alive():
            for topic in node.scoped.settled_at:
                node.scoped.settled_at[topic] = min(node.scoped.settled_at[topic], self.now)

    def handle_settled(self) -> None:
        """All has been quiet for long."""
        self.watching.on_settled()
        for watcher in self.scopes.watchers:
            watcher.on_settled()
        for node in self.alive():
            if node.flushes:
                self._flushed.fail(f"{node} waits for {len(node.flushes)} flushes that never end")

    def violations(self) -> list[Violation]:
        found = [each for watcher in self.watchers for each in watcher.violations]
        return sorted([*found, *self.scopes.violations()], key=lambda violation: violation.at)


class TwinManager:
    """The manager of the scope, in the place of a GMS."""

    def __init__(self, scopes: ScopeCluster) -> None:
        self._scopes = scopes

    def restart(self, down_s: float) -> None:
        """Kill it; it comes back on what it had saved."""
        if SCOPE in self._scopes.managers:
            self._scopes.kill_manager(SCOPE)
            self._scopes.events.after(down_s, self.come_up)

    def come_up(self) -> None:
        if SCOPE not in self._scopes.managers:
            self._scopes.start_manager(SCOPE, index=GMS_INDEX)


class _Bridge(ScopeWatcher):
    """Tells the engine's checks what happens in the scope."""

    name = "bridge"

    def __init__(self, cluster: TwinCluster) -> None:
        super().__init__(cluster.scopes)
        self._twins = cluster

    def on_packet(self, node: NodeLife, packet: Packet) -> None:
        self._twins.twin_of(node).handle_packet(packet)

    def on_gap(self, node: NodeLife, gap: Gap) -> None:
        self._twins.twin_of(node).handle_gap(gap)

    def on_event(self, node: NodeLife, event: NodeEvent) -> None:
        self._twins.twin_of(node).handle_event(event)
