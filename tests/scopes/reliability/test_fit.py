"""What agents find goes into the node's forwarder as it is, and what it has is what they see."""

from __future__ import annotations

import pytest

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.packets import Gap, Packet
from quicksilver.scopes.management.events import AgentPosted, PeerFound
from quicksilver.scopes.posts import DomainId, Post, Seat
from quicksilver.scopes.reliability.agents import Agents
from tests.scopes.reliability.draws import PROTOCOLS
from tests.scopes.reliability.world import TIMING

TOPIC = "top/news"


class Pair:
    """Two nodes of different scopes, below one domain; no channel leads from one to the other."""

    def __init__(self, protocol: str) -> None:
        self.now = 0.0
        self.nodes: dict[str, tuple[Forwarder, Agents]] = {}
        ways = {"a": ("top/x", "a"), "d": ("top/y", "d")}
        seats = tuple(Seat(way[0], 1, node) for node, way in ways.items())
        for node, way in ways.items():
            forwarder = Forwarder(scope=way[0], node=node, life=1, copies_bytes_max=1 << 20)
            agents = Agents(
                lower=forwarder.holdings, subscribes=lambda _: True, seed=1, timing=TIMING
            )
            self.nodes[node] = forwarder, agents
            bottom = Post(
                DomainId(way[0], 1), 1, protocol, (node,), (Seat(node, 0, node),), (TOPIC,), False
            )
            above = Post(DomainId("top", 1), 1, protocol, way, seats, (TOPIC,), True)
            for event in (
                AgentPosted(bottom),
                AgentPosted(above),
                *(PeerFound(DomainId("top", 1), w[0], Link("tcp", n, n)) for n, w in ways.items()),
            ):
                agents.handle_event(event, 0.0)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 0.005
            for name, (forwarder, agents) in self.nodes.items():
                agents.handle_timeout(self.now)
                while (out := agents.poll_message()) is not None:
                    assert isinstance(out[0], Link)
                    self.nodes[out[0].node][1].handle_message(name, out[1], self.now)
                while (repair := agents.poll_repair()) is not None:
                    channel, packet = repair
                    assert forwarder.handle_repair(channel, packet, self.now), "refused"
                    agents.handle_arrived(packet.topic, packet.sender, self.now)
                while (given_up := agents.poll_given_up()) is not None:
                    forwarder.pass_over(*given_up)
                    agents.handle_arrived(*given_up[:2], self.now)
                while (begun := agents.poll_begun()) is not None:
                    forwarder.skip(*begun)


def delivered(forwarder: Forwarder) -> list[bytes | str]:
    found: list[bytes | str] = []
    while (each := forwarder.poll_delivery()) is not None:
        if isinstance(each, Packet):
            found += each.split()
        elif isinstance(each, Gap):
            found.append(f"{each.first} to {each.last} are lost")
    return found


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_messages_cross_where_no_channel_does(protocol: str) -> None:
    pair = Pair(protocol)
    (sender, agents), (receiver, _) = pair.nodes["a"], pair.nodes["d"]
    sender.publish(TOPIC, [b"one", b"two"], None, 0.0)
    while sender.poll_transmit() is not None:
        pass
    agents.handle_arrived(TOPIC, sender.sender, 0.0)
    pair.run(2.0)
    assert delivered(receiver) == [b"one", b"two"]
    assert not receiver.counters["forged"]
    for forwarder in (sender, receiver):
        stream = forwarder.holdings.find(TOPIC, sender.sender)
        assert stream is not None
        assert stream.stable == 2
