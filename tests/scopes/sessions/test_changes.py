"""Sessions change what a running topic promises, and no message is lost or repeated."""

from __future__ import annotations

from random import Random

import pytest

from quicksilver.scopes.management.events import SessionRetired
from quicksilver.scopes.management.messages import Flavour, Session
from tests.scopes.network import Network
from tests.scopes.test_whole import SENDERS, T, check_complete, lose, publish, two_networks

FIFO = Flavour()
TOTAL = Flavour(ordering="total")
NONE = Flavour(reliability="none")


def sessions_of(network: Network) -> tuple[Session, ...]:
    (topic,) = network.managers["X"].topics()
    return topic.sessions.sessions


def change(network: Network, flavour: Flavour) -> None:
    assert network.managers["X"].change_session(T, flavour, network.now) is None


def load(network: Network, sent: dict[str, int], rounds: int) -> None:
    """Let those who are left send for a while."""
    for _ in range(rounds):
        for name in sent:
            network.nodes[name].publish(T, [b"x"] * 3, None, network.now)
            sent[name] += 3
        network.run(0.02)


def check_all_here(network: Network, sent: dict[str, int]) -> None:
    """Everybody has all messages of senders that are left; of others some may be lost."""
    for name in network.nodes:
        for sender, count in sent.items():
            if name != sender:
                numbers = [number for who, number in network.got[name] if who == sender]
                assert numbers == list(range(count)), (name, sender)


def check_one_order(network: Network) -> None:
    """What two nodes have both got they have got in the same order, also if they crashed."""
    everybody = sorted(network.got)
    for one in everybody:
        for other in everybody:
            theirs = set(network.got[other])
            mine = [each for each in network.got[one] if each in theirs]
            both = set(mine)
            assert mine == [each for each in network.got[other] if each in both], (one, other)


def publish_more(network: Network, sent: dict[str, int], rounds: int) -> None:
    for name, count in publish(network, rounds).items():
        sent[name] += count


@pytest.mark.parametrize("recovery", ["ring", "star", "gossip:2"])
@pytest.mark.parametrize(("policy", "protocol"), [("multicast", "tcp"), ("star", "udp")])
def test_sessions_come_and_go_under_load_and_loss(
    policy: str, protocol: str, recovery: str
) -> None:
    network = two_networks(policy, recovery, protocol=protocol)
    lose(network, 0.1, seed=5)
    sent = dict.fromkeys(SENDERS, 0)
    first = sessions_of(network)[0].number
    for flavour in (TOTAL, FIFO, TOTAL):
        publish_more(network, sent, 20)
        change(network, flavour)
        publish_more(network, sent, 40)
        network.run(15.0)
        (session,) = sessions_of(network)
        assert session.flavour == flavour
        assert session.number > first
    network.run(10.0)
    check_complete(network, sent)
    for name in network.nodes:
        retired = [e for e in network.events[name] if isinstance(e, SessionRetired)]
        assert len(retired) == 3


def test_a_total_order_is_one_order() -> None:
    """And without it there would be several: the messages of A and F cross."""
    network = two_networks("multicast", "ring")
    lose(network, 0.1, seed=6)
    change(network, TOTAL)
    network.run(10.0)
    sent = publish(network, 60)
    network.run(15.0)
    check_complete(network, sent)
    check_one_order(network)


def test_without_a_total_order_there_are_several() -> None:
    """The check above can fail."""
    network = two_networks("multicast", "ring")
    lose(network, 0.3, seed=6)
    publish(network, 60)
    network.run(15.0)
    with pytest.raises(AssertionError):
        check_one_order(network)


def sequencer_of(network: Network) -> str:
    """Return the node that says the order, once one is chosen."""
    for _ in range(100):
        chosen = sessions_of(network)[-1].sequencer
        if chosen is not None:
            return chosen.node
        network.run(0.2)
    raise AssertionError("nobody was chosen")


@pytest.mark.parametrize("seed", range(8))
def test_an_order_outlives_those_who_say_it(seed: int) -> None:
    """Three sequencers in a row crash in the middle of the load; the order goes on, with nothing
    in two places and nothing left out, and those who crashed had followed the same one."""
    rng = Random(seed)
    network = two_networks("multicast", "ring", protocol="udp" if seed % 2 else "tcp")
    lose(network, 0.1, seed=seed)
    change(network, TOTAL)
    network.run(10.0)
    sent = dict.fromkeys(SENDERS, 0)
    for _ in range(3):
        load(network, sent, 10 + rng.randrange(60))
        victim = sequencer_of(network)
        if victim not in network.nodes:  # Nobody has noticed yet.
            victim = rng.choice(sorted(network.nodes))
        network.kill(victim)
        sent.pop(victim, None)
        load(network, sent, 40)
        network.run(rng.choice([0.0, 10 * rng.random(), 30.0]))
    network.run(60.0)
    check_all_here(network, sent)
    check_one_order(network)
    change(network, FIFO)
    network.run(20.0)
    (session,) = sessions_of(network)
    assert session.flavour == FIFO


@pytest.mark.parametrize("victim", ["P", "Q", "X", "B", "E"])
def test_a_crash_during_a_change_holds_it_up_and_no_longer(victim: str) -> None:
    network = two_networks("multicast", "ring")
    lose(network, 0.1, seed=7)
    sent = publish(network, 20)
    change(network, TOTAL)
    publish_more(network, sent, 5)
    network.kill(victim)
    publish_more(network, sent, 20)
    if victim in "PQX":
        network.run(5.0)
        owners = () if victim == "X" else ("X",)
        block = {"P": 1, "Q": 2, "X": 3}[victim]
        policy = "star" if victim == "X" else "multicast"
        addresses = "" if victim == "X" else f"239.1.{block}.0/24:7000"
        network.add(victim, *owners, policy=policy, recovery="ring", multicast=addresses)
    network.run(60.0)
    publish_more(network, sent, 20)
    network.run(20.0)
    check_complete(network, sent)
    (session,) = sessions_of(network)
    assert session.flavour == TOTAL


def test_without_repair_what_is_lost_is_told_soon() -> None:
    """And after the change back nothing is lost any more."""
    network = two_networks("multicast", "ring")
    change(network, NONE)
    network.run(10.0)
    lose(network, 0.2, seed=8)
    sent = publish(network, 40)
    network.is_lost = lambda name, data: False
    publish_more(network, sent, 1)
    network.run(5.0)
    before = {name: node.counters["repaired"] for name, node in network.forwarders.items()}
    assert not any(before.values())
    gaps = sum(node.counters["gaps"] for node in network.forwarders.values())
    assert gaps > 0
    for name, got in network.got.items():
        assert len(set(got)) == len(got)
        for sender in SENDERS:
            numbers = [number for who, number in got if who == sender]
            assert numbers == sorted(numbers), name
    change(network, FIFO)
    network.run(10.0)
    assert [s.flavour for s in sessions_of(network)] == [FIFO]
    lose(network, 0.2, seed=9)
    more = publish(network, 40)
    network.run(15.0)
    for name, got in network.got.items():
        for sender in SENDERS:
            if name != sender:
                numbers = [number for who, number in got if who == sender]
                expected = list(range(sent[sender], sent[sender] + more[sender]))
                assert numbers[-more[sender] :] == expected, name
