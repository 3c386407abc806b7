"""Datagram sockets on loopback: bytes, memberships, buffers, faults."""

from __future__ import annotations

import errno
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from quicksilver.net import datagrams, sockopts
from quicksilver.net.batch_calls import Received, probe_abilities
from quicksilver.net.datagrams import DatagramSockets, MembershipError, PortError, multicast_works
from quicksilver.net.faults import FaultInjector, FaultPlan, split_segments
from quicksilver.net.interfaces import Interface, choose_interface

pytestmark = pytest.mark.integration

GROUP = "239.77.3.1"
OTHER_GROUP = "239.77.3.2"
LOOPBACK = choose_interface("127.0.0.1")
NARROW = Interface(LOOPBACK.name, LOOPBACK.address, 1500, False, True)
"""Loopback that pretends to be Ethernet, so that packets are cut and coalesced."""

Open = Callable[..., DatagramSockets]


@pytest.fixture
def port() -> int:
    """A UDP port that no other test uses at the same time."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def open_sockets(port: int) -> Iterator[Open]:
    """Opens datagram sockets and closes them after the test."""
    opened: list[DatagramSockets] = []

    def open_(interface: Interface = LOOPBACK, **options: object) -> DatagramSockets:
        made = DatagramSockets(interface=interface, multicast_port=port, **options)  # type: ignore[arg-type]
        opened.append(made)
        return made

    yield open_
    for some in opened:
        some.close()


def receive(
    read: Callable[[int], list[Received]], count: int, timeout_s: float = 5.0
) -> list[Received]:
    """Read until ``count`` datagrams (not buffers) are there."""
    deadline = time.monotonic() + timeout_s
    items: list[Received] = []
    while len(split_segments(items)) < count and time.monotonic() < deadline:
        items += read(64)
    return items


def payloads(items: list[Received]) -> list[bytes]:
    return [data for data, _, _ in split_segments(items)]


MIXED = [
    *(os.urandom(1472) for _ in range(150)),
    *(os.urandom(size) for size in (1000, 1, 1472, 1472, 7, 1473, 1472, 1400, 1400, 1400, 3)),
    *(os.urandom(200) for _ in range(70)),
]
LARGE = [os.urandom(60_000) for _ in range(20)]


@pytest.mark.parametrize("sender_plain", [False, True])
@pytest.mark.parametrize("receiver_plain", [False, True])
@pytest.mark.parametrize("is_contended", [False, True])
@pytest.mark.parametrize("interface", [LOOPBACK, NARROW], ids=["loopback", "narrow"])
@pytest.mark.parametrize("way", ["unicast", "multicast"])
def test_every_way_of_sending_and_receiving_carries_the_same_bytes(
    open_sockets: Open,
    port: int,
    sender_plain: bool,
    receiver_plain: bool,
    is_contended: bool,
    interface: Interface,
    way: str,
) -> None:
    """GSO, GRO and batches may change the cost, never a byte, a boundary or the order."""
    sender = open_sockets(interface, plain=sender_plain)
    receiver = open_sockets(interface, plain=receiver_plain)
    receiver.gives_lock = not is_contended
    receiver.set_memberships(frozenset({GROUP}))
    destination = receiver.address if way == "unicast" else (GROUP, port)
    read = receiver.receive_unicast if way == "unicast" else receiver.receive_multicast
    for packets in (MIXED, LARGE):
        assert sender.send(destination, packets) == len(packets)
        items = receive(read, len(packets))
        assert payloads(items) == packets
        assert {source for _, _, source in items} <= {sender.address}
        if way == "unicast":
            assert {source for _, _, source in items} == {sender.address}
        if interface is NARROW and packets is MIXED and not (sender_plain or receiver_plain):
            assert not probe_abilities().gro or len(items) < len(packets) / 3
    assert sender.counters.sent == len(MIXED) + len(LARGE)
    assert receiver.receive_drops() == 0


def test_reading_a_dry_socket_gives_nothing(open_sockets: Open) -> None:
    """The core asks without polling first; it must neither block nor raise."""
    for plain in (False, True):
        sockets = open_sockets(plain=plain)
        assert sockets.receive_unicast(10) == []
        assert sockets.receive_multicast(10) == []


def test_only_joined_groups_arrive(open_sockets: Open, port: int) -> None:
    """Another program's memberships on this machine must not reach us."""
    sender, one, other = open_sockets(), open_sockets(), open_sockets()
    one.set_memberships(frozenset({GROUP}))
    other.set_memberships(frozenset({OTHER_GROUP}))
    sender.send((OTHER_GROUP, port), [b"other"])
    sender.send((GROUP, port), [b"one"])
    assert payloads(receive(one.receive_multicast, 1)) == [b"one"]
    assert payloads(receive(other.receive_multicast, 1)) == [b"other"]
    assert one.receive_multicast(10) == other.receive_multicast(10) == []
    one.set_memberships(frozenset())
    sender.send((GROUP, port), [b"late"])
    assert one.receive_multicast(10) == []


