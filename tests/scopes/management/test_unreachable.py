"""Members that cannot be dialled: the other end dials, or somebody stands between."""

from __future__ import annotations

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.events import (
    ChannelRefused,
    PeerRefused,
    Purpose,
    SourceAwaited,
    SourceClosed,
    SourceOpened,
    TargetClosed,
    TargetOpened,
)
from quicksilver.scopes.management.hosting import PEERS_ASKED_MAX
from quicksilver.scopes.posts import DomainId, Post, Seat
from quicksilver.scopes.routing import Channel
from tests.scopes.management.test_manager import T, want
from tests.scopes.network import Network
from tests.scopes.peers import Alone, source


def links(network: Network) -> set[tuple[str, str, str]]:
    """Return who dials whom, and which way messages go then."""
    found = set()
    for node, events in network.events.items():
        for event in events:
            match event:
                case SourceOpened(_, _, Link() as where):
                    found.add((node, where.node, "out"))
                case TargetOpened(_, Link() as where):
                    found.add((node, where.node, "in"))
    return found


def awaited(network: Network) -> set[tuple[str, str]]:
    return {
        (node, event.channel.target[0])
        for node, events in network.events.items()
        for event in events
        if isinstance(event, SourceAwaited)
    }


class TestChannels:
    def test_a_target_that_cannot_be_dialled_comes_by_itself(self) -> None:
        network = Network()
        network.add("X")
        network.add("A", "X", is_node=True)
        network.add("N", "X", is_node=True, is_dialable=False)
        for node in "AN":
            want(network, node, "ps")
        assert links(network) == {("N", "A", "out"), ("N", "A", "in")}
        assert awaited(network) == {("A", "N")}

    def test_a_network_behind_a_firewall_dials_out_of_it(self) -> None:
        """Its manager cannot be dialled, so its nodes ask where the other ends are."""
        network = Network()
        network.add("X")
        network.add("P", "X")
        network.add("Q", "X", is_dialable=False)
        for laptop in "AB":
            network.add(laptop, "P", is_node=True)
        for laptop in "CD":
            network.add(laptop, "Q", is_node=True)
        for laptop in "ABCD":
            want(network, laptop, "ps")
        network.run(1.0)
        across = {each for each in links(network) if (each[0] in "AB") != (each[1] in "AB")}
        assert across
        assert {dialling for dialling, _, _ in across} <= set("CD")
        assert {way for _, _, way in across} == {"in", "out"}

    def test_somebody_stands_between_two_that_cannot_be_dialled(self) -> None:
        network = Network()
        network.add("X")
        for name in "MN":
            network.add(name, "X", is_node=True, is_dialable=False)
        network.add("A", "X", is_node=True)
        for node in "AMN":
            want(network, node, "ps")
        network.run(1.0)
        assert {where for _, where, _ in links(network)} == {"A"}
        (topic,) = network.managers["X"].topics()
        plan = network.managers["X"]._arranger.plans[topic.name]
        assert plan.relayed == {("M", "N"): "A", ("N", "M"): "A"}
        carried = {
            (work, each.channel.target[0], each.channel.origin)
            for work, each in ((member, s) for member, w in plan.work.items() for s in w.sources)
        }
        assert {("M", "A", "M"), ("A", "N", "M"), ("N", "A", "N"), ("A", "M", "N")} <= carried

    def test_where_nobody_can_be_dialled_the_channel_is_refused_and_told_once(self) -> None:
        network = Network()
        network.add("X")
        for name in "MN":
            network.add(name, "X", is_node=True, is_dialable=False)
            want(network, name, "ps")
        want(network, "M", "s")
        refused = [e for e in network.events["X"] if isinstance(e, ChannelRefused)]
        assert len(refused) == 2
        assert all("let a member of X that can be dialled" in event.reason for event in refused)
        network.add("A", "X", is_node=True)
        want(network, "A", "ps")
        assert not network.managers["X"]._arranger.plans[T].refused

    def test_ends_that_others_dial_are_handed_to_those_who_can_be(self) -> None:
        q = Alone("Q", "X")
        q.own("X", 1)
        for conn, name, address in ((2, "c", ""), (3, "d", "d"), (4, "e", "")):
            q.join(conn, name, address=address)
            q.tell(conn, say.Subscribe("X/t", 0, publishes=True, subscribes=True))
        there = [Channel("X", ("P",), ("Q",), "X/t", f"o{number}") for number in range(8)]
        q.tell(1, say.Orders("X/t", (), tuple(say.Target(each) for each in there)))
        taken = {conn for conn, m in q.said if isinstance(m, say.Orders) and m.targets}
        last = {conn: [m for m in q.heard(conn) if isinstance(m, say.Orders)][-1] for conn in taken}
        entering = {c for c, m in last.items() for t in m.targets if len(t.channel.target) > 1}
        assert entering == {3}
        q.tell(1, say.Orders("X/t", (), tuple(say.Target(each, "P") for each in there)))
        last = {c: [m for m in q.heard(c) if isinstance(m, say.Orders)][-1] for c in (2, 3, 4)}
        entering = {c for c, m in last.items() for t in m.targets if len(t.channel.target) > 1}
        assert len(entering) > 1, "whoever dials need not be dialled"

    def test_sources_that_targets_dial_are_handed_to_those_who_can_be(self) -> None:
        p = Alone("P", "X")
        p.own("X", 1)
        for conn, name, address in ((2, "a", ""), (3, "b", "b"), (4, "c", "")):
            p.join(conn, name, address=address)
            p.tell(conn, say.Subscribe("X/t", 0, publishes=True, subscribes=True))
        there = [Channel("X", ("P",), (f"Q{number}",), "X/t", "P") for number in range(8)]

        def carriers(address: str) -> set[int]:
            p.clear()
            p.tell(1, say.Orders("X/t", tuple(source(each, address) for each in there), ()))
            told = [(conn, m) for conn, m in p.said if isinstance(m, say.Orders)]
            return {c for c, m in told for s in m.sources if len(s.channel.source) > 1}

        assert carriers("") == {3}
        assert carriers("q") > {3}

    def test_a_target_that_lost_its_source_asks_anew(self) -> None:
        n1 = Alone("n1", "lan", is_node=True)
        n1.own("lan", 1)
        n1.manager.subscribe("lan/t", publishes=True, subscribes=True, now=n1.now)
        n1.run(0.02)
        here = Channel("lan", ("n2",), ("n1",), "lan/t", "n2")
        n1.tell(1, say.Orders("lan/t", (), (say.Target(here, "n2"),)))
        n1.dialled("n2", Purpose.CHANNEL, 5)
        assert n1.heard(5) == [say.RequestChannel(here, of_source=True)]
        where = Link("tcp", "n2", "n2")
        n1.tell(5, say.OfferChannel(here, where, of_source=True))
        assert n1.events[-1] == TargetOpened(here, where)
        n1.manager.handle_link_lost(here, n1.now)
        n1.run(1.0, 1)
        assert n1.events[-1] == TargetClosed(here)
        assert n1.dials[-1].address == "n2"

    def test_sources_whose_target_comes_by_itself_are_told_of_and_closed(self) -> None:
        n1 = Alone("n1", "lan", is_node=True)
        n1.own("lan", 1)
        n1.manager.subscribe("lan/t", publishes=True, subscribes=True, now=n1.now)
        n1.run(0.02)
        there = Channel("lan", ("n1",), ("n2",), "lan/t", "n1")
        n1.tell(1, say.Orders("lan/t", (source(there, ""),), ()))
        assert isinstance(n1.events[-1], SourceAwaited)
        n1.manager.handle_accepted(7, n1.now)
        n1.tell(7, say.RequestChannel(there, of_source=True))
        assert n1.heard(7) == [say.OfferChannel(there, Link("tcp", "n1", "n1"), of_source=True)]
        n1.tell(1, say.Orders("lan/t", (), ()))
        assert n1.events[-1] == SourceClosed(there)


