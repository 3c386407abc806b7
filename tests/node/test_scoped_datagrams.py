"""Datagrams of nodes of a scope, on a real link of 1,500 bytes."""

from __future__ import annotations

import sys

import pytest

from tests.net.namespaces import Network, network, why_impossible

pytestmark = [
    pytest.mark.namespaces,
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_impossible()), reason=why_impossible() or "possible"),
]

COUNT = 200

RECEIVER = """
import sys
from quicksilver import sync
from quicksilver.net.faults import parse_faults
faults = parse_faults("loss=" + sys.argv[3]) if sys.argv[3] else None
with sync.connect(sys.argv[1], name="receiver", connect_timeout_s=30, faults=faults) as node:
    group = node.join("lan/t")
    print("joined", flush=True)
    for number in range(int(sys.argv[2])):
        message = group.receive(timeout=30)
        assert message.sequence == number, message.sequence
        assert message.payload == number.to_bytes(4, "big") * (number * 50), number
    print(node.stats().datagrams.get("incomplete_datagrams", 0), flush=True)
"""

SENDER = """
import sys
from quicksilver import sync
with sync.connect(sys.argv[1], name="sender", connect_timeout_s=30) as node:
    group = node.open("lan/t")
    for number in range(int(sys.argv[2])):
        group.send(number.to_bytes(4, "big") * (number * 50))
    node.flush(timeout=30)
    print(node.stats().datagrams["sent"], node.stats().counters["datagrams_sent"], flush=True)
"""

CUT_BY_IP, JOINED_BY_IP = "FragCreates", "ReasmReqds"


def ip_counters(machines: Network, index: int) -> dict[str, int]:
    """Return what the kernel of one machine has counted of IP packets."""
    text = machines.run(index, ["cat", "/proc/net/snmp"]).stdout
    names, values = (line.split()[1:] for line in text.splitlines() if line.startswith("Ip:"))
    return {name: int(value) for name, value in zip(names, values, strict=True)}


@pytest.mark.parametrize("loss", ["", "5%"])
def test_no_datagram_is_longer_than_the_link_carries(loss: str) -> None:
    """IP never has to cut one: some networks drop what it cuts, and bridges copy it slowly.

    Where pieces are lost everything arrives all the same, each message as it was sent.
    """
    with network(3, subnet=9) as machines:
        manager = f"{machines.addresses[0]}:7501"
        settings = ("--policy", "multicast", "--multicast", "239.192.9.0/24:7400")
        machines.start(
            0,
            [
                *(sys.executable, "-m", "quicksilver.cli.main", "scope", "run", "--name", "lan"),
                *("--listen", manager, *settings, "--recovery", "requests", "--json"),
            ],
        )
        receiving = machines.start(1, [sys.executable, "-c", RECEIVER, manager, str(COUNT), loss])
        assert receiving.stdout is not None
        assert receiving.stdout.readline() == "joined\n", receiving.communicate()[1]
        done = machines.run(2, [sys.executable, "-c", SENDER, manager, str(COUNT)], 60.0)
        pieces, datagrams = map(int, done.stdout.split())
        assert pieces > 5 * datagrams > 0, "it went by multicast, and most of it in pieces"
        received, problem = receiving.communicate(timeout=60)
        assert receiving.returncode == 0, problem
        assert bool(int(received)) == bool(loss), "datagrams lacked pieces"
        for index in (1, 2):
            counted = ip_counters(machines, index)
            assert (counted[CUT_BY_IP], counted[JOINED_BY_IP]) == (0, 0)
