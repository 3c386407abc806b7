"""Nodes that come into a total order while it goes on, and have messages from before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.holdings import Holdings
from quicksilver.scopes.dissemination.packets import Gap, Packet, Sender
from quicksilver.scopes.routing import begin
from quicksilver.scopes.sessions.control import Control, control_of
from quicksilver.scopes.sessions.ordering import TotalOrder

TOPIC = "campus/news"
SESSION = 2
GONE = Sender("campus", "gone", 1)
"""It has sent, and crashed."""


class Node:
    """One node's order, over holdings in which all that there is counts as stable."""

    def __init__(self, name: str, *, is_late: bool, now: float) -> None:
        self.sender = Sender("campus", name, 1)
        self.holdings = Holdings(1 << 20, self.sender)
        forwarder = SimpleNamespace(
            sender=self.sender, holdings=self.holdings, is_recovered=lambda topic: True
        )
        self.order = TotalOrder(
            TOPIC, SESSION, cast("Forwarder", forwarder), is_late=is_late, now=now
        )
        self.spoken = 0
        self.offered: list[int] = []
        self.is_subscribed = True

    def take(self, packet: Packet) -> None:
        for ready in self.holdings.take(packet).ready:
            if ready.sender.life > 0:
                self.order.handle_item(ready, 0.0)
        self.holdings.handle_stable(TOPIC, packet.sender, packet.stop)

    def got(self) -> list[tuple[str, int]]:
        return [
            (item.sender.node, number)
            for item in self.order.out
            if isinstance(item, Packet)
            for number in range(item.number, item.stop)
        ]

    def gaps(self) -> list[tuple[int, int]]:
        return [(item.first, item.last) for item in self.order.out if isinstance(item, Gap)]


def messages(sender: Sender, first: int, count: int) -> Packet:
    record = begin("campus", sender.node)
    return Packet.of(TOPIC, sender, first, first, SESSION, record, {}, (b"x",) * count)


class Session:
    """Nodes that hear each other's control streams."""

    def __init__(self) -> None:
        self.now = 0.0
        self.nodes: list[Node] = []
        self.term = 0

    def add(self, name: str, *, is_late: bool = False) -> Node:
        node = Node(name, is_late=is_late, now=self.now)
        if self.term:
            node.order.handle_chosen(self.nodes[0].sender, self.term, is_firm=True, now=self.now)
        self.nodes.append(node)
        return node

    def choose(self, chosen: Node) -> None:
        self.term += 1
        for node in self.nodes:
            node.order.handle_chosen(chosen.sender, self.term, is_firm=True, now=self.now)

    def run(self, seconds: float) -> None:
        """Let nodes say what they have to, and follow it; note who offers to say the order."""
        for _ in range(round(seconds / 0.1)):
            self.now += 0.1
            for node in list(self.nodes):
                node.order.advance(self.now)
                asked = node.order.ask() if node.is_subscribed else None
                if asked is not None:
                    self._tell(node, asked)
                while (said := node.order.say((0, 0), self.now, is_complete=False)) is not None:
                    self._tell(node, said)
                term = node.order.find_offer(self.now, is_complete=False)
                if term is not None:
                    node.offered.append(term)

    def _tell(self, speaker: Node, said: Control) -> None:
        number = speaker.spoken
        speaker.spoken += 1
        for node in self.nodes:
            node.take(messages(control_of(speaker.sender), number, 1))
            if node.is_subscribed:
                node.order.handle_control(speaker.sender, number, said)
            else:
                node.order.handle_missed()


def ordered_once() -> tuple[Session, Node, Node]:
    """Return a session in which messages of one that has crashed are ordered."""
    session = Session()
    sequencer, other = session.add("sequencer"), session.add("other")
    session.choose(sequencer)
    for node in session.nodes:
        node.take(messages(GONE, 0, 10))
    session.run(2.0)
    assert other.got() == sequencer.got() == [("gone", number) for number in range(10)]
    return session, sequencer, other


def send_new(session: Session, name: str = "new") -> None:
    """Let a sender that nobody has heard of send three messages to all who subscribe."""
    for node in session.nodes:
        if node.is_subscribed:
            node.take(messages(Sender("campus", name, 1), 0, 3))


@pytest.mark.parametrize("follows", [False, True])
def test_what_was_ordered_before_a_node_came_has_no_second_place(*, follows: bool) -> None:
    """Of a crashed sender nothing more is ordered, so no entry tells the newcomer where it is."""
    session, sequencer, other = ordered_once()
    late = session.add("late", is_late=True)
    late.holdings.take(messages(GONE, 0, 10))
    late.holdings.handle_stable(TOPIC, GONE, 10)
    late.order.handle_item(messages(GONE, 4, 6), session.now, follows=follows)
    send_new(session)
    session.run(60.0)
    assert late.offered == other.offered == []
    assert late.got() == [("new", number) for number in range(3)]
    assert late.gaps() == ([(4, 9)] if follows else [])
    assert other.got() == sequencer.got() == [("gone", n) for n in range(10)] + late.got()


def test_what_comes_after_the_answer_is_left_out_as_well() -> None:
    """Messages from before may reach the newcomer later than the news that they were ordered."""
    session, _, _ = ordered_once()
    late = session.add("late", is_late=True)
    send_new(session)
    session.run(2.0)
    late.take(messages(GONE, 0, 12))
    for node in session.nodes[:-1]:
        node.take(messages(GONE, 10, 2))
    session.run(60.0)
    assert late.got() == [*(("new", n) for n in range(3)), ("gone", 10), ("gone", 11)]
    assert late.offered == []


def test_who_knows_offers_itself_if_nobody_answers() -> None:
    """The sequencer is gone: the one that has followed from the beginning comes before the
    newcomer, and answers once it is chosen."""
    session, sequencer, other = ordered_once()
    session.nodes.remove(sequencer)
    late = Node("late", is_late=True, now=session.now)
    late.order.handle_chosen(sequencer.sender, session.term, is_firm=True, now=session.now)
    session.nodes.append(late)
    late.take(messages(GONE, 0, 10))
    while not other.offered:
        session.run(0.1)
        assert session.now < 60.0
    assert late.offered == []
    session.choose(other)
    session.run(60.0)
    assert late.got() == []
    assert late.offered == []


def test_who_subscribes_again_goes_on_with_what_is_ordered_from_then_on() -> None:
    """A node that goes on to publish stays in the session, and has missed entries."""
    session, _, other = ordered_once()
    other.is_subscribed = False
    send_new(session)
    session.run(2.0)
    other.is_subscribed = True
    send_new(session, "newer")
    session.run(10.0)
    assert other.got()[10:] == [("newer", number) for number in range(3)]
    assert other.offered == []
