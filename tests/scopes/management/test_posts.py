"""Agents are handed down to nodes, find each other, and move when a host is gone."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.events import AgentPosted, AgentWithdrawn, PeerLost
from quicksilver.scopes.posts import DomainId, Post, Seat, find_post_problem, parse_part, spoken_for
from tests.scopes.management.test_manager import PARENTS, T, want
from tests.scopes.network import Network

OTHER = "X/other"


def campus(recovery: str = "ring") -> Network:
    """Campus X, departments P, Q and R, laptops A to F; all recover."""
    network = Network()
    network.add("X", recovery=recovery)
    for department in "PQR":
        network.add(department, "X", recovery=recovery)
    for laptop, department in zip("ABCDEF", "PPPQQR", strict=True):
        network.add(laptop, department, is_node=True)
    return network


def lecture() -> Network:
    network = campus()
    for laptop in "ABCDEF":
        want(network, laptop, "ps")
    network.run(1.0)
    return network


def converse(network: Network) -> None:
    """Agents talk to their peers, and notice who is not where it was."""
    for node, peers in network.peers.items():
        for key, where in list(peers.items()):
            if key not in network.agents.get(where, {}):
                network.managers[node].handle_peer_lost(*key, network.now)
    network.run(10.0)


def hosts(network: Network) -> dict[str, set[str]]:
    """Return which nodes host agents of each scope's domains, and for whom."""
    found: dict[str, set[str]] = {}
    for node, agents in network.agents.items():
        for key in agents:
            found.setdefault(key.domain.scope, set()).add(f"{key.member} at {node}")
    return found


def check_agents(network: Network) -> None:
    """Each seat of each domain has one agent; an agent is at the host of the agent that leads
    the domain that it speaks for, and all agents of a domain know where the others are."""
    converse(network)
    all_posts = [(node, p) for node, agents in network.agents.items() for p in agents.values()]
    by_domain: dict[DomainId, list[tuple[str, Post]]] = {}
    for node, post in all_posts:
        by_domain.setdefault(post.domain, []).append((node, post))
        assert post.path[-1] == node
    for domain, posts in by_domain.items():
        assert len({(post.view, post.seats, post.topics) for _, post in posts}) == 1, domain
        seats = posts[0][1].seats
        assert sorted(post.path[0] for _, post in posts) == sorted(seat.member for seat in seats)
        where = {post.path[0]: node for node, post in posts}
        for node, post in posts:
            below = spoken_for(post)
            if below is not None:
                leads = [n for n, p in by_domain[below] if p.path[0] == p.seats[0].member]
                assert leads == [node]
            known = {k.member: n for k, n in network.peers[node].items() if k.domain == domain}
            assert known == {
                member: n for member, n in where.items() if (node, member) not in _mine(posts)
            }


def _mine(posts: list[tuple[str, Post]]) -> set[tuple[str, str]]:
    return {(node, post.path[0]) for node, post in posts}


class TestPosting:
    def test_agents_stand_on_each_other(self) -> None:
        """Figures 3.29 and 3.30: node agents in each department, and above them an agent for
        each department at the node that leads there."""
        network = lecture()
        found = hosts(network)
        assert found["P"] == {"A at A", "B at B", "C at C"}
        assert found["Q"] == {"D at D", "E at E"}
        assert found["R"] == {"F at F"}
        assert {each[0] for each in found["X"]} == set("PQR")
        check_agents(network)
        tops = {p.domain.scope: p.is_top for a in network.agents.values() for p in a.values()}
        assert tops == {"X": True, "P": False, "Q": False, "R": False}

    def test_stacks_fork_where_topics_differ(self) -> None:
        """Figure 3.31: node B's agent serves two topics, and two agents stand on it."""
        network = lecture()
        want(network, "D", "s", OTHER)
        want(network, "B", "s", OTHER)
        network.run(2.0)
        check_agents(network)
        (own,) = [post for post in network.agents["D"].values() if post.path == ("D",)]
        assert set(own.topics) == {T, OTHER}
        above = [p for p in network.agents["D"].values() if spoken_for(p) == own.domain]
        assert sorted(post.topics for post in above) == [(T,), (OTHER,)]
        assert {post.path[0] for post in above} == {f"Q:{own.domain.number}", "Q"}

    def test_without_recovery_there_are_no_domains(self) -> None:
        network = campus("none")
        for laptop in "ABCDEF":
            want(network, laptop, "ps")
        network.run(2.0)
        assert not any(network.agents.values())
        assert network.publish("A", T) == Counter("BCDEF")

    def test_a_scope_whose_owner_recovers_nothing_is_at_the_top(self) -> None:
        network = Network()
        network.add("X")
        network.add("P", "X", recovery="ring")
        for laptop in "AB":
            network.add(laptop, "P", is_node=True)
            want(network, laptop, "ps")
        network.run(1.0)
        (post,) = network.agents["A"].values()
        assert post.is_top

    def test_a_scope_that_recovers_nothing_is_left_out(self) -> None:
        network = campus()
        network.add("S", "X", recovery="none")
        network.add("G", "S", is_node=True)
        for laptop in "ABDFG":
            want(network, laptop, "ps")
        network.run(1.0)
        assert network.agents["G"] == {}
        check_agents(network)
        (post,) = [p for a in network.agents.values() for p in a.values() if p.path[0] == "P"]
        assert {seat.member for seat in post.seats} == set("PQR")


