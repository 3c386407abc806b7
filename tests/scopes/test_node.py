"""A node as one machine: one kind of connection, links that come and go, agents beside it."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quicksilver.scopes import connections as connecting
from quicksilver.scopes import links as linking
from quicksilver.scopes.dissemination import frames
from quicksilver.scopes.dissemination.channels import External, Link
from quicksilver.scopes.dissemination.filters import ALL
from quicksilver.scopes.dissemination.forwarder import Forwarder
from quicksilver.scopes.dissemination.frames import (
    AgentSays,
    Attach,
    CloseChannel,
    OpenChannel,
    Probe,
    encode,
    parse_frame,
)
from quicksilver.scopes.dissemination.holdings import Name
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.events import (
    AgentPosted,
    Event,
    MechanismOpened,
    PeerFound,
    SessionInstalled,
    SourceAwaited,
    SourceOpened,
    TargetOpened,
)
from quicksilver.scopes.node import ScopeNode
from quicksilver.scopes.node_parts import NotJoinedError, WindowOpened
from quicksilver.scopes.posts import DomainId, Post
from quicksilver.scopes.routing import Channel
from quicksilver.stdx.ranges import RangeSet
from tests.scopes.network import Network

T = "P/T"
AB = Channel("P", ("A",), ("B",), T, "A")
FIRST = SessionInstalled(T, 1, say.Flavour())


def pair(**settings: float) -> Network:
    """Scope P with nodes A, which publishes, and B, which subscribes."""
    network = Network(**settings)
    network.add("P")
    for name, what in (("A", "p"), ("B", "s")):
        network.add(name, "P", is_node=True)
        network.want(name, T, what)
    network.run(0.1)
    return network


def alone(scope: str | None = "P", **settings: int) -> ScopeNode:
    return ScopeNode(name="A", address="A", owners=("P",), life=1, now=0.0, scope=scope, **settings)  # type: ignore[arg-type]  # settings are sizes


def tell(node: ScopeNode, event: Event, now: float = 0.0) -> None:
    """Let a node's manager say something."""
    node.manager._events.append(event)
    node.handle_timeout(now)


def said(node: ScopeNode) -> list[tuple[int, frames.Frame]]:
    """Return the frames of links that a node has to say, and say that they have left."""
    found = []
    while (out := node.poll_transmit()) is not None:
        node.handle_sent(out[0], len(out[1]), 0.0)
        frame = parse_frame(out[1])
        if frame is not None:
            found.append((out[0], frame))
    return found


def dialled(node: ScopeNode) -> list[str]:
    found = []
    while (address := node.poll_dial()) is not None:
        found.append(address)
    return found


