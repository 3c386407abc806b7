"""A tree of scopes in virtual time: managers and nodes, each a process on a host of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.events import SessionInstalled
from quicksilver.scopes.management.messages import Flavour
from quicksilver.scopes.node import ScopeNode
from quicksilver.scopes.node_parts import NodeEvent
from quicksilver.scopes.sessions.keys import KEY_BYTES, KeyRing
from quicksilver.sim.events import EventQueue
from quicksilver.stdx.rand import Rng
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trials.scopes.internet import Host, Internet
from quicksilver.trials.scopes.machines import ManagerMachine, NodeMachine
from quicksilver.trials.scopes.plan import NodePlan, Plan
from quicksilver.trials.scopes.watch import ScopeWatcher
from quicksilver.trials.watch import Violation

SETTLED_S = 1.5
"""A node counts as settled in a topic so long after it has asked for it, if nothing went wrong."""


GRACE_S = 10.0
"""How long owners keep a scope whose manager is away."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message, and when it was sent: by whoever was settled in the topic by then it is owed."""

    at: float
    """Earlier than in truth if the sender had not been told since who came."""
    message: bytes


class NodeLife:
    """One life of a node."""

    def __init__(self, cluster: ScopeCluster, plan: NodePlan, life: int) -> None:
        self.cluster = cluster
        self.plan = plan
        self.life = life
        self.joined: set[str] = set()
        self.stays: dict[str, int] = {}
        """How often it has joined each topic."""
        self.settled_at: dict[str, float] = {}
        """Since when it has to get everything, by topic."""
        self.delivered = 0
        self.informed_at: float | None = None
        """Until when it was told who is in its topics; None: it still is."""
        self.is_disturbed = False
        """True once a fault has befallen it or its network."""
        self.host: Host
        self.machine: NodeMachine

    def __str__(self) -> str:
        return f"{self.plan.name}.{self.life}" if self.life > 1 else self.plan.name

    @property
    def node(self) -> ScopeNode:
        return self.machine.node

    @property
    def forwarder(self) -> Forwarder:
        return self.node.forwarder

    @property
    def sender(self) -> Sender:
        return self.forwarder.sender

    def low(self, topic: str, sender: Sender) -> int:
        """Return below which number it has everything."""
        stream = self.forwarder.holdings.find(topic, sender)
        return 0 if stream is None else stream.low