@pytest.mark.skipif(not sockopts.IS_LINUX, reason="socket filters are Linux's")
def test_unicast_to_the_multicast_port_is_refused(open_sockets: Open, port: int) -> None:
    """Only what was sent to a group may arrive where data is expected."""
    sender, receiver = open_sockets(), open_sockets()
    receiver.set_memberships(frozenset({GROUP}))
    sender.send((LOOPBACK.address, port), [b"stray"])
    sender.send((GROUP, port), [b"proper"])
    assert payloads(receive(receiver.receive_multicast, 1)) == [b"proper"]


def test_more_groups_than_the_kernel_allows_a_socket(open_sockets: Open, port: int) -> None:
    """Past ``igmp_max_memberships`` another socket is opened, and closed again."""
    sender, receiver = open_sockets(), open_sockets()
    groups = [f"239.77.4.{i}" for i in range(101, 171)]
    assert len(receiver.filenos()[1]) == 1
    assert receiver.set_memberships(frozenset(groups))
    assert len(receiver.filenos()[1]) > 1
    for group in groups:
        sender.send((group, port), [group.encode()])
    items = receive(receiver.receive_multicast, len(groups))
    assert sorted(payloads(items)) == sorted(group.encode() for group in groups)
    assert not receiver.set_memberships(frozenset(groups))
    assert receiver.set_memberships(frozenset(groups[:5]))
    assert len(receiver.filenos()[1]) == 1
    for group in groups:
        sender.send((group, port), [group.encode()])
    items = receive(receiver.receive_multicast, 5)
    assert sorted(payloads(items)) == sorted(group.encode() for group in groups[:5])
    assert receiver.receive_multicast(10) == []


def test_freed_memberships_are_used_again(open_sockets: Open) -> None:
    """A node whose regions change all day must not open socket after socket."""
    receiver = open_sockets()
    receiver.set_memberships(frozenset(f"239.77.9.{i}" for i in range(1, 26)))
    descriptors = receiver.filenos()
    for turn in range(10, 20):
        groups = frozenset(f"239.77.{turn}.{i}" for i in range(1, 26))
        assert not receiver.set_memberships(groups)
        assert receiver.filenos() == descriptors


@pytest.mark.parametrize("address", ["10.0.0.1", "not an address", "::1", "239.1", "\0"])
def test_what_cannot_be_joined_is_named_and_the_rest_is_joined(
    open_sockets: Open, port: int, address: str
) -> None:
    """One bad address must not cost the others."""
    sender, receiver = open_sockets(), open_sockets()
    with pytest.raises(MembershipError, match="doctor"):
        receiver.set_memberships(frozenset({GROUP, address, "239.77.3.9"}))
    sender.send((GROUP, port), [b"x"])
    assert payloads(receive(receiver.receive_multicast, 1)) == [b"x"]


@pytest.mark.parametrize("plain", [False, True])
def test_packets_that_cannot_be_sent_are_counted_and_dropped(
    open_sockets: Open, plain: bool
) -> None:
    """Nothing that the network does may raise through the core."""
    sender, receiver = open_sockets(NARROW, plain=plain), open_sockets(plain=plain)
    packets = [b"first", bytes(65_508), *[b"equal"] * 3, b""]
    assert sender.send(receiver.address, packets) == len(packets)
    assert payloads(receive(receiver.receive_unicast, 5)) == [b"first", *[b"equal"] * 3, b""]
    assert sender.counters.send_too_long == 1
    assert sender.counters.last_error == errno.EMSGSIZE
    assert sender.counters.gso_refused == 0
    # A socket bound to loopback cannot reach beyond this machine.
    assert sender.send(("192.0.2.77", 9), [b"x"]) == 1
    assert sender.counters.send_errors == 1


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize(
    "destination", [("localhost", 9), ("127.1", 9), ("a\0b", 9), ("127.0.0.1", 0), ("::1", 9)]
)
def test_a_destination_that_is_none_is_counted(
    open_sockets: Open, plain: bool, destination: tuple[str, int]
) -> None:
    """Addresses come from peers; looking a name up would block the core."""
    sender = open_sockets(plain=plain)
    assert sender.send(destination, [b"x", b"y"]) == 2
    assert (sender.counters.send_errors, sender.counters.sent) == (2, 0)