class TestConnections:
    def test_managers_and_links_use_one_port(self) -> None:
        """The first frame of a connection says what it is for."""
        network = pair()
        assert network.publish("A", T) == {"B": 1}
        assert network.frames["A", "B"] > 0
        assert network.said["A", "B"] > 0, "A has asked B's manager where to send"

    def test_every_tag_of_a_frame_says_whose_it_is(self) -> None:
        for kind in frames.Frame.__args__:  # type: ignore[attr-defined]  # it is a union
            tag = kind.__struct_config__.tag
            assert frames.TAG_MIN <= tag <= frames.TAG_MAX
        for kind in say.Message.__args__:  # type: ignore[attr-defined]  # it is a union
            assert 0 <= kind.__struct_config__.tag < frames.TAG_MIN
        assert frames.is_link_frame(encode(Probe()))
        assert not frames.is_link_frame(say.encode(say.Alive()))

    def test_who_does_not_say_what_for_is_sent_away(self) -> None:
        node = alone()
        node.handle_accepted(7, 0.0)
        assert node.next_timeout() is not None
        for _ in range(9):
            due = node.next_timeout()
            assert due is not None
            node.handle_timeout(due)
        assert node.poll_close() == 7
        node.handle_frame(7, encode(Probe()), 9.0)
        assert said(node) == []

    def test_strangers_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connecting, "STRANGERS_MAX", 3)
        node = alone()
        for conn in range(5):
            node.handle_accepted(conn, 0.0)
        assert [node.poll_close() for _ in range(3)] == [0, 1, None]

    def test_links_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(linking, "LINKS_MAX", 2)
        node = alone()
        for conn in range(3):
            node.handle_accepted(conn, 0.0)
            node.handle_frame(conn, encode(Probe()), 0.0)
        assert node.poll_close() == 2
        assert node.counters["links_refused"] == 1

    def test_two_connections_to_one_address_are_told_apart(self) -> None:
        node = alone()
        assert dialled(node) == ["P"], "the owner"
        tell(node, SourceOpened(AB, (ALL,), Link("tcp", "P", "B")))
        said(node)
        assert dialled(node) == ["P"], "a link"
        node.handle_dialled("P", 1, 0.0)
        node.handle_dialled("P", 2, 0.0)
        out = []
        while (each := node.poll_transmit()) is not None:
            out.append(each)
        assert [say.parse(data).__class__ for conn, data in out if conn == 1] == [say.Register]
        assert [parse_frame(data) for conn, data in out if conn == 2] == [OpenChannel(AB)]

    def test_nothing_is_published_before_the_scope_is_known(self) -> None:
        node = alone(scope=None)
        with pytest.raises(NotJoinedError, match="wait for OwnerJoined"):
            node.publish(T, [b"x"], None, 0.0)
        assert not node.may_publish(T)
        node.handle_dialled("P", 1, 0.0)
        node.handle_frame(1, say.encode(say.Registered("campus/lan", ())), 0.0)
        assert node.forwarder.sender == Sender("campus/lan", "A", 1)
        assert node.publish(T, [b"x"], None, 0.0) == 0

    @pytest.mark.parametrize("seed", range(30))
    def test_nodes_stand_whatever_comes_over_connections(self, seed: int) -> None:
        rng = Random(seed)
        node = alone(scope=rng.choice([None, "P"]))
        channel = Channel("P", ("B",), ("A",), T, "B")
        words = [
            encode(each)
            for each in (
                Probe(), AgentSays("B", b"?"), Attach(channel), Attach(AB), OpenChannel(channel),
                CloseChannel(channel), CloseChannel(AB), frames.Have(AB, ()),
                frames.Given(channel, (), is_answer=True),
            )
        ]  # fmt: skip
        words += [say.encode(say.Alive()), say.encode(say.Registered("P", ())), b"", b"\x91\x48x"]
        conns: list[int] = []
        now = 0.0
        for conn in range(400):
            now += rng.choice([0.0, 0.1, 2.0])
            what = rng.random()
            if what < 0.2:
                node.handle_accepted(conn, now)
                conns.append(conn)
            elif what < 0.3:
                for address in dialled(node):
                    is_there = rng.random() < 0.7
                    node.handle_dialled(address, conn if is_there else None, now)
                    conns += [conn] * is_there
                    break
            elif what < 0.35 and conns:
                node.handle_closed(conns.pop(rng.randrange(len(conns))), now)
            elif what < 0.4:
                node.handle_timeout(now)
            elif what < 0.5:
                event = rng.choice([
                    SourceAwaited(AB, (ALL,)),
                    SourceOpened(AB, (ALL,), Link("tcp", "B", "B")),
                    TargetOpened(channel),
                    TargetOpened(channel, Link("tcp", "C", "C")),
                    PeerFound(DomainId("P", 1), "B", Link("tcp", "B", "B")),
                ])  # fmt: skip
                if node._forwarder is not None:
                    tell(node, event, now)
            elif conns:
                data = rng.choice([*words, rng.randbytes(rng.randint(0, 20))])
                node.handle_frame(rng.choice(conns), data, now)
            while (out := node.poll_transmit()) is not None:
                assert out[1]
            while (closed := node.poll_close()) is not None:
                conns = [each for each in conns if each != closed]
            while node.poll_event() is not None:
                pass