class ScopeCluster:
    """The managers and nodes of a plan, and the networks between them."""

    def __init__(
        self,
        plan: Plan,
        *,
        checks: Sequence[type[ScopeWatcher]] = (),
        make_node: Callable[..., ScopeNode] = ScopeNode,
        config: Config | None = None,
    ) -> None:
        self.plan = plan
        self.rng = Rng(plan.seed)
        self.events = EventQueue()
        self.internet = Internet(
            self.events, self.rng.derive("internet"), near_s=plan.near_s, far_s=plan.far_s
        )
        self.scopes = {scope.name: scope for scope in plan.scopes}
        self._places = {scope.name: place for place, scope in enumerate(plan.scopes)}
        self._plans = {node.name: node for node in plan.nodes}
        self.managers: dict[str, tuple[Host, ManagerMachine]] = {}
        self.nodes: dict[str, NodeLife] = {}
        """The present, or last, life of every node."""
        self.lives: list[NodeLife] = []
        self.sent: dict[tuple[str, Sender], list[Sent]] = {}
        self.delivered = 0
        """Messages that nodes were given, over all of them."""
        self.watchers: list[ScopeWatcher] = [check(self) for check in checks]
        self._config = config or Config()
        self._make_node = make_node
        self.saved: dict[str, dict[str, bytes]] = {}
        """What managers have saved, as if on disk."""
        self._keys = {
            name: blake2b(name.encode(), digest_size=KEY_BYTES).digest()
            for name in plan.key_names()
        }
        self._flavours: dict[tuple[str, int], Flavour] = {}
        """What each session of a topic promises …"""
        self._sessions: dict[tuple[str, Sender], dict[int, int]] = {}
        """… and in which one each message was delivered."""
        self._digest = blake2b(digest_size=16)

    @property
    def now(self) -> float:
        return self.events.now

    # Processes

    def start(self) -> None:
        """Start all managers and nodes."""
        for scope in self.plan.scopes:
            self.start_manager(scope.name)
        for node in self.plan.nodes:
            self.start_node(node.name)

    def start_manager(self, name: str, *, index: int | None = None) -> None:
        """``index``: its host's in the network, if not the next one."""
        scope = self.scopes[name]
        machine: list[ManagerMachine] = []

        def make(now: float) -> ManagerMachine:
            saved = self.saved.setdefault(name, {})
            high, low = divmod(self._places[name], 256)
            addresses = f"239.{192 + high}.{low}.0/24:7400"
            config = replace(self._config, grace_s=GRACE_S, multicast=addresses)
            machine.append(ManagerMachine(scope, config, saved, now))
            return machine[0]

        host = self.internet.add(
            scope.network,
            name,
            make,
            lambda: None,
            is_behind_nat=scope.is_behind_nat,
            index=index,
        )
        self.managers[name] = host, machine[0]

    def end_node(self, name: str) -> None:
        """Let a node's process end as its user wants it to."""
        node = self.nodes[name]
        node.host.do(lambda: node.node.finish(self.now))
        node.host.kill()

    def end_manager(self, name: str) -> None:
        host, machine = self.managers.pop(name)
        host.do(lambda: machine.manager.finish(self.now))
        host.kill()

    def kill_manager(self, name: str) -> None:
        host, _ = self.managers.pop(name)
        host.kill()

    def change_session(self, topic: str, flavour: Flavour) -> None:
        """Have the root of a topic begin a new session, unless its manager is away."""
        root = topic.rpartition("/")[0]
        if root in self.managers:
            host, machine = self.managers[root]

            def change() -> None:
                machine.manager.change_session(topic, flavour, self.now)

            host.do(change)

    def start_node(self, name: str, *, index: int | None = None) -> NodeLife:
        """``index``: its host's in the network, if not the next one."""
        plan = self._plans[name]
        before = self.nodes.get(name)
        node = NodeLife(self, plan, 1 if before is None else before.life + 1)
        scope = self.scopes[plan.owner]

        def make(now: float) -> NodeMachine:
            seed = self.rng.derive(f"node {name} {node.life}").bits64()
            node.machine = NodeMachine(
                plan, scope, node.life, self._config, seed, self.plan.copies_bytes, now,
                keys=KeyRing(self._keys), make_node=self._make_node,
            )  # fmt: skip
            return node.machine

        self.nodes[name] = node
        self.lives.append(node)
        node.host = self.internet.add(
            scope.network,
            name,
            make,
            lambda: self._take(node),
            is_behind_nat=scope.is_behind_nat,
            index=index,
        )
        for topic in plan.joins:
            self.join(node, topic)
        for topic in plan.opens:
            self.open(node, topic)
        return node

    def open(self, node: NodeLife, topic: str) -> None:
        node.host.do(lambda: node.node.open(topic, self.now))

    def join(self, node: NodeLife, topic: str) -> None:
        """Let a node join a topic; one that is frozen does so when it wakes."""

        def join() -> None:
            if topic in node.joined:
                return
            node.joined.add(topic)
            node.stays[topic] = node.stays.get(topic, 0) + 1
            node.settled_at[topic] = self.now + SETTLED_S
            node.node.join(topic, self.now)

        node.host.do(join)

    def leave(self, node: NodeLife, topic: str) -> None:
        def leave() -> None:
            if topic not in node.joined:
                return
            node.joined.discard(topic)
            node.settled_at.pop(topic, None)
            node.machine.forget_topic(topic)
            node.node.leave(topic, self.now)

        node.host.do(leave)

    def crash_node(self, name: str) -> None:
        self.nodes[name].host.kill()

    # Application

    def publish(self, node: NodeLife, topic: str, messages: list[bytes]) -> None:
        """Let a node send messages, unless it has to wait."""

        def put() -> None:
            if node.node.may_publish(topic):
                self.put(node, topic, messages)

        node.host.do(put)

    def put(
        self,
        node: NodeLife,
        topic: str,
        messages: list[bytes],
        attributes: dict[str, str] | None = None,
    ) -> None:
        """Publish messages, in a node's process, for which there is room."""
        first = node.node.publish(topic, messages, attributes, self.now)
        sent = self.sent.setdefault((topic, node.sender), [])
        assert first == len(sent)
        at = self.now if node.informed_at is None else node.informed_at
        sent.extend(Sent(at, message) for message in messages)
        for watcher in self.watchers:
            watcher.on_sent(node, topic, first, messages)

    def _take(self, node: NodeLife) -> None:
        """Take what a node delivers and tells."""
        while (delivery := node.node.poll_delivery()) is not None:
            if isinstance(delivery, Gap):
                self._note(f"{node} gap {delivery.topic} {delivery.first} {delivery.last}")
                for watcher in self.watchers:
                    watcher.on_gap(node, delivery)
            else:
                self._deliver(node, delivery)
        while (event := node.node.poll_event()) is not None:
            node.machine.handle_event(event)
            self._tell(node, event)
        for topic, sender, mark in node.machine.take_stable():
            for watcher in self.watchers:
                watcher.on_stable(node, topic, sender, mark)

    def _deliver(self, node: NodeLife, packet: Packet) -> None:
        if packet.topic not in node.joined:
            return  # it only sends to the topic, or has just left it
        sessions = self._sessions.setdefault((packet.topic, packet.sender), {})
        sessions.update(dict.fromkeys(range(packet.number, packet.stop), packet.session))
        for watcher in self.watchers:
            watcher.on_packet(node, packet)
        for number, message in enumerate(packet.split(), packet.number):
            node.delivered += 1
            self.delivered += 1
            self._note(f"{node} got {packet.topic} {packet.sender.node} {number}")
            for watcher in self.watchers:
                watcher.on_delivered(node, packet.topic, packet.sender, number, message)

    def _tell(self, node: NodeLife, event: NodeEvent) -> None:
        if isinstance(event, SessionInstalled):
            self._flavours[event.topic, event.number] = event.flavour
        for watcher in self.watchers:
            watcher.on_event(node, event)

    def _note(self, what: str) -> None:
        self._digest.update(f"{self.now:.9f} {what}".encode())

    # What checks ask

    def living(self) -> list[NodeLife]:
        return [node for node in self.nodes.values() if not node.host.is_dead]

    def undisturbed(self) -> list[NodeLife]:
        """Return the nodes that no fault has befallen."""
        return [node for node in self.living() if not node.is_disturbed]

    def is_repaired(self, topic: str, sender: Sender, number: int) -> bool:
        """Whether a message was sent in a session that promises to repair it."""
        session = self._sessions.get((topic, sender), {}).get(number)
        node = self.nodes[sender.node]
        if session is None and node.sender == sender:
            ranges = RangeSet([(number, number + 1)])
            for packet in node.forwarder.holdings.copies(topic, sender, ranges, 1):
                session = packet.session
        flavour = None if session is None else self._flavours.get((topic, session))
        return flavour is None or flavour.reliability == "repair"

    def is_busy_with_sessions(self) -> bool:
        """Whether sessions change, or messages wait for their places in an order."""
        return any(
            known.is_root and known.sessions.is_changing()
            for _, machine in self.managers.values()
            for known in machine.manager.topics()
        ) or any(node.node.sessions.next_timeout() is not None for node in self.living())

    def spoken(self) -> int:
        """Return how many frames and datagrams were sent, besides signs of life."""
        return sum(machine.spoken for _, machine in self.managers.values()) + sum(
            node.machine.spoken for node in self.lives
        )

    def digest(self) -> str:
        return self._digest.hexdigest()

    def violations(self) -> list[Violation]:
        return [violation for watcher in self.watchers for violation in watcher.violations]
