"""A small virtual world for the engine: links with latency and loss, one GMS.

Everything happens in one process and in virtual time, in an order that the
seed decides. It drives the very engines and the very membership service that
run on real sockets; only the hosts are replaced.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable

from quicksilver.membership.addresses import AddressPool
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.events import ClientEvent, SubscriptionCompleted
from quicksilver.membership.planning import make_planner
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.membership.service import MembershipService
from quicksilver.membership.store import MemoryStore
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.engine import Engine
from quicksilver.stdx.rand import Rng
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.packets import KIND_DATA, Messages

Loss = Callable[["VirtualNode", bytes], bool]


class VirtualNode:
    """One engine, its inbox of delivered messages and its events."""

    def __init__(self, world: World, index: int, config: EngineConfig) -> None:
        self.world = world
        self.index = index
        self.address = (f"10.0.{index // 250}.{index % 250 + 1}", 7000)
        self.inbox: list[tuple[int, int, int, bytes]] = []
        """(group, sender, sequence, payload) in the order of delivery."""
        self.events: list[ClientEvent] = []
        self.engine = Engine(
            name=f"n{index}",
            address=self.address,
            config=config,
            upcalls=self,
            seed=world.rng.bits64(),
        )
        self.is_frozen = False
        self.is_dead = False
        self._connection: int | None = None
        self._wake_at: float | None = None
        self._backlog: list[Callable[[], None]] = []

    # Upcalls

    def on_messages(self, messages: Messages) -> None:
        if messages.group is not None:
            first = messages.first
            for offset, payload in enumerate(messages.payloads):
                self.inbox.append((messages.group, messages.sender, first + offset, payload))
            return
        for group, sequence, payload in zip(
            messages.groups, messages.sequences, messages.payloads, strict=True
        ):
            self.inbox.append((group, messages.sender, sequence, payload))

    def on_event(self, event: ClientEvent) -> None:
        self.events.append(event)

    # Verbs

    def connect(self) -> None:
        self._connection = self.world.open_connection(self)
        self.engine.handle_control_opened(self.world.now)
        self.pump()

    def join(self, *groups: str) -> None:
        self.engine.subscribe(join=groups)
        self.pump()

    def open(self, *groups: str) -> None:
        self.engine.subscribe(open_=groups)
        self.pump()

    def leave(self, *groups: str) -> None:
        self.engine.subscribe(leave=groups)
        self.pump()

    def send(self, group: str, *payloads: bytes) -> None:
        sender = self.engine.sender_for(group)
        self.engine.refresh_lanes()
        for payload in payloads:
            sender.lane.outbox.append((sender, payload))
            sender.lane.room -= len(payload)
        self.engine.wake_lane(sender.lane)
        self.pump()

    def is_subscribed(self) -> bool:
        return any(isinstance(event, SubscriptionCompleted) for event in self.events)

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

    def thaw(self) -> None:
        self.is_frozen = False
        backlog, self._backlog = self._backlog, []
        for work in backlog:
            work()
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
        if self._connection is not None:
            while (frame := engine.poll_control(world.now)) is not None:
                world.to_gms(self._connection, frame)
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
        if self._connection is not None:
            self.world.close_connection(self._connection)

    def handle_gms_closed(self, reason: str) -> None:
        self._connection = None
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
        latency_s: float = 0.0002,
        hybrid: tuple[str, ...] = (),
    ) -> None:
        self.now = 0.0
        self.rng = Rng(seed)
        self.loss: Loss | None = None
        self.wire: defaultdict[int, int] = defaultdict(int)
        """Datagrams sent, by kind."""
        self._latency_s = latency_s
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._gms_connections: dict[int, VirtualNode] = {}
        self._next_connection = 1
        self._gms_wake: float | None = None
        self.settings = settings or ClusterSettings()
        self.service = MembershipService(
            store=MemoryStore(),
            planner=make_planner(planner, PlanLimits()),
            settings=self.settings,
            pool=AddressPool("239.192.0.0/16"),
            config=ServiceConfig(hybrid_groups=frozenset(hybrid)),
            seed=self.rng.bits64(),
        )
        config = config or EngineConfig(packet_bytes=1400)
        self.nodes = [VirtualNode(self, index, config) for index in range(nodes)]
        self._by_address = {node.address: node for node in self.nodes}
        for node in self.nodes:
            node.connect()

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

    # Network

    def transmit(self, sender: VirtualNode, destination: tuple[str, int], packet: bytes) -> None:
        self.wire[packet[1]] += 1
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
            self.at(
                self.now + self._latency_s,
                lambda to=target: to.receive(
                    lambda: to.engine.handle_datagram(packet, sender.address, self.now)
                ),
            )

    # GMS

    def open_connection(self, node: VirtualNode) -> int:
        connection = self._next_connection
        self._next_connection += 1
        self._gms_connections[connection] = node
        self.service.handle_connected(connection, self.now)
        return connection

    def close_connection(self, connection: int) -> None:
        self._gms_connections.pop(connection, None)
        self.service.handle_disconnected(connection, self.now)
        self._pump_gms()

    def to_gms(self, connection: int, frame: bytes) -> None:
        def arrive() -> None:
            if connection in self._gms_connections:
                self.service.handle_frame(connection, frame, self.now)
                self._pump_gms()

        self.at(self.now + self._latency_s, arrive)

    def _pump_gms(self) -> None:
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
                lambda: node.receive(
                    lambda: node.engine.handle_control_frame(frame, self.now)
                ),
            )


def lose_data(rng: Rng, rate: float) -> Loss:
    """Lose data packets independently."""
    return lambda node, packet: packet[1] == KIND_DATA and rng.chance(rate)
