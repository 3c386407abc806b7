"""Managers, nodes and agents together: what networks lose is repaired, whatever is mixed."""

from __future__ import annotations

from random import Random

import pytest

from quicksilver.scopes.dissemination.packets import Sender
from tests.scopes.network import Network

T = "X/T"
IN_P, IN_Q = "ABCD", "EFGH"
SENDERS = "AF"


def two_networks(
    policy: str, recovery: str, *, protocol: str = "tcp", is_q_hidden: bool = False
) -> Network:
    """Networks P and Q of campus X, four nodes each; A and F publish, all subscribe."""
    network = Network(copies_bytes_max=1 << 22)
    network.add("X", recovery=recovery)
    for scope, nodes, block in (("P", IN_P, 1), ("Q", IN_Q, 2)):
        addresses = f"239.1.{block}.0/24:7000"
        network.add(
            scope,
            "X",
            policy=policy,
            recovery=recovery,
            multicast=addresses,
            is_dialable=not (is_q_hidden and scope == "Q"),
        )
        for node in nodes:
            network.add(node, scope, is_node=True, protocol=protocol)
            network.want(node, T, "ps" if node in SENDERS else "s")
    network.run(3.0)
    return network


def lose(network: Network, part: float, seed: int) -> None:
    rng = Random(seed)
    network.is_lost = lambda name, data: rng.random() < part


def publish(network: Network, rounds: int, *, size: int = 100) -> dict[str, int]:
    """Let each sender send a few messages a round, as its window allows; return how many."""
    sent = dict.fromkeys(SENDERS, 0)
    for _ in range(rounds):
        for name in SENDERS:
            node = network.nodes[name]
            if node.may_publish(T):
                node.publish(T, [b"x" * size] * 3, None, network.now)
                sent[name] += 3
        network.run(0.01)
    return sent


def check_complete(network: Network, sent: dict[str, int]) -> None:
    """Everybody who is left has every message of both senders once, in order."""
    for name in network.nodes:
        for sender, count in sent.items():
            if name != sender:
                numbers = [number for who, number in network.got[name] if who == sender]
                assert numbers == list(range(count)), (name, sender)
        assert network.forwarders[name].counters["gaps"] == 0


@pytest.mark.parametrize("recovery", ["ring", "star", "tree:2", "gossip:2", "requests"])
@pytest.mark.parametrize(
    ("policy", "protocol"), [("multicast", "tcp"), ("star", "udp"), ("tree:2", "udp")]
)
def test_what_datagrams_lose_is_repaired(policy: str, protocol: str, recovery: str) -> None:
    """P(X) of dissertation 3.2.9, with a tenth of all datagrams lost."""
    network = two_networks(policy, recovery, protocol=protocol)
    lose(network, 0.1, seed=1)
    sent = publish(network, 60)
    network.run(10.0)
    check_complete(network, sent)
    repaired = sum(node.counters["repaired"] for node in network.forwarders.values())
    assert repaired > 0
    for name, count in sent.items():
        forwarder = network.forwarders[name]
        assert forwarder.is_stable(T, count), "and the sender knows"


@pytest.mark.parametrize("victim", ["B", "C", "D", "E", "P", "Q", "X"])
@pytest.mark.parametrize("policy", ["multicast", "star"])
def test_a_crash_meanwhile_costs_the_others_nothing(policy: str, victim: str) -> None:
    network = two_networks(policy, "ring")
    lose(network, 0.05, seed=2)
    sent = publish(network, 30)
    network.kill(victim)
    for name, count in publish(network, 30).items():
        sent[name] += count
    network.run(20.0)
    check_complete(network, sent)


@pytest.mark.parametrize("victim", ["E", "G"])
@pytest.mark.parametrize("recovery", ["ring", "requests"])
def test_a_crash_in_a_network_that_cannot_be_dialled_costs_the_others_nothing(
    recovery: str, victim: str
) -> None:
    """E hosts the agent of Q: whoever takes over makes links of its own."""
    network = two_networks("star", recovery, protocol="udp", is_q_hidden=True)
    lose(network, 0.1, seed=4)
    sent = publish(network, 30)
    network.kill(victim)
    for name, count in publish(network, 30).items():
        sent[name] += count
    network.run(20.0)
    check_complete(network, sent)


def test_publishers_wait_for_members_until_they_are_gone() -> None:
    """C hangs: nothing becomes stable, A and F stop after a window; without C they go on."""
    network = two_networks("multicast", "ring")
    for name in SENDERS:
        network.forwarders[name]._windows._bytes_max = 50_000
    network.hang("C")
    sent = publish(network, 50, size=1_000)
    sizes = {name: count * 1_000 for name, count in sent.items()}
    assert all(40_000 < size < 60_000 for size in sizes.values()), sizes
    network.run(10.0)
    more = publish(network, 150, size=1_000)
    assert all(count > 150 for count in more.values()), "several windows"
    network.run(10.0)
    del network.nodes["C"]
    check_complete(network, {name: sent[name] + more[name] for name in SENDERS})


@pytest.mark.slow
def test_who_comes_late_gets_what_is_sent_from_then_on() -> None:
    network = two_networks("multicast", "ring")
    publish(network, 20)
    network.run(5.0)
    network.add("Z", "Q", is_node=True)
    network.want("Z", T, "s")
    network.run(3.0)
    marks = {name: network.forwarders[name].flush_mark(T) for name in SENDERS}
    lose(network, 0.1, seed=3)
    sent = publish(network, 20)
    network.run(10.0)
    for name, mark in marks.items():
        numbers = [number for who, number in network.got["Z"] if who == name]
        assert numbers == list(range(numbers[0], mark + sent[name]))
        assert numbers[0] <= mark
    stream = network.forwarders["Z"].holdings.find(T, Sender("P", "A", 1))
    assert stream is not None
    assert stream.low == marks["A"] + sent["A"]


@pytest.mark.parametrize("recovery", ["ring", "star", "tree:2", "gossip:2", "requests"])
@pytest.mark.parametrize("hidden", ["PQ", "PR", "QR"])
def test_two_networks_behind_nat_are_recovered_through_a_third(recovery: str, hidden: str) -> None:
    """Of the two neither reaches the other: a ring cannot be closed, and a star stands in."""
    network = Network(copies_bytes_max=1 << 22)
    network.add("X", policy="star", recovery=recovery)
    for scope, nodes in (("P", "AB"), ("Q", "CD"), ("R", "EF")):
        network.add(scope, "X", recovery=recovery, is_dialable=scope not in hidden)
        for node in nodes:
            network.add(node, scope, is_node=True, protocol="udp")
            network.want(node, T, "ps")
    network.run(3.0)
    lose(network, 0.1, seed=1)
    for _ in range(20):
        for name in "ACE":
            network.nodes[name].publish(T, [b"x"], None, network.now)
        network.run(0.05)
    network.run(10.0)
    for name in network.nodes:
        for sender in "ACE":
            if name != sender:
                numbers = [number for who, number in network.got[name] if who == sender]
                assert numbers == list(range(20)), (name, sender)
    assert all(network.nodes[name].promised.is_stable(T, 20) for name in "ACE")
