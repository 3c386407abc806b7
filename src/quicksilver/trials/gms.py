"""The GMS of a simulated cluster: the real service on a virtual machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from quicksilver.core.ports import Noted, Reported
from quicksilver.membership.addresses import AddressPool
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.planning import make_planner
from quicksilver.membership.planning.model import PlanLimits
from quicksilver.membership.service import MembershipService
from quicksilver.membership.store import Commit, Image, MemoryStore, Store
from quicksilver.sim.network import VirtualNetwork
from quicksilver.sim.streams import RETRY_S, Pipe
from quicksilver.stdx.rand import Rng
from quicksilver.wire.gms import SECRET_BYTES, ClusterSettings
from quicksilver.wire.ids import Address, GroupId, NodeId

GMS_INDEX = -1
"""The GMS's place in the network, next to the nodes' 0, 1, …"""


class Client(Protocol):
    """A node as the GMS's machine sees it."""

    index: int

    @property
    def address(self) -> Address:
        """Where it is now."""
        ...

    def handle_frame(self, connection: int, frame: bytes) -> None: ...

    def handle_closed(self, connection: int, reason: str) -> None: ...


class _Connection:
    def __init__(self, client: Client, to_gms: Pipe, to_client: Pipe) -> None:
        self.client = client
        self.to_gms = to_gms
        self.to_client = to_client

    def close(self) -> None:
        self.to_gms.close()
        self.to_client.close()


class _Witness:
    """A store that notes since when nodes are in groups, as the GMS itself has it.

    What a node believes of that is part of what is tested.
    """

    def __init__(self, store: Store, since: dict[NodeId, dict[GroupId, int]]) -> None:
        """``since`` is by node and group: the batch that brought the node in."""
        self.path = store.path
        self._store = store
        self._since = since

    def load(self) -> Image | None:
        return self._store.load()

    def commit(self, commit: Commit) -> None:
        self._store.commit(commit)
        for node, row in commit.nodes.items():
            known = self._since.pop(node, {})
            if row is not None:
                batch = commit.counters.batch
                self._since[node] = {group: known.get(group, batch) for group in row.joined}

    def close(self) -> None:
        self._store.close()


