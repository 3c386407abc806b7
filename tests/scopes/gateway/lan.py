"""A network with a GMS, as far as gateways can see it: what is sent arrives when a test says so.

Of the guarantees of groups only these hold here: a sender's messages arrive in order at each
region, and without gaps; what a crashed sender had under way ends at another place in each
region; a flush ends when all regions have what was sent before it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from quicksilver.multicast.carried import CarriedMessages
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.frames import Begin, Carry, OpenChannel
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.gateway.gateway import Gateway
from quicksilver.scopes.gateway.inflow import Ticket
from quicksilver.scopes.gateway.messages import name_node
from quicksilver.scopes.management.events import TargetOpened
from quicksilver.scopes.routing import Channel, Entry
from quicksilver.wire.envelope import parse_run

T = "campus/news"
LAN = "campus/lan2"
ALICE = Sender("campus/lan1", "alice", 17)


@dataclass
class Member:
    """An ordinary node."""

    region: str
    carried: CarriedMessages = field(default_factory=CarriedMessages)
    got: list[tuple[str, int]] = field(default_factory=list)


@dataclass
class Way:
    """What one gateway has sent to one region, or to one other gateway."""

    under_way: deque[bytes] = field(default_factory=deque)
    sent: int = 0
    arrived: int = 0


class Host:
    """Runs one gateway, as its process would."""

    def __init__(self, lan: Lan, node: int, name: str) -> None:
        self.node = node
        self.name = name
        forwarder = Forwarder(scope=LAN, node=name, life=1, copies_bytes_max=1 << 20)
        self.forwarder = forwarder
        self.gateway = Gateway(scope=LAN, name=name, forwarder=forwarder, run_bytes=lan.run_bytes)
        self.flush: tuple[Ticket, dict[str, int]] | None = None
        self.ways: dict[str, Way] = {region: Way() for region in lan.regions}
        self.said: dict[int, Way] = {}
        self.fed: dict[Sender, int] = {}
        """The next message of each sender that comes to this gateway."""
        self._channel = Channel("campus", ("campus/lan1", "x"), (LAN, name), T, "campus/lan1")
        forwarder.handle_event(TargetOpened(self._channel))
        forwarder.handle_frame(1, OpenChannel(self._channel), 0.0)

    def feed(self, sender: Sender, count: int, first: int | None = None) -> None:
        """The next messages of a sender come along a channel."""
        number = self.fed.get(sender, 0) if first is None else first
        self.fed[sender] = number + count
        record = (Entry("campus", "campus/lan1", LAN), Entry(LAN, self.name, self.name))
        messages = tuple(str(number + at).encode() for at in range(count))
        packet = Packet.of(T, sender, number, number, 0, record, {}, messages)
        self.forwarder.handle_frame(1, Begin(self._channel, sender, number), 0.0)
        self.forwarder.handle_frame(1, Carry(self._channel, packet), 0.0)
        self.pump()

    def pump(self) -> None:
        gateway = self.gateway
        while (told := self.forwarder.poll_delivery()) is not None:
            gateway.handle_delivery(told)
        while gateway.poll_wanted() is not None:
            pass
        while (bringing := gateway.poll_bringing()) is not None:
            for way in self.ways.values():
                way.under_way += bringing.payloads
                way.sent += len(bringing.payloads)
        while (said := gateway.poll_said()) is not None:
            for way in self.said.values():
                way.under_way.append(said)
        if self.flush is None and (ticket := gateway.begin_flush()) is not None:
            self.flush = ticket, {region: way.sent for region, way in self.ways.items()}

    def end_flush(self, *, has_failed: bool = False) -> None:
        """End the flush that is under way, if all that it waits for has arrived."""
        if self.flush is None:
            return
        ticket, marks = self.flush
        if all(self.ways[region].arrived >= mark for region, mark in marks.items()):
            self.flush = None
            self.gateway.handle_flushed(ticket, has_failed=has_failed)
            self.pump()


class Lan:
    """The network; gateways have numbers below 10, members from 10 on."""

    def __init__(
        self, regions: str = "ab", gateways: int = 2, members: int = 3, run_bytes: int = 1
    ) -> None:
        """``run_bytes``: how much is brought in as one; 1 is a message at a time."""
        self.regions = regions
        self.run_bytes = run_bytes
        self.members: dict[int, Member] = {}
        self.living: set[int] = set()
        """Nodes that members count in."""
        self.hosts: dict[int, Host] = {}
        self.dead: dict[int, Host] = {}
        for at in range(members):
            self.members[10 + at] = Member(regions[at % len(regions)])
        for node in range(1, gateways + 1):
            self.start(node)

    def start(self, node: int) -> Host:
        """A gateway comes; all others hear of it at once."""
        host = self.hosts[node] = Host(self, node, f"g{node}")
        self.living.add(node)
        for other in self.hosts.values():
            self.tell(other)
        return host

    def tell(self, host: Host) -> None:
        """A gateway hears which gateways there are, and then of the topic's view."""
        names = {node: name_node(LAN, each.name) for node, each in self.hosts.items()}
        host.said = {n: host.said.get(n, Way()) for n in self.hosts if n != host.node}
        host.gateway.handle_gateways(host.node, names)
        host.gateway.handle_view(T, [*self.hosts, *self.members])
        host.pump()

    def presenters(self) -> list[int]:
        return [n for n, host in self.hosts.items() if host.gateway._topics.is_presented(T)]

    def arrive(self, host: Host, region: str, count: int) -> None:
        """The next messages of a gateway arrive at all members of a region."""
        way = host.ways[region]
        for _ in range(min(count, len(way.under_way))):
            payload = way.under_way.popleft()
            way.arrived += 1
            run = parse_run(payload)
            assert run is not None
            envelope, _, bodies = run
            sender = envelope.headers["scope.sender"]
            for member in self.members.values():
                if member.region != region:
                    continue
                for at in member.carried.pick(host.node, [envelope] * len(bodies), self.living):
                    assert bodies[at] == str(envelope.number + at).encode()
                    member.got.append((sender, envelope.number + at))

    def hear(self, host: Host, other: int, count: int) -> None:
        """The next words of a gateway arrive at another one."""
        way = host.said.get(other, Way())
        for _ in range(min(count, len(way.under_way))):
            said = way.under_way.popleft()
            if other in self.hosts:
                self.hosts[other].gateway.handle_said(host.node, said)

    def crash(self, node: int, kept: dict[str, int], said: int = 0) -> None:
        """A gateway dies. Of what is under way each region keeps so many of the first."""
        host = self.dead[node] = self.hosts.pop(node)
        for region, way in host.ways.items():
            while len(way.under_way) > kept.get(region, 0):
                way.under_way.pop()
        for way in host.said.values():
            while len(way.under_way) > said:
                way.under_way.pop()

    def settle(self) -> None:
        """Let all that is under way arrive, and everybody hear of everything."""
        for host in self.dead.values():
            for region in self.regions:
                self.arrive(host, region, len(host.ways[region].under_way))
        self.living -= self.dead.keys()
        for host in self.hosts.values():
            self.tell(host)
        is_moving = True
        while is_moving:
            is_moving = False
            for host in list(self.hosts.values()):
                for region in self.regions:
                    is_moving |= bool(host.ways[region].under_way)
                    self.arrive(host, region, len(host.ways[region].under_way))
                for other in list(host.said):
                    self.hear(host, other, len(host.said[other].under_way))
                is_moving |= host.flush is not None
                host.end_flush()