def test_a_busy_kernel_leaves_packets_with_the_caller(
    open_sockets: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back-pressure, not loss: the number tells how many went."""
    sender, receiver = open_sockets(plain=True), open_sockets()
    results = iter([(2, errno.EAGAIN), (1, errno.ENOBUFS)])
    monkeypatch.setattr(datagrams, "send_plain", lambda *_: next(results))
    assert sender.send(receiver.address, [b"x"] * 5) == 2
    assert sender.send(receiver.address, [b"x"] * 5) == 1
    assert (sender.counters.send_busy, sender.counters.sent) == (2, 3)


@pytest.mark.parametrize("plain", [False, True])
def test_sending_to_a_closed_port_disturbs_nobody(open_sockets: Open, plain: bool) -> None:
    """A peer that died answers with ICMP errors; traffic with others goes on."""
    sender, receiver = open_sockets(plain=plain), open_sockets(plain=plain)
    gone = open_sockets(plain=plain)
    gone.close()
    for i in range(5):
        assert sender.send(gone.address, [b"anyone?"]) == 1
        assert sender.receive_unicast(10) == []
        assert sender.send(receiver.address, [bytes([i])]) == 1
    assert payloads(receive(receiver.receive_unicast, 5)) == [bytes([i]) for i in range(5)]


def test_buffers_that_the_system_limits_are_reported(
    open_sockets: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with the setting to change, and an honest size."""
    unprivileged = dict.fromkeys(sockopts._FORCED, 9999)
    monkeypatch.setattr(sockopts, "_FORCED", unprivileged)
    sockets = open_sockets(receive_buffer_bytes=1 << 30, send_buffer_bytes=1 << 30)
    assert len(sockets.warnings) == 2
    assert "sysctl -w net.core.rmem_max=" in sockets.warnings[0]
    assert "sysctl -w net.core.wmem_max=" in sockets.warnings[1]
    assert 0 < sockets.receive_buffer_bytes < 1 << 30
    modest = open_sockets(receive_buffer_bytes=64 << 10, send_buffer_bytes=64 << 10)
    assert modest.warnings == ()


@pytest.mark.parametrize("size", [1472, 60_000])
@pytest.mark.parametrize("interface", [LOOPBACK, NARROW], ids=["loopback", "narrow"])
def test_the_stated_buffer_holds_what_it_says(
    open_sockets: Open, port: int, interface: Interface, size: int
) -> None:
    """Flow control trusts ``receive_buffer_bytes``: that much must survive a pause."""
    sender = open_sockets(interface)
    receiver = open_sockets(interface, receive_buffer_bytes=2 << 20)
    receiver.set_memberships(frozenset({GROUP}))
    count = receiver.receive_buffer_bytes // size
    assert sender.send((GROUP, port), [bytes(size)] * count) == count
    assert receiver.receive_backlog_bytes() >= count * size
    assert receiver.receive_drops() == 0
    assert len(payloads(receive(receiver.receive_multicast, count))) == count
    assert receiver.receive_backlog_bytes() == 0


def test_drops_of_the_kernel_are_seen(open_sockets: Open, port: int) -> None:
    """A loss that the network is not guilty of must be told apart."""
    sender = open_sockets()
    receiver = open_sockets(receive_buffer_bytes=64 << 10)
    receiver.set_memberships(frozenset({GROUP}))
    sender.send((GROUP, port), [bytes(10_000)] * 100)
    received = len(receive(receiver.receive_multicast, 100, timeout_s=0.1))
    assert receiver.receive_drops() == 100 - received > 0


@pytest.mark.parametrize("plain", [False, True])
def test_faults_harm_single_datagrams_of_a_coalesced_buffer(
    open_sockets: Open, port: int, plain: bool
) -> None:
    """Losing 44 packets for one would be another network; the damage is the seed's."""
    plan = FaultPlan(drop_rate=0.1, seed=5)
    sender = open_sockets(NARROW, plain=plain)
    receiver = open_sockets(NARROW, plain=plain, faults=plan)
    receiver.set_memberships(frozenset({GROUP}))
    packets = [i.to_bytes(2, "big") * 500 for i in range(400)]
    sender.send((GROUP, port), packets)
    got = payloads(receive(receiver.receive_multicast, 400, timeout_s=0.1))
    lost = [i for i, packet in enumerate(packets) if packet not in set(got)]
    assert 15 < len(lost) < 80
    assert receiver.counters.injected_drops == len(lost)
    alone: FaultInjector[bytes] = FaultInjector(plan, "receive multicast")
    assert got == alone.filter(packets, 0.0)


def test_faults_for_data_alone_spare_unicast(open_sockets: Open, port: int) -> None:
    """Tokens and repairs arrive, data does not; both ways of telling them apart."""
    plan = FaultPlan(drop_rate=1.0, kinds="data", direction="both")
    for is_data in (None, lambda packet: packet.startswith(b"data")):
        node, peer = open_sockets(faults=plan, is_data=is_data), open_sockets()
        for some in (node, peer):
            some.set_memberships(frozenset({GROUP}))
        peer.send(node.address, [b"token"])
        peer.send((GROUP, port), [b"data"])
        assert payloads(receive(node.receive_unicast, 1)) == [b"token"]
        assert payloads(receive(peer.receive_multicast, 1)) == [b"data"]
        assert node.receive_multicast(10) == []
        assert node.send((GROUP, port), [b"data"]) == 1
        assert node.send(peer.address, [b"token"]) == 1
        assert payloads(receive(peer.receive_unicast, 1)) == [b"token"]
        assert peer.receive_multicast(10) == []
        peer.set_memberships(frozenset())


def test_faults_may_begin_and_end_while_the_sockets_are_open(open_sockets: Open) -> None:
    """A link is cut and mended under a node that runs."""
    node, peer = open_sockets(), open_sockets()
    node.set_faults(FaultPlan(drop_rate=1.0, direction="both"))
    peer.send(node.address, [b"in"])
    node.send(peer.address, [b"out"])
    assert receive(node.receive_unicast, 1, timeout_s=0.05) == []
    assert peer.receive_unicast(10) == []
    node.set_faults(None)
    peer.send(node.address, [b"in again"])
    node.send(peer.address, [b"out again"])
    assert payloads(receive(node.receive_unicast, 1)) == [b"in again"]
    assert payloads(receive(peer.receive_unicast, 1)) == [b"out again"]


def test_delayed_datagrams_leave_when_released(open_sockets: Open) -> None:
    """The host sleeps until ``next_release`` and then lets them go."""
    now = [10.0]
    plan = FaultPlan(delay_s=1.0, direction="both", freeze_s=1.0, freeze_period_s=100.0)
    node = open_sockets(faults=plan, clock=lambda: now[0])
    peer = open_sockets()
    assert node.next_release() is None
    node.send(peer.address, [b"a", b"b"])
    peer.send(node.address, [b"c"])
    assert node.receive_unicast(10) == []
    assert peer.receive_unicast(10) == []
    assert node.next_release() == 11.0
    now[0] = 11.5
    assert payloads(receive(node.receive_unicast, 1)) == [b"c"]
    assert payloads(receive(peer.receive_unicast, 2)) == [b"a", b"b"]
    assert node.next_release() is None
    assert node.freeze_until(11.5) is None
    assert node.freeze_until(110.25) == 111.0


def test_a_taken_port_leaves_no_socket_behind(open_sockets: Open) -> None:
    """The error is the caller's to explain; descriptors are ours to close."""
    taken = open_sockets()
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(PortError, match="choose another port"):
        open_sockets(port=taken.address[1])
    after = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    assert before == after


def test_multicast_works_on_loopback_and_not_where_there_is_no_address() -> None:
    """The answer decides between multicast and unicast fan-out."""
    assert multicast_works(LOOPBACK)
    assert not multicast_works(Interface("ghost", "192.0.2.99", 1500, False, True), 0.05)


@pytest.mark.slow
@pytest.mark.skipif(not probe_abilities().recvmmsg, reason="this system has no recvmmsg")
def test_a_busy_thread_does_not_starve_the_core(open_sockets: Open, port: int) -> None:
    """The first read that loses the interpreter lock is the last that gives it away."""
    sender, receiver = open_sockets(), open_sockets()
    receiver.set_memberships(frozenset({GROUP}))
    packets = [bytes(60_000)] * 100
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            sum(i * i for i in range(50))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        took = []
        for _ in range(3):
            sender.send((GROUP, port), packets)
            started = time.perf_counter()
            items = list(itertools.islice(iter(lambda: receiver.receive_multicast(64), []), 10))
            took.append(time.perf_counter() - started)
            assert sum(len(batch) for batch in items) == len(packets)
    finally:
        stop.set()
        thread.join()
    # 100 reads that wait for 5 ms each take half a second; ours about 4 ms.
    assert min(took) < 0.15