class TestLinks:
    def test_a_link_that_breaks_is_made_again_and_nothing_is_lost(self) -> None:
        network = pair()
        network.publish("A", T)
        for conn in network.conns("A", "B"):
            network.cut(conn)
        for _ in range(3):
            network.publish("A", T)
        network.run(2.0)
        assert network.got["B"] == [("A", number) for number in range(4)]

    def test_a_slow_link_holds_up_no_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """B's connection takes nothing: what waits there is bounded, and C gets all."""
        monkeypatch.setattr(linking, "LINK_BYTES_MAX", 10_000)
        node = alone()
        tell(node, FIRST)
        where = {name: Link("tcp", name, name) for name in "BC"}
        for conn, name in enumerate("BC", 10):
            channel = Channel("P", ("A",), (name,), T, "A")
            tell(node, SourceOpened(channel, (ALL,), where[name]))
            said(node)
            assert name in dialled(node)
            node.handle_dialled(name, conn, 0.0)
            node.handle_frame(conn, encode(frames.Have(channel, ())), 0.0)
        sent = {10: 0, 11: 0}
        for _ in range(50):
            node.publish(T, [b"x" * 1_000], None, 0.0)
            while (out := node.poll_transmit()) is not None:
                sent[out[0]] += len(out[1])
                if out[0] == 11:
                    node.handle_sent(11, len(out[1]), 0.0)
        assert sent[11] > 50_000
        assert sent[10] < 13_000
        before = sent[10]
        node.handle_sent(10, before, 0.0)
        while (out := node.poll_transmit()) is not None:
            sent[10] += len(out[1])
            node.handle_sent(10, len(out[1]), 0.0)
        assert sent[10] > 50_000

    def test_a_link_whose_other_end_is_silent_is_lost(self) -> None:
        """No connection tells that the other side is unplugged."""
        node = alone()
        tell(node, SourceOpened(AB, (ALL,), Link("tcp", "B", "B")))
        said(node)
        dialled(node)
        node.handle_dialled("P", None, 0.0)
        node.handle_dialled("B", 5, 0.0)
        now, probes = 0.0, 0
        while now < 8.0:
            now += 2.0
            node.handle_timeout(now)
            probes += sum(isinstance(frame, Probe) for conn, frame in said(node) if conn == 5)
        assert probes == 4
        assert node.poll_close() is None
        node.handle_frame(5, encode(Probe()), now)
        node.handle_timeout(now + 9.0)
        assert node.poll_close() is None, "it has answered"
        node.handle_timeout(now + 12.0)
        assert node.poll_close() == 5
        assert node.counters["links_silent"] == 1

    def test_whoever_made_a_link_is_answered(self) -> None:
        node = alone()
        node.handle_accepted(5, 0.0)
        node.handle_frame(5, encode(Probe()), 0.0)
        assert said(node) == [(5, Probe())]

    def test_a_link_that_is_not_needed_is_ended(self) -> None:
        network = pair()
        network.publish("A", T)
        link = [conn for conn in network.conns("A", "B") if conn in network.nodes["A"]._links]
        assert len(link) == 1
        network.want("B", T, "")
        network.run(30.0)
        assert [c for c in network.conns("A", "B") if c in network.nodes["A"]._links] == link
        network.run(40.0)
        assert [c for c in network.conns("A", "B") if c in network.nodes["A"]._links] == []

    def test_who_does_not_read_is_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(linking, "OUTPUT_BYTES_MAX", 100)
        node = alone()
        node.handle_accepted(5, 0.0)
        for _ in range(200):
            node.handle_frame(5, encode(Probe()), 0.0)
            while node.poll_transmit() is not None:
                pass
        node.handle_timeout(2.0)
        assert node.poll_close() == 5


