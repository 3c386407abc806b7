"""Small worlds for tests of the simulator: sessions that do nothing but count."""

from __future__ import annotations

from collections.abc import Callable

from quicksilver.core.ports import Transmit
from quicksilver.sim.events import EventQueue
from quicksilver.sim.host import SimHost
from quicksilver.sim.machine import SharedCpu
from quicksilver.sim.model import HostModel, LinkModel
from quicksilver.sim.network import VirtualNetwork
from quicksilver.stdx.rand import Rng
from quicksilver.wire.ids import Address

DATA = b"\x51\x04"
TOKEN = b"\x51\x01"


def packet(number: int, size: int = 100, kind: bytes = DATA) -> bytes:
    """Return a datagram that carries its number."""
    return kind + number.to_bytes(8, "little") + bytes(max(0, size - 10))


def number_of(data: bytes) -> int:
    return int.from_bytes(data[2:10], "little")


class CountingSession:
    """Sends what it is told to, and notes what it is given and when."""

    def __init__(self) -> None:
        self.to_send: list[tuple[Address, bytes]] = []
        self.received: list[tuple[float, int]] = []
        self.clocks: list[float] = []
        self.drained: list[float] = []
        """Up to when it was told to have all that arrived."""
        self.timeouts: list[float] = []
        self.addresses: frozenset[str] = frozenset()
        self.is_paused = False

    def classify(self, data: bytes) -> int:
        return 0 if data[1] == TOKEN[1] else 2

    def handle_datagram(self, data: bytes, source: Address, now: float) -> None:
        self.clocks.append(now)
        self.received.append((now, number_of(data)))

    def handle_segments(self, data: bytes, segment: int, source: Address, now: float) -> None:
        raise AssertionError("the simulator does not coalesce")

    def handle_drained(self, now: float) -> None:
        self.drained.append(now)

    def handle_drops(self, drops: int) -> None:
        pass

    def handle_timeout(self, now: float) -> None:
        self.clocks.append(now)
        self.timeouts = [when for when in self.timeouts if when > now]

    def next_timeout(self) -> float | None:
        return min(self.timeouts, default=None)

    def handle_turn(self) -> None:
        pass

    def has_outgoing(self) -> bool:
        return False

    def has_transmits(self) -> bool:
        return bool(self.to_send)

    def poll_transmit(self, now: float) -> Transmit | None:
        self.clocks.append(now)
        if not self.to_send:
            return None
        destination, data = self.to_send.pop(0)
        return Transmit(destination, [data])

    def handle_control_opened(self, now: float) -> None:
        pass

    def handle_control_frame(self, frame: bytes, now: float) -> None:
        pass

    def handle_control_closed(self, reason: str, now: float) -> None:
        pass

    def has_control(self) -> bool:
        return False

    def poll_control_close(self) -> str | None:
        return None

    def handle_address(self, address: Address, now: float) -> None:
        raise AssertionError("nobody moves here")

    def poll_control(self, now: float) -> bytes | None:
        return None

    def has_events(self) -> bool:
        return False

    def multicast_addresses(self) -> frozenset[str]:
        return self.addresses

    def is_receiving_paused(self) -> bool:
        return self.is_paused


class NoControl:
    """A stream to the GMS that never comes up."""

    def is_control_open(self) -> bool:
        return False

    def send_control(self, frame: bytes) -> None:
        raise AssertionError("nothing is said while there is no stream")

    def close_control(self, reason: str, now: float) -> None:
        raise AssertionError("there is no stream to be closed")

    def poll_control_event(self, now: float) -> None:
        return None


GROUP: Address = ("239.0.0.1", 7400)


class World:
    """Hosts on one network, all of them in one multicast group."""

    def __init__(
        self, hosts: int, model: HostModel, link: LinkModel | None = None, *, cores: int = 0
    ) -> None:
        self.events = EventQueue()
        self.network = VirtualNetwork(self.events, Rng(1), link)
        self.departures: list[tuple[float, Address, bytes]] = []
        self.network.taps.append(
            lambda at, source, destination, data: self.departures.append((at, source, data))
        )
        self.cpu = SharedCpu(self.events, cores) if cores else None
        self.sessions = [CountingSession() for _ in range(hosts)]
        self.hosts = [
            SimHost(
                self.events,
                self.network,
                session,
                index=index,
                address=(f"10.0.0.{index + 1}", 7000),
                model=model,
                rng=Rng(index),
                control=NoControl(),
                on_events=lambda: None,
                memory=lambda: 0,
                shared_cpu=self.cpu,
            )
            for index, session in enumerate(self.sessions)
        ]
        for session, host in zip(self.sessions, self.hosts, strict=True):
            session.addresses = frozenset({GROUP[0]})
            host.submit(lambda: None)
        self.events.run(0.001)

    def send(self, index: int, packets: list[bytes], to: Address = GROUP) -> None:
        """Have a host send from its next turn on."""

        def put() -> None:
            self.sessions[index].to_send += [(to, data) for data in packets]

        self.hosts[index].submit(put)

    def at(self, when: float, work: Callable[[], None]) -> None:
        self.events.at(when, work)
