"""What a join promises: from then on messages come, and go to everybody who has joined before."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.scopes.network import Network

T = "X/T"


def campus(policy: str, recovery: str, *, protocol: str = "tcp") -> Network:
    """Networks P and Q of campus X with four nodes each, none of which wants anything yet."""
    network = Network(copies_bytes_max=1 << 22)
    network.add("X", policy=policy if policy != "multicast" else "star", recovery=recovery)
    for scope, nodes, block in (("P", "ABCD", 1), ("Q", "EFGH", 2)):
        addresses = f"239.1.{block}.0/24:7000"
        network.add(scope, "X", policy=policy, recovery=recovery, multicast=addresses)
        for node in nodes:
            network.add(node, scope, is_node=True, protocol=protocol)
    return network


def connect(network: Network, name: str, what: str) -> None:
    """Let a node want something, and wait until it has it."""
    network.want(name, T, what)
    for _ in range(1000):
        if network.nodes[name].promised.is_connected(T):
            return
        network.run(0.005)
    raise AssertionError(f"{name} is never connected")


def join_one_by_one(network: Network, patience_s: float) -> None:
    """Whoever has joined sends, and hears from everybody else who has."""
    publishers: list[str] = []
    subscribers: list[str] = []
    for name in "ABEGCFHD":
        what = {"A": "ps", "E": "p", "G": "ps"}.get(name, "s")
        connect(network, name, what)
        publishers += name if "p" in what else ""
        subscribers += name if "s" in what else ""
        for publisher in publishers:
            number = network.forwarders[publisher].publish(T, [b"x"], None, network.now)
            network.run(patience_s)
            got = Counter(
                n for n, all_ in network.got.items() for m in all_ if m == (publisher, number)
            )
            assert got == Counter(s for s in subscribers if s != publisher), (name, publisher)


@pytest.mark.parametrize("recovery", ["none", "ring", "gossip:2"])
@pytest.mark.parametrize("policy", ["star", "tree:2", "chain", "mesh:2"])
def test_what_is_sent_from_then_on_comes(policy: str, recovery: str) -> None:
    """No time passes between a join and what others send, nor between that and its arrival."""
    join_one_by_one(campus(policy, recovery), 0.0)


@pytest.mark.parametrize("recovery", ["ring", "star", "tree:2", "gossip:2", "requests"])
@pytest.mark.parametrize(("policy", "protocol"), [("multicast", "tcp"), ("star", "udp")])
def test_where_nothing_is_opened_recovery_brings_it(
    policy: str, protocol: str, recovery: str
) -> None:
    """Nobody asks whether a datagram has somewhere to go: the first ones may be repaired."""
    join_one_by_one(campus(policy, recovery, protocol=protocol), 3.0)


def test_who_wants_more_waits_until_all_owners_know() -> None:
    """A publisher that subscribes is told what it was told before, if nothing else changes."""
    network = campus("star", "none")
    connect(network, "A", "p")
    network.want("A", T, "ps")
    assert not network.nodes["A"].promised.is_connected(T), "nobody knows yet that it subscribes"
    connect(network, "A", "ps")
    connect(network, "E", "p")
    assert network.publish("E", T) == Counter("A")


def test_who_does_not_answer_keeps_others_unconnected() -> None:
    """Its channel is not open; how long to wait for that is the host's to say."""
    network = campus("star", "none")
    connect(network, "A", "p")
    network.hang("A")
    network.want("B", T, "s")
    network.run(0.5)
    assert network.nodes["B"].promised.is_rooted(T)
    assert not network.nodes["B"].promised.is_connected(T)
