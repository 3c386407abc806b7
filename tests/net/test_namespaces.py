"""Two machines on one network: multicast and unicast across a real link."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from quicksilver.net.batch_calls import probe_abilities
from tests.net.namespaces import Network, network, why_impossible

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_impossible()), reason=why_impossible() or "possible"),
]

RECEIVER = """
import sys, time, hashlib
from quicksilver.net.datagrams import DatagramSockets
from quicksilver.net.faults import split_segments
from quicksilver.net.interfaces import choose_interface
own, plain, expected = sys.argv[1], sys.argv[2] == "plain", int(sys.argv[3])
sockets = DatagramSockets(interface=choose_interface(own), multicast_port=7500, plain=plain)
sockets.set_memberships(frozenset({"239.77.0.1"}))
print(sockets.address[1], flush=True)
sums, counts, reads = [hashlib.sha256(), hashlib.sha256()], [0, 0], [0, 0]
deadline = time.monotonic() + 20
while counts != [expected, expected] and time.monotonic() < deadline:
    for i, read in enumerate((sockets.receive_unicast, sockets.receive_multicast)):
        items = read(64)
        reads[i] += len(items)
        for data, _, source in split_segments(items):
            sums[i].update(data)
            counts[i] += 1
    time.sleep(0.001)
print(counts, sums[0].hexdigest() == sums[1].hexdigest(), sums[0].hexdigest(), flush=True)
print(max(reads), sockets.receive_drops(), flush=True)
"""

SENDER = """
import sys, hashlib
from quicksilver.net.datagrams import DatagramSockets
from quicksilver.net.interfaces import choose_interface, datagram_bytes_max
towards, port, plain = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "plain"
count = int(sys.argv[4])
interface = choose_interface(None, towards)
sockets = DatagramSockets(interface=interface, multicast_port=7500, plain=plain)
size = datagram_bytes_max(interface)
packets = [i.to_bytes(4, "big") * (size // 4) for i in range(count)]
for destination in ((towards, port), ("239.77.0.1", 7500)):
    sent = 0
    while sent < len(packets):
        sent += sockets.send(destination, packets[sent:sent + 44])
assert sockets.counters.gso_refused == 0
print(size, hashlib.sha256(b"".join(packets)).hexdigest(), flush=True)
"""


@pytest.fixture(scope="module")
def machines() -> Iterator[Network]:
    with network(2, subnet=3) as made:
        yield made


def python(script: str, *args: str) -> list[str]:
    return [sys.executable, "-c", script, *args]


@pytest.mark.parametrize("sender", ["batched", "plain"])
@pytest.mark.parametrize("receiver", ["batched", "plain"])
def test_two_machines_exchange_every_byte(machines: Network, sender: str, receiver: str) -> None:
    """Whatever either side can do, the bytes, their order and boundaries are the same."""
    count = 880
    listening = machines.start(1, python(RECEIVER, machines.addresses[1], receiver, str(count)))
    assert listening.stdout is not None
    port = listening.stdout.readline().strip()
    assert port, listening.communicate()[1]
    done = machines.run(0, python(SENDER, machines.addresses[1], port, sender, str(count)))
    size, expected = done.stdout.split()
    out, err = listening.communicate(timeout=30)
    assert listening.returncode == 0, err
    assert size == "1472"
    first, second = out.splitlines()
    assert first == f"[{count}, {count}] True {expected}"
    reads, drops = map(int, second.split())
    assert drops == 0
    if sender == receiver == "batched" and probe_abilities().gro:
        assert reads < count / 10


def test_the_doctor_finds_a_fit_machine(machines: Network) -> None:
    """Routes, multicast and MTU of a namespace as of any host."""
    script = (
        "from quicksilver.net.diagnosis import diagnose;"
        "known = ('wall clock', 'batching');"
        "print([f for f in diagnose(spec='veth0') if not f.ok and f.check not in known])"
    )
    assert machines.run(0, python(script)).stdout.strip() == "[]"


def test_a_machine_without_a_network_is_told_so(machines: Network) -> None:
    """The typed error, from a real unreachable network."""
    script = (
        "from quicksilver.net.interfaces import *\n"
        "try: choose_interface(None, '203.0.113.1')\n"
        "except InterfaceError as error: print(error)\n"
    )
    assert "no route towards 203.0.113.1" in machines.run(0, python(script)).stdout


def test_members_hear_themselves_unless_told_not_to(machines: Network) -> None:
    """``multicast_loop`` decides for the sender's whole machine."""
    script = """
from quicksilver.net.datagrams import DatagramSockets
from quicksilver.net.interfaces import choose_interface
interface = choose_interface("veth0")
for loops in (True, False):
    sockets = DatagramSockets(interface=interface, multicast_port=7501, multicast_loop=loops)
    sockets.set_memberships(frozenset({"239.77.0.2"}))
    sockets.send(("239.77.0.2", 7501), [b"x"])
    print(len(sockets.receive_multicast(10)))
    sockets.close()
"""
    assert machines.run(0, python(script)).stdout.split() == ["1", "0"]


def test_groups_joined_on_another_interface_do_not_arrive(machines: Network) -> None:
    """A node on loopback must not hear the same group of the network."""
    script = """
from quicksilver.net.datagrams import DatagramSockets
from quicksilver.net.interfaces import choose_interface
here, there = (
    DatagramSockets(interface=choose_interface(name), multicast_port=7502)
    for name in ("lo", "veth0")
)
for sockets in (here, there):
    sockets.set_memberships(frozenset({"239.77.0.3"}))
here.send(("239.77.0.3", 7502), [b"lo"])
there.send(("239.77.0.3", 7502), [b"veth0"])
print([data for data, _, _ in here.receive_multicast(10) + there.receive_multicast(10)])
"""
    assert machines.run(0, python(script)).stdout.strip() == "[b'lo', b'veth0']"


@pytest.mark.skipif(not probe_abilities().gso, reason="this system has no GSO")
def test_a_route_that_refuses_segmentation_gets_plain_sends() -> None:
    """A smaller MTU than we were told: the kernel refuses the run, the packets still go."""
    script = """
from dataclasses import replace
from quicksilver.net.datagrams import DatagramSockets
from quicksilver.net.interfaces import choose_interface
interface = replace(choose_interface("veth0"), mtu=1500)
sockets = DatagramSockets(interface=interface, multicast_port=7503)
sockets.set_memberships(frozenset({"239.77.0.4"}))
packets = [i.to_bytes(4, "big") * 368 for i in range(44)]
for _ in range(2):
    assert sockets.send(("239.77.0.4", 7503), packets) == 44
got = [data for data, _, _ in sockets.receive_multicast(1000)]
assert got == packets * 2
print(sockets.counters.gso_refused, sockets.counters.sent, sockets.counters.last_error)
"""
    with network(1, subnet=4, mtu=1000) as machines:
        assert machines.run(0, python(script)).stdout.split() == ["1", "88", "0"]