class TestChanges:
    def test_a_join_inside_a_network_causes_no_message_above_it(self) -> None:
        """Figure 3.24, with agents: "the view change that occurred internally in domain µ is
        transparent to C"."""
        network = lecture()
        above = sum(count for ends, count in network.said.items() if "X" in ends)
        network.add("G", "Q", is_node=True)
        want(network, "G", "s")
        network.run(2.0)
        assert sum(count for ends, count in network.said.items() if "X" in ends) == above
        check_agents(network)
        assert "G at G" in hosts(network)["Q"]

    @pytest.mark.parametrize("victim", list("ABCDEF"))
    def test_a_crash_inside_a_network_causes_no_message_above_it(self, victim: str) -> None:
        """Also if the victim hosted the agent that speaks for the network: it is posted anew.

        R has one laptop only: when that is gone R leaves the topic, and X has to know."""
        network = lecture()
        above = sum(count for ends, count in network.said.items() if "X" in ends)
        network.kill(victim)
        network.agents.pop(victim)
        network.peers.pop(victim)
        network.run(3.0)
        if victim != "F":
            assert sum(count for ends, count in network.said.items() if "X" in ends) == above
        check_agents(network)

    def test_only_the_agents_of_a_host_that_is_gone_are_posted_anew(self) -> None:
        network = lecture()
        leader = next(n for n, a in network.agents.items() if any(k.member == "P" for k in a))
        before = {node: list(events) for node, events in network.events.items()}
        network.kill(leader)
        network.agents.pop(leader)
        network.run(3.0)
        new = {n: e[len(before[n]) :] for n, e in network.events.items()}
        posted = [e.post.path for each in new.values() for e in each if isinstance(e, AgentPosted)]
        assert len([path for path in posted if path[0] == "P"]) == 1
        assert not [p for p in posted if p[-1] in "DEF"], "nobody in other departments is told"
        assert not [e for each in new.values() for e in each if isinstance(e, AgentWithdrawn)]

    def test_an_agent_that_moved_is_found_again(self) -> None:
        network = lecture()
        (key, node) = next((k, n) for n, a in network.agents.items() for k in a if k.member == "P")
        asking = next(n for n, a in network.agents.items() if any(k.member == "Q" for k in a))
        network.kill(node)
        network.agents.pop(node)
        network.run(2.0)
        network.managers[asking].handle_peer_lost(*key, network.now)
        network.run(2.0)
        assert PeerLost(*key) in network.events[asking]
        host = next(n for n, a in network.agents.items() if key in a)
        assert network.peers[asking][key] == host

    def test_who_asks_for_what_was_not_posted_is_told_nothing(self) -> None:
        """Of nodes and of scopes: the agent must be there, and have come that way."""
        network = lecture()
        own = next(post for post in network.agents["A"].values() if post.path == ("A",))
        for name, path in (("A", ("B",)), ("A", ("A", "A")), ("P", ("X:9",)), ("P", ("P", "P"))):
            manager = network.managers[name]
            manager.handle_accepted(88_888, network.now)
            manager.handle_message(88_888, say.RequestAgent(own.domain, path), network.now)
            out = manager.poll_transmit()
            assert out is not None
            assert isinstance(out[1], say.AgentRefused)
            manager.handle_closed(88_888, network.now)

    def test_who_leaves_a_topic_hosts_nothing_more(self) -> None:
        network = lecture()
        for laptop in "ABCDEF":
            want(network, laptop, "")
        network.run(1.0)
        assert not any(network.agents.values())
        assert not any(network.peers.values())

    @pytest.mark.parametrize("victims", ["X", "P", "Q", "XPQR"])
    def test_agents_stay_while_managers_are_away_and_when_they_come_back(
        self, victims: str
    ) -> None:
        """A domain goes on recovering; domains keep their numbers and nobody is moved."""
        network = lecture()
        before = hosts(network)
        numbers = {key for agents in network.agents.values() for key in agents}
        count = {node: len(events) for node, events in network.events.items()}
        for victim in victims:
            network.kill(victim)
        network.run(5.0)
        assert hosts(network) == before
        for victim in victims:
            owners = () if victim == "X" else ("X",)
            network.add(victim, *owners, recovery="ring", starts=2)
        network.run(20.0)
        assert hosts(network) == before
        assert {key for agents in network.agents.values() for key in agents} == numbers
        for node in "ABCDEF":
            new = network.events[node][count[node] :]
            assert not [e for e in new if isinstance(e, AgentWithdrawn)], node
        check_agents(network)
        views: dict[tuple[DomainId, str], list[int]] = {}
        for events in network.events.values():
            for event in events:
                if isinstance(event, AgentPosted):
                    key = event.post.domain, event.post.path[-1]
                    views.setdefault(key, []).append(event.post.view)
        assert all(each == sorted(each) for each in views.values())

    def test_a_manager_may_be_replaced_at_another_address(self) -> None:
        network = lecture()
        before = hosts(network)
        network.kill("Q")
        network.run(1.0)
        network.add("Q", "X", recovery="ring", starts=2, address="elsewhere")
        for laptop in "DE":
            network.kill(laptop)
            network.add(laptop, "elsewhere", is_node=True, starts=2)
            want(network, laptop, "s")
        network.run(20.0)
        assert hosts(network) == before
        (post,) = [p for a in network.agents.values() for p in a.values() if p.path[0] == "P"]
        assert {seat.address for seat in post.seats} == {"P", "elsewhere", "R"}