class TestTargetsThatComeByThemselves:
    def test_a_target_makes_the_link_and_gets_messages_over_it(self) -> None:
        """B is behind NAT: nobody can dial it."""
        one = alone()
        two = ScopeNode(
            name="B", address="B", is_dialable=False, owners=("P",), life=1, now=0.0, scope="P"
        )
        two.join(T, 0.0)
        tell(one, FIRST)
        tell(two, FIRST)
        tell(one, SourceAwaited(AB, (ALL,)))
        one.publish(T, [b"x", b"y"], None, 0.0)
        assert said(one) == []
        tell(two, TargetOpened(AB, Link("tcp", "A", "A")))
        assert "A" in dialled(two)
        two.handle_dialled("A", 20, 0.0)
        one.handle_accepted(10, 0.0)
        for _ in range(9):
            for conn, frame in said(two):
                assert conn == 20
                one.handle_frame(10, encode(frame), 0.0)
            for conn, frame in said(one):
                assert conn == 10
                two.handle_frame(20, encode(frame), 0.0)
        delivery = two.poll_delivery()
        assert isinstance(delivery, Packet)
        assert delivery.split() == [b"x", b"y"]
        one.handle_closed(10, 1.0)
        one.publish(T, [b"z"], None, 1.0)
        assert said(one) == []
        one.handle_accepted(11, 2.0)
        one.handle_frame(11, encode(Attach(AB)), 2.0)
        assert said(one) == [(11, OpenChannel(AB))], "it may come again"

    def test_channels_that_nobody_waits_for_are_closed_and_asked_for_again(self) -> None:
        one = alone()
        tell(one, SourceAwaited(AB, (ALL,)))
        one.handle_accepted(10, 0.0)
        wrong = Channel("P", ("A",), ("B", "evil"), "P/other", "A")
        one.handle_frame(10, encode(Attach(wrong)), 0.0)
        assert said(one) == [(10, CloseChannel(wrong))]
        assert one.counters["unknown_channels"] == 1

    def test_a_network_behind_nat_with_multicast_inside_takes_part(self) -> None:
        """Q's manager cannot be dialled; B makes the link to A and gives all to the mechanism."""
        network = Network()
        network.add("X")
        network.add("P", "X")
        network.add("Q", "X", policy="multicast", is_dialable=False, multicast="239.1.1.0/24:7000")
        for name, scope, what in (("A", "P", "ps"), ("B", "Q", "ps"), ("C", "Q", "s")):
            network.add(name, scope, is_node=True)
            network.want(name, "X/T", what)
        network.run(5.0)
        assert network.publish("A", "X/T") == {"B": 1, "C": 1}
        assert network.publish("B", "X/T") == {"A": 1, "C": 1}
        for conn in network.conns("A", "B") + network.conns("A", "C"):
            network.cut(conn)
        network.nodes["A"].publish("X/T", [b"x"], None, network.now)
        network.run(5.0)
        assert network.publish("A", "X/T") == {"B": 1, "C": 1}
        for name in "BC":
            numbers = [number for who, number in network.got[name] if who == "A"]
            assert numbers == [0, 1, 2], "nothing was lost meanwhile"


class FakeAgents:
    """Agents that tell each other by hand what a test wants."""

    def __init__(self, forwarder: Forwarder) -> None:
        self.forwarder = forwarder
        self.out: deque[tuple[Link | External, bytes]] = deque()
        self.heard: list[tuple[str, bytes]] = []
        self.repairs: deque[tuple[Channel, Packet]] = deque()
        self.given_up: deque[tuple[str, Sender, int]] = deque()
        self.events: list[Event] = []
        self.arrived: list[Name] = []

    def handle_event(self, event: Event, now: float) -> None:
        self.events.append(event)

    def handle_subscribed(self, topic: str, now: float) -> None: ...

    def handle_arrived(self, topic: str, sender: Sender, now: float) -> None:
        self.arrived.append(Name(topic, sender))

    def handle_message(self, where_from: str, data: bytes, now: float) -> None:
        self.heard.append((where_from, data))

    def handle_timeout(self, now: float) -> None: ...

    def next_timeout(self) -> float | None:
        return None

    def poll_message(self) -> tuple[Link | External, bytes] | None:
        return self.out.popleft() if self.out else None

    def poll_repair(self) -> tuple[Channel, Packet] | None:
        return self.repairs.popleft() if self.repairs else None

    def poll_moved(self) -> None:
        return None

    def poll_given_up(self) -> tuple[str, Sender, int] | None:
        return self.given_up.popleft() if self.given_up else None

    def poll_begun(self) -> None: ...

    def poll_sought(self) -> None: ...


