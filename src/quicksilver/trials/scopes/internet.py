"""Networks in virtual time: streams between hosts, and datagrams inside of networks.

A host runs one machine without sockets: a scope's manager, or a node. Streams are reliable and
in order, stand still while nothing passes between two networks, and end when a process does.
A host behind NAT can dial out of its network and cannot be dialled from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from quicksilver.sim.events import EventQueue
from quicksilver.sim.model import LinkModel
from quicksilver.sim.network import VirtualNetwork
from quicksilver.sim.streams import Pipe
from quicksilver.sim.weather import Weather
from quicksilver.stdx.rand import Rng
from quicksilver.wire.ids import Address

DIAL_S = 1.0
"""How long a dial to a place that nothing reaches takes to fail."""


class Wish(Protocol):
    """A connection that a machine wants."""

    @property
    def address(self) -> str: ...


class Machine(Protocol):
    """What a host runs."""

    def handle_accepted(self, conn: int, now: float) -> None: ...
    def handle_dialled(self, dial: Any, conn: int | None, now: float) -> None: ...
    def handle_frame(self, conn: int, data: bytes, now: float) -> None: ...
    def handle_closed(self, conn: int, now: float) -> None: ...
    def handle_sent(self, conn: int, size: int, now: float) -> None: ...
    def handle_datagram(self, data: bytes, now: float) -> None: ...
    def handle_timeout(self, now: float) -> None: ...
    def next_timeout(self) -> float | None: ...
    def poll_transmit(self) -> tuple[int, bytes] | None: ...
    def poll_close(self) -> int | None: ...
    def poll_dial(self) -> Wish | str | None: ...
    def poll_datagram(self) -> tuple[Address, bytes] | None: ...
    def multicasts(self) -> frozenset[str]:
        """Return the addresses that it wants datagrams of."""


class Internet:
    """All hosts, by address."""

    def __init__(self, events: EventQueue, rng: Rng, *, near_s: float, far_s: float) -> None:
        self.events = events
        self.network = VirtualNetwork(events, rng.derive("datagrams"), LinkModel(latency_s=near_s))
        self.hosts: dict[str, Host] = {}
        """Who listens where."""
        self.frames = 0
        """Frames that were sent over streams."""
        self._rng = rng
        self._far_s = far_s
        self._near_s = near_s
        self._indexes = 0
        self._cut: set[str] = set()

    def add(
        self,
        network: str,
        address: str,
        make: Callable[[float], Machine],
        on_pumped: Callable[[], None],
        *,
        is_behind_nat: bool = False,
        index: int | None = None,
    ) -> Host:
        """Start a process that listens at an address; ``index``: what faults know its host by,
        the next one that is free if None."""
        if index is None:
            self._indexes += 1
            index = self._indexes
        host = Host(self, index, network, address, is_behind_nat, on_pumped)
        self.hosts[address] = host
        self.network.attach(host)
        host.start(make(self.events.now))
        return host

    def latency_s(self, one: Host, other: Host) -> float:
        return self._near_s if one.network == other.network else self._far_s

    def reaches(self, one: Host, other: Host) -> bool:
        """Whether anything passes between two hosts now."""
        ways = (one.index, other.index), (other.index, one.index)
        return all(self.network.passes(*way) for way in ways)

    def may_dial(self, one: Host, other: Host) -> bool:
        return one.network == other.network or not other.is_behind_nat

    def cut(self, network: str) -> None:
        """Nothing passes between a network and the others."""
        self._cut.add(network)
        self._apply()

    def mend(self, network: str) -> None:
        self._cut.discard(network)
        self._apply()

    def _apply(self) -> None:
        islands = {name: place for place, name in enumerate(sorted(self._cut), 1)}
        for host in self.hosts.values():
            self.network.set_island(host.index, islands.get(host.network, 0))

    def set_loss(self, network: str, rate: float) -> None:
        for host in self.hosts.values():
            if host.network == network:
                host.weather.drop_rate = rate


class Host:
    """A process: a machine, its streams, its datagrams and its alarm."""

    def __init__(
        self,
        internet: Internet,
        index: int,
        network: str,
        address: str,
        is_behind_nat: bool,
        on_pumped: Callable[[], None],
    ) -> None:
        self.internet = internet
        self.index = index
        self.network = network
        self.name = address
        self.address: Address = (address, 1)
        self.is_behind_nat = is_behind_nat
        self.weather = Weather(internet._rng.derive(f"weather {index}"))
        self.machine: Machine
        self.is_dead = False
        self._on_pumped = on_pumped
        self._streams: dict[int, Stream] = {}
        self._conns = 0
        self._listens: frozenset[str] = frozenset()
        self._alarm: float | None = None
        self._frozen_until = 0.0
        self._waiting: list[Callable[[], None]] | None = None
        """What happens to a process that is frozen, in order; None: it is not."""

    @property
    def now(self) -> float:
        return self.internet.events.now

    def start(self, machine: Machine) -> None:
        self.machine = machine
        self.pump()

    def kill(self) -> None:
        """End the process; its streams break."""
        self.is_dead = True
        self.internet.network.detach(self)
        if self.internet.hosts.get(self.name) is self:
            del self.internet.hosts[self.name]
        for stream in list(self._streams.values()):
            stream.end(self)

    @property
    def is_frozen(self) -> bool:
        return self._waiting is not None

    def freeze(self, seconds: float | None = None) -> None:
        """Let the process do nothing for a while; None: until it is thawed."""
        if self._waiting is None:
            self._waiting = []
        if seconds is not None:
            until = self._frozen_until = max(self._frozen_until, self.now + seconds)
            self.internet.events.at(until, lambda: self._thaw_at(until))

    def _thaw_at(self, until: float) -> None:
        if until == self._frozen_until and not self.is_dead:
            self.thaw()

    def thaw(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for work in waiting:
            self.do(work)
        self._wake()

    def do(self, work: Callable[[], None]) -> None:
        """Give the machine an input, or keep it while the process is frozen."""
        if self.is_dead:
            return
        if self._waiting is not None:
            self._waiting.append(work)
            return
        work()
        self.pump()

    def receive(self, packet: bytes, source: Address, *, is_multicast: bool) -> None:
        """A datagram has come."""
        if self._waiting is None:
            self.do(lambda: self.machine.handle_datagram(packet, self.now))

    # Outputs of the machine

    def pump(self) -> None:
        """Take what the machine has to say until there is nothing left."""
        machine = self.machine
        while (out := machine.poll_transmit()) is not None:
            stream = self._streams.get(out[0])
            if stream is not None:
                self.internet.frames += 1
                stream.send(self, out[1])
            machine.handle_sent(out[0], len(out[1]), self.now)
        while (closing := machine.poll_close()) is not None:
            stream = self._streams.get(closing)
            if stream is not None:
                stream.end(self)
        while (dial := machine.poll_dial()) is not None:
            self._dial(dial)
        wanted = machine.multicasts()
        if wanted != self._listens:
            self.internet.network.set_memberships(self, self._listens, wanted)
            self._listens = wanted
        while (datagram := machine.poll_datagram()) is not None:
            self.internet.network.transmit(self, *datagram, self.now)
        self._on_pumped()
        self._set_alarm()

    def _set_alarm(self) -> None:
        due = self.machine.next_timeout()
        if due is not None and (self._alarm is None or due < self._alarm):
            self._alarm = due
            self.internet.events.at(due, lambda: self._ring(due))

    def _ring(self, alarm: float) -> None:
        if alarm == self._alarm:
            self._alarm = None
            if not self.is_dead and self._waiting is None:
                self._wake()

    def _wake(self) -> None:
        due = self.machine.next_timeout()
        if due is not None and due <= self.now:
            self.machine.handle_timeout(self.now)
        self.pump()

    # Streams

    def _dial(self, dial: Wish | str) -> None:
        internet = self.internet
        address = dial if isinstance(dial, str) else dial.address
        target = internet.hosts.get(address)
        if target is None:
            internet.events.after(2 * internet.latency_s(self, self), lambda: self._fail(dial))
        elif not internet.reaches(self, target) or not internet.may_dial(self, target):
            internet.events.after(DIAL_S, lambda: self._fail(dial))
        else:
            wait_s = 2 * internet.latency_s(self, target)
            internet.events.after(wait_s, lambda: self._connect(dial, target))

    def _fail(self, dial: Wish | str) -> None:
        self.do(lambda: self.machine.handle_dialled(dial, None, self.now))

    def _connect(self, dial: Wish | str, target: Host) -> None:
        if self.is_dead:
            return
        if target.is_dead:
            self._fail(dial)
            return
        stream = Stream(self.internet, self, target)
        ours, theirs = self.attach(stream), target.attach(stream)
        stream.conns = {self: ours, target: theirs}
        target.do(lambda: target.machine.handle_accepted(theirs, target.now))
        self.do(lambda: self.machine.handle_dialled(dial, ours, self.now))

    def attach(self, stream: Stream) -> int:
        self._conns += 1
        self._streams[self._conns] = stream
        return self._conns

    def handle_frame(self, conn: int, data: bytes) -> None:
        if conn in self._streams:
            self.do(lambda: self.machine.handle_frame(conn, data, self.now))

    def handle_ended(self, conn: int) -> None:
        if self._streams.pop(conn, None) is not None:
            self.do(lambda: self.machine.handle_closed(conn, self.now))

    def forget(self, conn: int) -> None:
        """This side has ended a stream."""
        self._streams.pop(conn, None)


class Stream:
    """A connection between two hosts."""

    def __init__(self, internet: Internet, one: Host, other: Host) -> None:
        self._internet = internet
        self._ends = (one, other)
        self.conns: dict[Host, int] = {}
        self._pipes = {
            source: Pipe(
                internet.network,
                source.index,
                target.index,
                self._deliver_to(target),
                latency_s=internet.latency_s(one, other),
            )
            for source, target in ((one, other), (other, one))
        }

    def _deliver_to(self, target: Host) -> Callable[[bytes], None]:
        def deliver(frame: bytes) -> None:
            if frame == b"":
                target.handle_ended(self.conns[target])
            else:
                target.handle_frame(self.conns[target], frame)

        return deliver

    def send(self, source: Host, frame: bytes) -> None:
        assert frame
        self._pipes[source].send(frame)

    def end(self, source: Host) -> None:
        """One side ends the stream; the other one hears of it after what was sent before."""
        source.forget(self.conns[source])
        self._pipes[source].send(b"")
