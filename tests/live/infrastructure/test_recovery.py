"""Loss recovery, tunnels and datagrams: in bad weather, and on real sockets."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from quicksilver.live.components.library import equip
from quicksilver.live.references.builder import composite, given, primitive
from quicksilver.live.references.model import Reference
from quicksilver.live.runtime.executors import ThreadExecutor
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.services.datagrams import Datagrams, SocketDatagrams
from quicksilver.sim.events import EventQueue
from quicksilver.stdx.rand import Rng
from tests.live.media import DatagramMedium, MediumDatagrams

ADDRESS = "239.1.2.3:5000"


def udp(address: str = ADDRESS, **options: Any) -> Reference:
    return primitive("quicksilver.udp-channel", address=address, **options)


def reliable(below: Reference, **options: Any) -> Reference:
    """Return the channel of Code 2.2: dissemination below, recovery above."""
    return (
        composite()
        .component("DisseminationObject", below)
        .component("ReliabilityObject", given(primitive("quicksilver.loss-recovery"), options))
        .connect("DisseminationObject.UnreliableChannel", "ReliabilityObject.UnreliableChannel")
        .export("ReliabilityObject.ReliableChannel")
        .build()
    )


class EventExecutor:
    """Steps in virtual time, without a host."""

    def __init__(self, events: EventQueue) -> None:
        self._events = events

    def now(self) -> float:
        return self._events.now

    @property
    def is_here(self) -> bool:
        return True

    def post(self, step: Callable[[], None]) -> None:
        self._events.after(0.0, step)

    def call_later(self, delay_s: float, step: Callable[[], None]) -> Any:
        timer = _Timer(step)
        self._events.after(delay_s, timer.run)
        return timer

    def close(self) -> None: ...


class _Timer:
    def __init__(self, step: Callable[[], None]) -> None:
        self.step: Callable[[], None] | None = step

    def run(self) -> None:
        if self.step is not None:
            self.step()

    def cancel(self) -> None:
        self.step = None


class Air:
    """Runtimes that talk over one medium."""

    def __init__(self, seed: int = 1, **weather: float) -> None:
        self.events = EventQueue()
        self.medium = DatagramMedium(Rng(seed), self.events.after, **weather)
        self.runtimes: list[Runtime] = []
        self.kept: list[Any] = []

    def open(self, reference: Reference, endpoint: str) -> tuple[Any, list[bytes]]:
        """Open a channel on a node of its own; return its port and what it receives."""
        executor = EventExecutor(self.events)
        runtime = Runtime(executor, seed=len(self.runtimes) + 1)
        equip(runtime)
        runtime.provide(Datagrams, MediumDatagrams(self.medium, executor))
        self.runtimes.append(runtime)
        opened: list[Any] = []
        runtime.open(reference, f"n{len(self.runtimes)}").when_done(
            lambda done: opened.append(done.result())
        )
        self.events.run(0.0)
        got: list[bytes] = []
        self.kept += opened
        attached = runtime.attach(opened[0].endpoint(endpoint), {"receive": got.append})
        return attached.port, got

    def failures(self) -> list[str]:
        return [str(one) for runtime in self.runtimes for one in runtime.failures]


def test_it_settles_when_those_who_listen_have_all() -> None:
    air = Air()
    port, _ = air.open(reliable(udp()), "ReliableChannel")
    _, got = air.open(reliable(udp()), "ReliableChannel")
    port.send(b"hello")
    air.events.run(2.0)  # they have heard of each other
    air.medium.loss = 1.0
    port.send(b"last")
    late: list[list[str]] = []
    sender = air.runtimes[0]
    sender.settle(3.0).when_done(lambda done: late.append(done.result()))
    air.events.run(4.0)
    assert got == [b"hello"]
    assert late == [["n1.ReliabilityObject"]]
    air.medium.loss = 0.0
    sender.settle(3.0).when_done(lambda done: late.append(done.result()))
    air.events.run(4.0)
    assert late[1:] == [[]]
    assert got == [b"hello", b"last"]


@pytest.mark.parametrize("seed", range(1, 6))
def test_everything_arrives_once_and_in_order_in_bad_weather(seed: int) -> None:
    """A fifth lost, a tenth doubled, all shuffled: nobody misses anything; then all is quiet."""
    air = Air(seed, loss=0.2, duplicates=0.1, jitter_s=0.02)
    ends = [air.open(reliable(udp()), "ReliableChannel") for _ in range(4)]
    # All hear of all before it counts: who comes later begins where it comes.
    air.medium.loss = 0.0
    for port, _ in ends:
        port.send(b"hello")
    air.events.run(2.0)
    for _, got in ends:
        assert got.count(b"hello") == 4
        got.clear()
    air.medium.loss = 0.2
    for i in range(150):
        for number, (port, _) in enumerate(ends):
            port.send(b"%d/%d" % (number, i))
        air.events.run(0.01)
    assert air.events.run(60, lambda: all(len(got) >= 600 for _, got in ends))
    air.events.run(5)
    for _, got in ends:
        assert len(got) == 600
        for number in range(4):
            mine = [one for one in got if one.startswith(b"%d/" % number)]
            assert mine == [b"%d/%d" % (number, i) for i in range(150)]
    air.medium.loss = 0.0
    air.events.run(20)
    before = air.medium.carried
    air.events.run(20)
    assert air.medium.carried == before, "they go on talking although all have everything"
    assert not air.failures()


def test_who_falls_too_far_behind_is_told() -> None:
    """Better an end with a reason than a hole."""
    air = Air(3)
    sender, _ = air.open(reliable(udp(), buffer_bytes=1000), "ReliableChannel")
    _, got = air.open(reliable(udp(), buffer_bytes=1000), "ReliableChannel")
    sender.send(b"hello")
    air.events.run(1)
    assert got == [b"hello"]
    air.medium.loss = 1.0
    for _ in range(20):
        sender.send(b"x" * 100)
        air.events.run(0.05)
    air.medium.loss = 0.0
    air.events.run(5)
    assert got == [b"hello"]
    assert "messages were lost for good" in air.failures()[0]


def test_noise_does_no_harm() -> None:
    """What no recovery object sent is passed over."""
    air = Air(4)
    port, got = air.open(reliable(udp()), "ReliableChannel")
    noise, _ = air.open(udp(), "UnreliableChannel")
    for data in (b"", b"\x00", b"\x94\x01\x02", b"\xff" * 100, b"\x94\x01\x05\x00\xc4\x01x"):
        noise.send(data)
    port.send(b"fine")
    air.events.run(1)
    assert got == [b"fine"]
    assert not air.failures()


def gateway(*sides: str, **options: Any) -> Reference:
    """Return what a machine between two networks runs (Figure 2.4)."""
    return (
        composite()
        .component("t", given(primitive("quicksilver.tunnel"), options))
        .component("x", udp(sides[0]))
        .component("y", udp(sides[1]))
        .connect("t.Left", "x.UnreliableChannel")
        .connect("t.Right", "y.UnreliableChannel")
        .export("t.UnreliableChannel")
        .build()
    )


LANS = ("239.0.0.1:5000", "239.0.0.2:5000", "239.0.0.3:5000")


def test_a_tunnel_joins_two_channels_without_a_loop() -> None:
    """Each message arrives once on each side, equal ones as often as they were sent."""
    air = Air(5)
    x, on_x = air.open(udp(LANS[0]), "UnreliableChannel")
    y, on_y = air.open(udp(LANS[1]), "UnreliableChannel")
    between, on_between = air.open(gateway(*LANS[:2]), "UnreliableChannel")
    x.send(b"same")
    air.events.run(1)
    x.send(b"same")
    y.send(b"from y")
    between.send(b"from the middle")
    air.events.run(20)
    expected = sorted([b"same", b"same", b"from y", b"from the middle"])
    assert sorted(on_x) == sorted(on_y) == sorted(on_between) == expected


def test_tunnels_in_a_ring_make_no_loop_within_their_window() -> None:
    """Three networks, three tunnels: what goes round stops where it has been."""
    air = Air(6)
    ports = [air.open(udp(lan), "UnreliableChannel") for lan in LANS]
    for one, other in ((0, 1), (1, 2), (2, 0)):
        air.open(gateway(LANS[one], LANS[other], window_s=5.0), "UnreliableChannel")
    ports[0][0].send(b"round")
    air.events.run(60)
    assert all(1 <= got.count(b"round") <= 2 for _, got in ports)  # from either direction
    before = air.medium.carried
    air.events.run(60)
    assert air.medium.carried == before


def test_a_message_larger_than_a_datagram_is_refused() -> None:
    air = Air(7)
    port, got = air.open(udp(datagram_bytes=10), "UnreliableChannel")
    port.send(b"0123456789")
    air.events.run(1)
    port.send(b"0123456789!")
    assert got == [b"0123456789"]
    assert "at most 10 bytes, not 11" in air.failures()[0]


@pytest.mark.integration
@pytest.mark.parametrize("way", ["multicast", "peers"])
def test_real_sockets(way: str) -> None:
    """Two runtimes on threads, a reliable channel over UDP on loopback."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other,
    ):
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        numbers = [one.getsockname()[1], other.getsockname()[1]]
    if way == "multicast":
        references = [udp(f"239.77.1.1:{numbers[0]}")] * 2
    else:
        here = [f"127.0.0.1:{number}" for number in numbers]
        references = [udp(here[0], peers=[here[1]]), udp(here[1], peers=[here[0]])]
    executors = [ThreadExecutor() for _ in references]
    services = [SocketDatagrams(executor) for executor in executors]
    ends: list[tuple[ThreadExecutor, Any, list[bytes]]] = []
    kept = []
    for executor, service, reference in zip(executors, services, references, strict=True):
        runtime = Runtime(executor)
        equip(runtime)
        runtime.provide(Datagrams, service)
        proxy = executor.call(lambda r=runtime, ref=reference: r.open(reliable(ref), "n"))  # type: ignore[misc]
        got: list[bytes] = []
        attached = executor.call(
            lambda r=runtime, p=proxy, g=got: r.attach(  # type: ignore[misc]
                p.endpoint("ReliableChannel"), {"receive": g.append}
            )
        )
        ends.append((executor, attached.port, got))
        kept.append((runtime, proxy))
    for i in range(200):
        for executor, port, _ in ends:
            executor.call(lambda p=port, i=i: p.send(b"%d" % i))  # type: ignore[misc]
    deadline = time.monotonic() + 20
    while any(len(got) < 400 for _, _, got in ends):
        assert time.monotonic() < deadline, [len(got) for _, _, got in ends]
        time.sleep(0.01)
    for executor, (runtime, proxy) in zip(executors, kept, strict=True):
        executor.call(proxy.close)
        executor.call(runtime.close)
    for executor in executors:
        executor.close()
