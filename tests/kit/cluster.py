"""A small virtual world for the engine: links with faults, hosts, one GMS.

Everything happens in one process and in virtual time, in an order that the
seed decides. It drives the very engines and the very membership service that
run on real sockets; only the hosts are replaced. Links lose, duplicate and
reorder; hosts crash and freeze; the GMS restarts on its store; a tap sees every
datagram, and anything can be injected from any address.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from quicksilver.membership.addresses import AddressPool
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.events import (
    ClientEvent,
    SubscriptionCompleted,
    ViewsChanged,
    WasExcluded,
)
from quicksilver.membership.planning import make_planner
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.membership.service import MembershipService
from quicksilver.membership.store import MemoryStore, Store
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.engine import Engine
from quicksilver.multicast.lanes import GroupSender
from quicksilver.stdx.rand import Rng
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.packets import KIND_DATA, Messages

Loss = Callable[["VirtualNode", bytes], bool]
"""Whether a datagram does not reach a node."""

Address = tuple[str, int]
Tap = Callable[["VirtualNode", Address, bytes], None]
"""Sees (who sends, where to, what), once a datagram, before any fault."""

MULTICAST_PORT = 7400


class VirtualNode:
    """One engine, its inbox of delivered messages and its events."""

    def __init__(self, world: World, index: int, config: EngineConfig) -> None:
        self.world = world
        self.index = index
        self.address = (f"10.0.{index // 250}.{index % 250 + 1}", 7000)
        self.inbox: list[tuple[int, int, int, bytes]] = []
        """(group, sender, sequence, payload) in the order of delivery."""
        self.counts: Counter[int] = Counter()
        """Messages delivered, by group."""
        self.events: list[ClientEvent] = []
        self.sent: defaultdict[str, list[bytes]] = defaultdict(list)
        """What the application sent, by group name, in order."""
        self.unwanted = 0
        """Messages of groups that it had not joined, dropped."""
        self._member_since: dict[int, int] = {}
        """Groups that it is in, and the batch in which it came."""
        self.left_groups: set[str] = set()
        """Groups that it was ever told to leave: gaps are allowed there."""
        self.engine = Engine(
            name=f"n{index}",
            address=self.address,
            config=config,
            upcalls=self,
            seed=world.rng.bits64(),
        )
        self.is_frozen = False
        self.is_dead = False
        self.connection: int | None = None
        self._wake_at: float | None = None
        self._backlog: list[Callable[[], None]] = []

    # Upcalls

    def on_messages(self, messages: Messages) -> None:
        if messages.group is not None:
            if not self._is_wanted(messages.group, messages.batch):
                self.unwanted += len(messages)
                return
            first = messages.first
            self.counts[messages.group] += len(messages)
            for offset, payload in enumerate(messages.payloads):
                self.inbox.append((messages.group, messages.sender, first + offset, payload))
            return
        for group, sequence, payload in zip(
            messages.groups, messages.sequences, messages.payloads, strict=True
        ):
            if self._is_wanted(group, messages.batch):
                self.counts[group] += 1
                self.inbox.append((group, messages.sender, sequence, payload))
            else:
                self.unwanted += 1

    def on_event(self, event: ClientEvent) -> None:
        self.events.append(event)
        if isinstance(event, ViewsChanged):
            for view in event.groups:
                self._note_view(view.id)
            for group in event.groups_gone:
                self._member_since.pop(group, None)
        elif isinstance(event, WasExcluded):
            self._member_since.clear()

    def _note_view(self, group: int) -> None:
        view = self.engine.client.directory.groups.get(group)
        if view is not None and self.engine.node in view.members:
            self._member_since.setdefault(group, self.engine.batch)
        else:
            self._member_since.pop(group, None)

    def _is_wanted(self, group: int, batch: int) -> bool:
        """Whether this node was in the group when the message was committed."""
        if group not in self._member_since:
            self._note_view(group)
        return batch >= self._member_since.get(group, 1 << 62)

    # Verbs

    def connect(self) -> None:
        if self.world.is_gms_down:
            self.world.at(self.world.now + 0.05, lambda: None if self.is_dead else self.connect())
            return
        self.connection = self.world.open_connection(self)
        self.engine.handle_control_opened(self.world.now)
        self.pump()

    def join(self, *groups: str) -> None:
        self.engine.subscribe(join=groups)
        self.pump()

    def open(self, *groups: str) -> None:
        self.engine.subscribe(open_=groups)
        self.pump()

    def leave(self, *groups: str) -> None:
        self.left_groups.update(groups)
        self.engine.subscribe(leave=groups)
        self.pump()

    def goodbye(self) -> None:
        self.engine.goodbye()
        self.pump()

    def send(self, group: str, *payloads: bytes) -> None:
        self.sent[group].extend(payloads)
        sender = self.engine.outgoing.sender_for(group)
        self.engine.outgoing.refresh_lanes()
        for payload in payloads:
            sender.lane.outbox.put(sender, payload)
            sender.lane.room -= len(payload)
        self.engine.register_lane(sender.lane)
        self.pump()

    def is_subscribed(self) -> bool:
        return any(isinstance(event, SubscriptionCompleted) for event in self.events)

    def may_send_to(self, group: str) -> bool:
        """Whether a subscription to the group, as member or sender, has completed."""
        return any(isinstance(e, SubscriptionCompleted) and group in e.groups for e in self.events)

    def was_excluded(self) -> bool:
        return any(isinstance(event, WasExcluded) for event in self.events)

    @property
    def is_up(self) -> bool:
        return not self.is_dead and not self.is_frozen

    def received(self, sender: VirtualNode, group: str | None = None) -> list[bytes]:
        """Payloads of one sender's present incarnation, in the order of delivery."""
        wanted = None if group is None else self.world.group_id(group)
        return [
            payload
            for found, origin, _, payload in self.inbox
            if origin == sender.engine.node and wanted in {None, found}
        ]

    # Host

    def receive(self, work: Callable[[], None]) -> None:
        if self.is_dead:
            return
        if self.is_frozen:
            self._backlog.append(work)
            return
        work()
        self.engine.handle_drained(self.world.now)
        self.pump()

    def freeze(self) -> None:
        self.is_frozen = True

    def thaw(self) -> None:
        self.is_frozen = False
        if self.is_dead:
            return
        backlog, self._backlog = self._backlog, []
        for work in backlog:
            work()
        self.engine.handle_drained(self.world.now)
        self.pump()

    def pump(self) -> None:
        world = self.world
        if self.is_dead or self.is_frozen:
            return
        engine = self.engine
        due = engine.next_timeout()
        if due is not None and due <= world.now:
            engine.handle_timeout(world.now)
        while (transmit := engine.poll_transmit(world.now)) is not None:
            for packet in transmit.packets:
                world.transmit(self, transmit.destination, packet)
        if self.connection is not None:
            while (frame := engine.poll_control(world.now)) is not None:
                world.to_gms(self.connection, frame)
        due = engine.next_timeout()
        if due is not None and (self._wake_at is None or due < self._wake_at):
            self._wake_at = max(due, world.now + 1e-6)
            world.at(self._wake_at, self._wake)

    def _wake(self) -> None:
        if self.is_dead:
            return
        if self._wake_at is not None and self.world.now >= self._wake_at:
            self._wake_at = None
        if self.is_frozen:
            self._backlog.append(self.pump)
            return
        self.engine.handle_drained(self.world.now)
        self.pump()

    def kill(self) -> None:
        self.is_dead = True
        if self.connection is not None:
            self.world.close_connection(self.connection)

    def handle_gms_closed(self, reason: str) -> None:
        self.connection = None
        self.engine.handle_control_closed(reason, self.world.now)
        self.world.at(self.world.now + 0.1, lambda: None if self.is_dead else self.connect())