STORIES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ABCDEFG"), st.sampled_from(["s1", "p2", "s12", "", "-"])),
        st.tuples(st.sampled_from("PQRSX"), st.just("-")),
    ),
    min_size=1,
    max_size=10,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(STORIES)
def test_whatever_happens_each_seat_has_one_agent_where_it_belongs(
    story: list[tuple[str, str]],
) -> None:
    network = Network()
    starts: Counter[str] = Counter()
    for name in "XPQRSABCDEFG":
        network.add(name, *PARENTS[name].strip(), recovery="ring", is_node=name in "ABCDEFG")
    for name, what in story:
        if name not in network.managers:
            continue
        if what != "-":
            for topic in "12":
                wish = what.replace("1", "").replace("2", "") if topic in what else ""
                want(network, name, wish, f"X/{topic}")
            continue
        network.kill(name)
        network.agents.pop(name, None)
        network.peers.pop(name, None)
        if name in "PQRSX":
            starts[name] += 1
            network.run(1.0)
            again = starts[name] + 1
            network.add(name, *PARENTS[name].strip(), recovery="ring", starts=again)
    network.run(30.0)
    check_agents(network)


def test_posts_that_an_owner_may_not_post_are_named() -> None:
    seats = (Seat("P", 3, "P"), Seat("Q", 4, "Q"))
    good = Post(DomainId("X", 1), 1, "ring", ("P",), seats, (T,), is_top=True)
    assert find_post_problem(good, "P", "X") is None
    part = Post(
        DomainId("X", 2), 1, "ring", ("X:1", "P"), (Seat("X:1", 1, "X"),), (T,), is_top=True
    )
    assert find_post_problem(part, "P", "X") is None
    assert parse_part("X:1") == DomainId("X", 1)
    for post, scope, owner, says in (
        (good, "Q", "X", "does not lead"),
        (good, "P", "Y", "belongs to 'X'"),
        (part, "P", "Y", "belongs to 'X'"),
    ):
        problem = find_post_problem(post, scope, owner)
        assert problem is not None
        assert says in problem