class TestAgents:
    def test_a_peer_whose_manager_moved_is_asked_for_there(self) -> None:
        n1 = Alone("n1", "lan", is_node=True)
        n1.own("lan", 1)
        n1.manager.subscribe("lan/t", publishes=True, subscribes=True, now=n1.now)
        n1.run(0.02)
        domain = DomainId("lan", 1)
        n1.clear()
        for view, address in ((1, "here"), (2, "there")):
            seats = Seat("n1", 0, "n1"), Seat("n2", 0, address)
            post = Post(domain, view, "ring", ("n1",), seats, ("lan/t",), is_top=True)
            n1.tell(1, say.PostAgent(post))
        assert [dial.address for dial in n1.dials] == ["here", "there"]

    def test_in_a_large_domain_only_those_are_searched_for_that_agents_name(self) -> None:
        """Else as many questions as the square of the members."""
        n1 = Alone("n1", "lan", is_node=True)
        n1.own("lan", 1)
        n1.manager.subscribe("lan/t", publishes=True, subscribes=True, now=n1.now)
        n1.run(0.02)
        n1.clear()
        seats = tuple(Seat(f"n{n}", 0, f"a{n}") for n in range(1, PEERS_ASKED_MAX + 2))
        domain = DomainId("lan", 1)
        post = Post(domain, 1, "ring", ("n1",), seats, ("lan/t",), is_top=True)
        n1.tell(1, say.PostAgent(post))
        assert n1.dials == []
        n1.manager.want_peers(domain, ["n2", "n9", "nobody"], n1.now)
        n1.drain()
        assert [dial.address for dial in n1.dials] == ["a2", "a9"]
        n1.manager.want_peers(domain, ["n3"], n1.now)
        n1.drain()
        assert [dial.address for dial in n1.dials] == ["a2", "a9", "a3"], "as well, not instead"

    def test_the_agent_that_cannot_be_dialled_finds_the_others(self) -> None:
        network = Network()
        network.add("X", recovery="ring")
        for name in "ABN":
            network.add(name, "X", is_node=True, is_dialable=name != "N")
            want(network, name, "ps")
        network.run(1.0)
        assert {key.member for key in network.peers["N"]} == set("AB")
        assert {key.member for key in network.peers["A"]} == {"B"}, "N comes by itself"
        (post,) = network.agents["A"].values()
        assert post.seats[-1].member == "N", "those who can be dialled lead"

    def test_two_that_cannot_be_dialled_are_told(self) -> None:
        network = Network()
        network.add("X", recovery="ring")
        for name in "AMN":
            network.add(name, "X", is_node=True, is_dialable=name == "A")
            want(network, name, "ps")
        refused = {e.member for e in network.events["M"] if isinstance(e, PeerRefused)}
        assert refused == {"N"}