class SimGms:
    """Serves a simulated cluster; can be killed and started again on its store."""

    def __init__(
        self,
        network: VirtualNetwork,
        rng: Rng,
        *,
        settings: ClusterSettings | None = None,
        config: ServiceConfig | None = None,
        planner: str = "auto",
        limits: PlanLimits | None = None,
        store: Store | None = None,
        make_service: Callable[..., MembershipService] = MembershipService,
    ) -> None:
        self.settings = settings or ClusterSettings()
        self.config = config or ServiceConfig()
        self.is_down = False
        self.restarts = 0
        self.frozen_until = 0.0
        self._network = network
        self._events = network.events
        self._rng = rng.derive("gms")
        self._secrets = self._rng.derive("secrets")
        self.notes: list[str] = []
        """What whoever runs the GMS would have read."""
        self.taps: list[Callable[[Client, bytes], None]] = []
        """Shown every frame that the GMS sends, and to whom, before it leaves."""
        self.request_taps: list[Callable[[Client, bytes], None]] = []
        """Shown every frame that reaches the GMS, and from whom, before it is read."""
        self._planner = planner
        self._limits = limits or PlanLimits()
        self._make = make_service
        self.store = store or MemoryStore()
        self._since: dict[NodeId, dict[GroupId, int]] = {}
        self._connections: dict[int, _Connection] = {}
        self._next_connection = 1
        self._wakes_at: float | None = None
        self.service = self._make_service()

    def _make_service(self) -> MembershipService:
        return self._make(
            store=_Witness(self.store, self._since),
            planner=make_planner(self._planner, self._limits),
            settings=self.settings,
            pool=AddressPool("239.192.0.0/16"),
            config=self.config,
            seed=self._rng.bits64(),
            make_secret=self._make_secret,
        )

    def _make_secret(self) -> bytes:
        words = SECRET_BYTES // 8
        return b"".join(self._secrets.bits64().to_bytes(8, "little") for _ in range(words))

    def member_since(self, node: int, group: int) -> int | None:
        """Return the batch that brought a node into a group that it is in."""
        return self._since.get(NodeId(node), {}).get(GroupId(group))

    # Connections

    def connect(self, client: Client) -> int | None:
        """Open a stream; None while the GMS is down or cannot be reached."""
        network = self._network
        index = client.index
        if self.is_down or not network.passes(index, GMS_INDEX):
            return None
        if not network.passes(GMS_INDEX, index):
            return None
        number = self._next_connection
        self._next_connection += 1
        self._connections[number] = _Connection(
            client,
            Pipe(network, index, GMS_INDEX, lambda frame: self._handle_frame(number, frame)),
            Pipe(network, GMS_INDEX, index, lambda frame: client.handle_frame(number, frame)),
        )
        addresses = frozenset({client.address[0]})
        self.service.handle_connected(number, addresses, self._events.now)
        self._pump()
        return number

    def send(self, connection: int, frame: bytes) -> bool:
        """Take a frame from a node."""
        found = self._connections.get(connection)
        if found is not None:
            found.to_gms.send(frame)
        return found is not None

    def sever(self, connection: int) -> None:
        """A stream is dead, and neither side is told: one of them has another address now."""
        found = self._connections.pop(connection, None)
        if found is not None:
            found.close()

    def disconnect(self, connection: int) -> None:
        """A node's process, or the node itself, has ended a stream."""
        found = self._connections.pop(connection, None)
        if found is None:
            return
        found.close()
        service, index = self.service, found.client.index

        def notice() -> None:
            if self.is_down or self.service is not service:
                return
            if not self._network.passes(index, GMS_INDEX):
                self._events.after(RETRY_S, notice)
                return
            service.handle_disconnected(connection, self._events.now)
            self._pump()

        self._events.after(self._network.link.latency_s, notice)

    def _handle_frame(self, connection: int, frame: bytes) -> None:
        if connection in self._connections and not self.is_down:
            for tap in self.request_taps:
                tap(self._connections[connection].client, frame)
            self.service.handle_frame(connection, frame, self._events.now)
            self._pump()

    # Life

    def restart(self, down_s: float) -> None:
        """Kill the GMS; a new one comes up on what the store holds."""
        if self.is_down:
            return
        self.is_down = True
        self.restarts += 1
        connections, self._connections = self._connections, {}
        for number, connection in connections.items():
            connection.close()
            self._tell_closed(number, connection.client, "the GMS is gone")

        life = self.restarts
        self._events.after(down_s, lambda: self.come_up() if self.restarts == life else None)

    def come_up(self) -> None:
        """Start again, if it is down."""
        if self.is_down:
            self.service = self._make_service()
            self.is_down = False
            self._pump()

    def _tell_closed(self, number: int, client: Client, reason: str) -> None:
        self._events.after(
            self._network.link.latency_s, lambda: client.handle_closed(number, reason)
        )

    def _pump(self) -> None:
        if self.is_down:
            return
        service = self.service
        now = self._events.now
        due = service.next_timeout()
        if due is not None and due <= now:
            service.handle_timeout(now)
        while (transmit := service.poll_transmit()) is not None:
            connection = self._connections.get(transmit.connection)
            if connection is not None:
                for tap in self.taps:
                    tap(connection.client, transmit.frame)
                connection.to_client.send(transmit.frame)
        while (event := service.poll_event()) is not None:
            if isinstance(event, Noted):
                self.notes.append(event.text)
                continue
            if isinstance(event, Reported):
                continue
            gone = self._connections.pop(event.connection, None)
            if gone is not None:
                self._close_when_sent(event.connection, gone)
        due = service.next_timeout()
        if due is not None and (self._wakes_at is None or due < self._wakes_at):
            self._wakes_at = max(due, now + 1e-6)
            self._events.at(self._wakes_at, self._wake)

    def _close_when_sent(self, number: int, connection: _Connection) -> None:
        """Frames that were sent before arrive first; they share the latency."""
        connection.to_gms.close()
        self._tell_closed(number, connection.client, "closed by the GMS")

    def _wake(self) -> None:
        if self._wakes_at is not None and self._events.now >= self._wakes_at:
            self._wakes_at = None
        self._pump()