class World:
    """Virtual time, links and the GMS."""

    def __init__(
        self,
        nodes: int,
        *,
        seed: int = 1,
        config: EngineConfig | None = None,
        settings: ClusterSettings | None = None,
        planner: str = "exact",
        limits: PlanLimits | None = None,
        latency_s: float = 0.0002,
        hybrid: tuple[str, ...] = (),
        store: Store | None = None,
    ) -> None:
        self.now = 0.0
        self.seed = seed
        self.rng = Rng(seed)
        self.chance = self.rng.derive("links")
        self.loss: Loss | None = None
        self.duplicate_rate = 0.0
        self.jitter_s = 0.0
        """Up to this much is added to each datagram's latency: they overtake."""
        self.taps: list[Tap] = []
        self.is_gms_down = False
        self.wire: defaultdict[int, int] = defaultdict(int)
        """Datagrams sent, by kind."""
        self._latency_s = latency_s
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._gms_connections: dict[int, VirtualNode] = {}
        self._next_connection = 1
        self._gms_wake: float | None = None
        self.settings = settings or ClusterSettings()
        self._planner = planner
        self._limits = limits or PlanLimits()
        self._hybrid = frozenset(hybrid)
        self._store = store or MemoryStore()
        self.service = self._make_service(self._store)
        self.config = config or EngineConfig(packet_bytes=1400)
        self.nodes: list[VirtualNode] = []
        self._group_ids: dict[str, int] = {}
        self._by_address: dict[Address, VirtualNode] = {}
        for _ in range(nodes):
            self.add_node()

    def _make_service(self, store: Store) -> MembershipService:
        return MembershipService(
            store=store,
            planner=make_planner(self._planner, self._limits),
            settings=self.settings,
            pool=AddressPool("239.192.0.0/16"),
            config=ServiceConfig(hybrid_groups=self._hybrid),
            seed=self.rng.bits64(),
        )

    def add_node(self, config: EngineConfig | None = None) -> VirtualNode:
        node = VirtualNode(self, len(self.nodes), config or self.config)
        self.nodes.append(node)
        self._by_address[node.address] = node
        node.connect()
        return node

    def settle(self, *nodes: VirtualNode) -> None:
        """Run until the nodes (all, if none is named) have joined what they asked for."""
        waiting = nodes or tuple(self.nodes)
        assert self.run(5, lambda: all(node.is_subscribed() for node in waiting))

    def group_id(self, name: str) -> int:
        known = self._group_ids.get(name)
        if known is not None:
            return known
        for node in self.nodes:
            for view in node.engine.client.directory.groups.values():
                self._group_ids[view.name] = view.id
        if name in self._group_ids:
            return self._group_ids[name]
        raise KeyError(name)

    # Time

    def at(self, when: float, work: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._events, (when, self._order, work))

    def run(self, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Advance time; True as soon as ``until`` holds (checked after each event)."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, work = heapq.heappop(self._events)
            work()
            if until is not None and until():
                return True
        self.now = end
        return until is not None and until()

    def count_sent(self) -> int:
        """Return how many datagrams nodes have sent."""
        return sum(self.wire.values())

    # Network

    def transmit(self, sender: VirtualNode, destination: Address, packet: bytes) -> None:
        self.wire[packet[1]] += 1
        for tap in self.taps:
            tap(sender, destination, packet)
        if destination[0].startswith("239."):
            targets = [
                node
                for node in self.nodes
                if node is not sender and destination[0] in node.engine.multicast_addresses()
            ]
        else:
            target = self._by_address.get(destination)
            targets = [] if target is None else [target]
        for target in targets:
            if self.loss is not None and self.loss(target, packet):
                continue
            copies = 1
            if self.duplicate_rate and self.chance.chance(self.duplicate_rate):
                copies = 2
            for _ in range(copies):
                delay = self._latency_s
                if self.jitter_s:
                    delay += self.jitter_s * self.chance.uniform()
                self.inject(target, packet, sender.address, delay)

    def inject(
        self, target: VirtualNode, packet: bytes, source: Address, delay_s: float = 0.0
    ) -> None:
        """Let a datagram arrive at a node, whoever made it."""
        self.at(
            self.now + delay_s,
            lambda: target.receive(lambda: target.engine.handle_datagram(packet, source, self.now)),
        )

    # GMS

    def open_connection(self, node: VirtualNode) -> int:
        connection = self._next_connection
        self._next_connection += 1
        self._gms_connections[connection] = node
        self.service.handle_connected(connection, self.now)
        return connection

    def close_connection(self, connection: int) -> None:
        if self._gms_connections.pop(connection, None) is not None:
            self.service.handle_disconnected(connection, self.now)
            self._pump_gms()

    def to_gms(self, connection: int, frame: bytes) -> None:
        def arrive() -> None:
            if connection in self._gms_connections:
                self.service.handle_frame(connection, frame, self.now)
                self._pump_gms()

        self.at(self.now + self._latency_s, arrive)

    def restart_gms(self, *, store: Store | None = None, down_s: float = 0.5) -> None:
        """Kill the GMS; a new one comes up on what the store holds (or on ``store``)."""
        self.is_gms_down = True
        connections, self._gms_connections = self._gms_connections, {}
        for node in connections.values():
            self.at(
                self.now + self._latency_s,
                lambda to=node: to.receive(lambda: to.handle_gms_closed("the GMS is gone")),
            )

        def come_up() -> None:
            self.service = self._make_service(store or self._store)
            self.is_gms_down = False
            self._pump_gms()

        self.at(self.now + down_s, come_up)

    def _pump_gms(self) -> None:
        if self.is_gms_down:
            return
        service = self.service
        due = service.next_timeout()
        if due is not None and due <= self.now:
            service.handle_timeout(self.now)
        while (output := service.poll_output()) is not None:
            self._to_node(*output)
        while (connection := service.poll_close()) is not None:
            node = self._gms_connections.pop(connection, None)
            if node is not None:
                self.at(
                    self.now + self._latency_s,
                    lambda to=node: to.receive(lambda: to.handle_gms_closed("closed by the GMS")),
                )
        due = service.next_timeout()
        if due is not None and (self._gms_wake is None or due < self._gms_wake):
            self._gms_wake = max(due, self.now + 1e-6)
            self.at(self._gms_wake, self._wake_gms)

    def _wake_gms(self) -> None:
        if self._gms_wake is not None and self.now >= self._gms_wake:
            self._gms_wake = None
        self._pump_gms()

    def _to_node(self, connection: int, frame: bytes) -> None:
        node = self._gms_connections.get(connection)
        if node is not None:
            self.at(
                self.now + self._latency_s,
                lambda: node.receive(lambda: self._frame_arrives(node, connection, frame)),
            )

    def _frame_arrives(self, node: VirtualNode, connection: int, frame: bytes) -> None:
        if node.connection == connection:
            node.engine.handle_control_frame(frame, self.now)


def enqueue(sender: GroupSender, *payloads: bytes) -> None:
    """Queue messages as an application thread does."""
    lane = sender.lane
    for payload in payloads:
        lane.outbox.put(sender, payload)
        lane.room -= len(payload)


def lose_data(rng: Rng, rate: float) -> Loss:
    """Lose data packets independently."""
    return lambda node, packet: packet[1] == KIND_DATA and rng.chance(rate)


def lose_everything(rng: Rng, rate: float) -> Loss:
    """Lose datagrams of all kinds independently."""
    return lambda node, packet: rng.chance(rate)


def one_region(members: int, senders: int = 1, **options: Any) -> World:
    """A world whose first nodes are the members of group ``g``; the others only send to it."""
    world = World(members + senders, **options)
    for node in world.nodes[:members]:
        node.join("g")
    for node in world.nodes[members:]:
        node.open("g")
    world.settle()
    return world