class TestAgents:
    def network(self) -> tuple[Network, dict[str, FakeAgents]]:
        network = Network()
        network.add("P")
        agents: dict[str, FakeAgents] = {}
        for name in "ABC":

            def make(forwarder: Forwarder, *_: object, name: str = name) -> FakeAgents:
                agents[name] = FakeAgents(forwarder)
                return agents[name]

            network.add(name, "P", is_node=True, make_agents=make)  # type: ignore[arg-type]  # fakes
        return network, agents

    def test_agents_talk_over_links(self) -> None:
        network, agents = self.network()
        agents["A"].out.append((Link("tcp", "B", "B"), b"token"))
        network.settle()
        assert agents["B"].heard == [("A", b"token")]
        agents["B"].out.append((Link("tcp", "", "A"), b"answer"))
        network.settle()
        assert agents["A"].heard == [("B", b"answer")], "over the link that A has made"
        agents["B"].out.append((Link("tcp", "", "C"), b"answer"))
        network.settle()
        assert network.nodes["B"].counters["unreachable"] == 1

    def test_agents_may_talk_to_all_by_a_mechanism(self) -> None:
        network, agents = self.network()
        group = External("multicast", "239.1.1.1:7000")
        for name in "AB":
            network.hears[name].add(group)
        agents["A"].out.append((group, b"request"))
        network.settle()
        assert [len(agents[name].heard) for name in "ABC"] == [0, 1, 0]
        assert agents["B"].heard == [("A", b"request")]

    def test_agents_hear_what_the_manager_says(self) -> None:
        network, agents = self.network()
        post = Post(DomainId("P", 1), 1, "ring", ("A",), (), (T,), is_top=True)
        tell(network.nodes["A"], AgentPosted(post))
        assert AgentPosted(post) in agents["A"].events

    def test_what_multicast_loses_is_repaired(self) -> None:
        """The scope's mechanism is lossy; B gets from C's agent what it lacks, and no gap."""
        network, agents = self.network()
        network.kill("P")  # It would open channels, which lose nothing.
        group = External("multicast", "239.1.1.1:7000")
        post = Post(DomainId("P", 1), 1, "ring", ("B",), (), (T,), is_top=True)
        for name in "ABC":
            network.nodes[name].want(T, publishes=name == "A", subscribes=True, now=0.0)
            tell(network.nodes[name], FIRST)
            tell(network.nodes[name], MechanismOpened(T, "P", group, (name,)))
        tell(network.nodes["B"], AgentPosted(post))
        network.settle()
        lost: list[bytes] = []
        network.is_lost = lambda name, data: name == "B" and len(lost) < 2 and not lost.append(data)
        for _ in range(5):
            network.nodes["A"].publish(T, [b"x"], None, network.now)
            network.settle()
        network.run(10.0)
        assert network.got["C"] == [("A", number) for number in range(5)]
        assert network.got["B"] == []
        a = network.forwarders["A"].sender
        stream = network.forwarders["B"].holdings.of_topic(T)[a]
        given = network.forwarders["C"].holdings.copies(T, a, stream.missing(stream.high), 1 << 20)
        assert RangeSet([(0, 2)]) == stream.missing(stream.high)
        agents["B"].repairs.extend((Channel("P", ("C",), ("B",), T, "A"), p) for p in given)
        network.nodes["B"].handle_timeout(network.now)
        network.settle()
        assert network.got["B"] == [("A", number) for number in range(5)]

    def test_agents_are_told_which_streams_have_news(self) -> None:
        network, agents = self.network()
        for name, what in (("A", "p"), ("B", "s")):
            network.want(name, T, what)
        network.run(0.1)
        network.nodes["A"].publish(T, [b"x"] * 3, None, network.now)
        network.settle()
        stream = Name(T, network.forwarders["A"].sender)
        assert agents["A"].arrived == [stream]
        assert agents["B"].arrived == [stream]
        assert agents["C"].arrived == []

    def test_what_nobody_has_is_given_up_when_agents_say_so(self) -> None:
        network, agents = self.network()
        sender = Sender("Q", "z", 1)
        b = network.nodes["B"]
        b.join(T, 0.0)
        b.forwarder.holdings.begin(T, sender, 0)
        agents["B"].given_up.append((T, sender, 5))
        b.handle_timeout(0.0)
        gap = b.poll_delivery()
        assert gap == (T, sender, 0, 4)


@given(st.binary(max_size=64))
@example(encode(OpenChannel(AB)))
def test_any_bytes_are_a_datagram_or_counted(data: bytes) -> None:
    node = alone()
    node.handle_datagram(data, 0.0)
    if frames.parse_datagram(data) is None:
        assert node.counters["malformed"] == 1


def test_publishers_are_told_when_there_is_room_again() -> None:
    node = alone(window_bytes=1_000)
    tell(node, FIRST)
    tell(node, AgentPosted(Post(DomainId("P", 1), 1, "ring", ("A",), (), (T,), is_top=True)))
    node.publish(T, [b"x" * 2_000], None, 0.0)
    assert not node.may_publish(T)
    while (event := node.poll_event()) is not None:
        assert not isinstance(event, WindowOpened)
    node.forwarder.holdings.handle_stable(T, node.forwarder.sender, 1)
    assert node.poll_event() == WindowOpened(T)
    assert node.may_publish(T)


def test_messages_of_topics_that_were_left_are_not_delivered() -> None:
    network = pair()
    network.nodes["A"].publish(T, [b"x"], None, network.now)
    network.settle()
    network.nodes["B"].leave(T, network.now)
    network.nodes["A"].publish(T, [b"x"], None, network.now)
    network.settle()
    assert network.got["B"] == [("A", 0)]
