"""Scope managers: the dissertation's examples as transcripts, faults, and peers that lie."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.scopes.dissemination.policies.choice import parse_policy
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management import topics
from quicksilver.scopes.management.events import (
    MemberGone,
    OwnerLost,
    PolicyRefused,
    TargetClosed,
    TopicFailed,
)
from quicksilver.scopes.management.manager import ScopeManager
from quicksilver.scopes.management.members import STRANGERS_MAX
from quicksilver.scopes.management.messages import PROTOCOL_VERSION
from quicksilver.scopes.management.planning import plan_topic
from quicksilver.scopes.routing import EVERY, Channel
from tests.scopes.network import Network
from tests.scopes.peers import Alone

T = "X/T3"
"""The hash of names chooses the nodes that Figures 3.16 and 3.17 show."""


def campus(policy: str = "chain") -> Network:
    """Figure 3.14: campus X, departments P, Q and R, laptops A to E."""
    network = Network()
    network.add("X", policy=policy)
    for department in "PQR":
        network.add(department, "X", policy=policy)
    for laptop, department in zip("ABCDE", "PPQQR", strict=True):
        network.add(laptop, department, is_node=True)
    return network


def want(network: Network, node: str, what: str, topic: str = T) -> None:
    """``what``: p for a publisher, s for a subscriber."""
    network.want(node, topic, what)
    network.run(0.1)


def lecture(policy: str = "chain") -> Network:
    """All students have subscribed; A publishes."""
    network = campus(policy)
    for laptop in "ABCDE":
        want(network, laptop, "p" if laptop == "A" else "s")
    return network


class TestFigures:
    def test_subscriptions_cascade_and_channels_are_delegated(self) -> None:
        """Figures 3.14 to 3.17, request by request, as each laptop asks for the topic."""
        network = campus()
        network.log.clear()
        for laptop in "ABCDE":
            network.log.append(f"-- {laptop}")
            want(network, laptop, "p" if laptop == "A" else "s")
        assert network.log == [
            "-- A",
            "A to P: publisher in X/T3",
            "P to X: publisher in X/T3",
            "P to A: do nothing",
            "X to P: do nothing",
            "P to A: do nothing",
            "-- B",
            "B to P: subscriber in X/T3",
            "P to X: publisher and subscriber in X/T3",
            "P to A: send A-B, X/T3:A",
            "P to B: take A-B, X/T3:A",
            "X to P: do nothing",
            "A to B: request A-B, X/T3:A",
            "B to A: A-B, X/T3:A goes to B",
            "P to B: take A-B, X/T3:A",  # Once more: the owners know that somebody subscribes.
            "-- C",
            "C to Q: subscriber in X/T3",
            "Q to X: subscriber in X/T3",
            "Q to C: do nothing",
            "X to P: send P-Q, X/T3:P",
            "X to Q: take P-Q, X/T3:P",
            "P to B: send P:B-Q, X/T3:P and take A-B, X/T3:A",
            "Q to C: take P-Q:C, X/T3:P",
            "B to Q: request P:B-Q, X/T3:P",
            "Q to B: P:B-Q:C, X/T3:P: ask C",
            "B to C: request P:B-Q:C, X/T3:P",
            "C to B: P:B-Q:C, X/T3:P goes to C",
            "-- D",
            "D to Q: subscriber in X/T3",
            "Q to C: send C-D, X/T3:C and take P-Q:C, X/T3:P",
            "Q to D: take C-D, X/T3:C",
            "C to D: request C-D, X/T3:C",
            "D to C: C-D, X/T3:C goes to D",
            "-- E",
            "E to R: subscriber in X/T3",
            "R to X: subscriber in X/T3",
            "R to E: do nothing",
            "X to Q: send Q-R, X/T3:P and take P-Q, X/T3:P",
            "X to R: take Q-R, X/T3:P",
            "Q to D: send Q:D-R, X/T3:P and take C-D, X/T3:C",
            "R to E: take Q-R:E, X/T3:P",
            "D to R: request Q:D-R, X/T3:P",
            "R to D: Q:D-R:E, X/T3:P: ask E",
            "D to E: request Q:D-R:E, X/T3:P",
            "E to D: Q:D-R:E, X/T3:P goes to E",
        ]

    def test_a_message_reaches_every_laptop_once(self) -> None:
        """Figure 3.18."""
        assert lecture().publish("A", T) == Counter("BCDE")

    def test_a_join_inside_a_network_causes_no_message_above_it(self) -> None:
        """Figure 3.24: "This time, no request is sent to campus C. The library handles the
        request internally." """
        network = Network()
        network.add("C")
        network.add("L", "C")
        network.add("A", "L", is_node=True)
        network.add("B", "L", is_node=True)
        want(network, "A", "s", "C/T")
        above = network.said["L", "C"] + network.said["C", "L"]
        want(network, "B", "s", "C/T")
        assert network.said["L", "C"] + network.said["C", "L"] == above

    def test_a_scope_may_have_several_owners(self) -> None:
        """Figure 3.4: cafeteria and library are in the campus and in two virtual rooms."""
        network = Network()
        for name in ("campus", "room1", "room2"):
            network.add(name)
        network.add("cafeteria", "campus", "room1", "room2")
        network.add("library", "campus", "room2")
        for laptop, place in (("alice", "cafeteria"), ("bob", "cafeteria"), ("charlie", "library")):
            network.add(laptop, place, is_node=True)
        want(network, "alice", "ps", "room1/chat")
        want(network, "bob", "ps", "room2/chat")
        want(network, "charlie", "ps", "room2/chat")
        assert network.publish("bob", "room2/chat") == Counter(["charlie"])
        assert network.publish("charlie", "room2/chat") == Counter(["bob"])
        assert network.publish("alice", "room1/chat") == Counter()

    def test_a_local_topic_stays_local(self) -> None:
        """3.2.7: "local topics, e.g., internal to an organization, may be rooted locally"."""
        network = campus()
        before = network.said["P", "X"]
        want(network, "A", "p", "P/menu")
        want(network, "B", "s", "P/menu")
        assert network.said["P", "X"] == before
        assert network.publish("A", "P/menu") == Counter("B")


class TestScale:
    @pytest.mark.parametrize("policy", ["tree:3", "stripes:2", "mesh:2", "star"])
    def test_many_publishers_in_many_networks_reach_everybody_once(self, policy: str) -> None:
        """More than have channels of their own: at both levels channels serve every origin."""
        network = Network()
        network.add("X", policy=policy)
        nodes = []
        for department in (f"D{number}" for number in range(10)):
            network.add(department, "X", policy=policy)
            for laptop in (f"{department}n{number}" for number in range(2)):
                network.add(laptop, department, is_node=True)
                network.want(laptop, T, "ps")
                nodes.append(laptop)
        network.run(2.0)
        for node in (nodes[0], nodes[7], nodes[19]):
            assert network.publish(node, T) == Counter(set(nodes) - {node})
        if policy != "star":
            origins = {
                c.origin for each in network.sources.values() for c in each if c.scope == "X"
            }
            assert EVERY in origins

    @pytest.mark.parametrize("policy", ["tree:4", "stripes:4", "mesh:4", "star"])
    def test_orders_stay_small_where_everybody_publishes(self, policy: str) -> None:
        lan = Alone("lan", policy=policy)
        for conn in range(300):
            lan.manager.handle_accepted(conn, 0.0)
            hello = say.Register(PROTOCOL_VERSION, f"n{conn}", "a", is_member=True, grace_s=1.0)
            lan.manager.handle_message(conn, hello, 0.0)
            wants = say.Subscribe("lan/t", 0, publishes=True, subscribes=True)
            lan.manager.handle_message(conn, wants, 0.0)
        lan.run(0.02)
        orders = [message for _, message in lan.said if isinstance(message, say.Orders)]
        ends = [len(order.sources) + len(order.targets) for order in orders]
        assert len(orders) == 300
        assert sum(ends) <= 300 * 20
        told = [event for event in lan.events if isinstance(event, PolicyRefused)]
        assert bool(told) == (policy == "star")

    def test_no_member_takes_the_topics_of_the_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(topics, "TOPICS_MAX", 100)
        lan = Alone("lan")
        for conn in range(5):
            lan.join(conn, f"n{conn}")
        for conn, count in ((0, 1_000), (1, 10), (2, 10), (3, 10), (4, 10)):
            for number in range(count):
                topic = f"lan/{conn}x{number}"
                wants = say.Subscribe(topic, 0, publishes=True, subscribes=True)
                lan.manager.handle_message(conn, wants, 0.0)
        lan.run(0.02)
        refused = Counter(conn for conn, m in lan.said if isinstance(m, say.TopicRefused))
        assert set(refused) == {0}, "each of the others has its share"
        assert refused[0] == 950
        (reason,) = {m.reason for _, m in lan.said if isinstance(m, say.TopicRefused)}
        assert "each member may have 10" in reason


class TestFaults:
    def test_a_crash_inside_a_network_causes_no_message_above_it(self) -> None:
        network = lecture()
        above = sum(count for ends, count in network.said.items() if "X" in ends)
        network.kill("D")
        network.run(5.0)
        # Q's channel to R was D's work, and is C's now; X and R are not asked about it.
        assert sum(count for ends, count in network.said.items() if "X" in ends) == above
        assert network.publish("A", T) == Counter("BCE")

    @pytest.mark.parametrize("victim", list("BCDE"))
    def test_others_take_over_the_work_of_a_node_that_is_gone(self, victim: str) -> None:
        network = lecture()
        network.kill(victim)
        network.run(10.0)
        assert network.publish("A", T) == Counter(set("BCDE") - {victim})

    def test_channels_go_on_while_managers_are_away(self) -> None:
        """No message passes through a manager."""
        network = lecture()
        for manager in "XPQR":
            network.kill(manager)
        network.run(10.0)
        assert network.publish("A", T) == Counter("BCDE")

    @pytest.mark.parametrize("victim", list("XPQR"))
    def test_a_manager_that_starts_again_learns_what_it_needs(self, victim: str) -> None:
        """Members register again and say what they want."""
        network = lecture()
        network.kill(victim)
        network.run(1.0)
        network.add(victim, *(() if victim == "X" else ("X",)), policy="chain", starts=2)
        network.run(15.0)
        assert network.publish("A", T) == Counter("BCDE")
        network.add("F", "R", is_node=True)
        want(network, "F", "s")
        network.run(1.0)
        assert network.publish("A", T) == Counter("BCDEF")

    def test_a_silent_member_is_gone(self) -> None:
        network = lecture()
        del network.managers["E"]  # its connections stay: it hangs
        network.managers["E"] = _Mute()  # type: ignore[assignment]  # enough of a manager
        network.run(5.0)
        (gone,) = [e for e in network.events["R"] if isinstance(e, MemberGone)]
        assert gone.name == "E"
        assert "silent for 3 s" in gone.reason

    def test_who_leaves_a_topic_gets_nothing_more(self) -> None:
        network = lecture()
        want(network, "C", "")
        network.run(1.0)
        assert network.publish("A", T) == Counter("BDE")
        want(network, "D", "")
        network.run(1.0)
        assert network.publish("A", T) == Counter("BE"), "Q has left as a whole"
        assert any(isinstance(event, TargetClosed) for event in network.events["C"])
        want(network, "A", "")
        network.run(1.0)
        assert not any(network.sources.values())
        for laptop in "BE":
            want(network, laptop, "")
        network.run(1.0)
        assert [manager.topics() for manager in network.managers.values()] == [[]] * 9

    def test_clients_get_messages_and_no_work(self) -> None:
        """3.2.2: a client-host relation is casual; the host relies on nothing."""
        network = lecture()
        network.add("K", is_node=True)
        hello = say.Register(PROTOCOL_VERSION, "K", "K", is_member=False, grace_s=0.0)
        network.attach("K", "R", 10_001, hello)
        network.tell(10_001, say.Subscribe(T, 1, publishes=False, subscribes=True))
        (topic,) = network.managers["R"].topics()
        assert topic.party_of("K") is None, "nobody waits for a client"
        work = plan_topic("R", topic, {"E": "E", "K": "K"}, waits=True).work
        assert [source.channel.target for source in work["E"].sources] == [("K",)]
        assert not work["K"].sources


class _Mute:
    """A manager that hangs."""

    def handle_message(self, *_: object) -> None: ...

    def handle_closed(self, *_: object) -> None: ...

    def handle_timeout(self, *_: object) -> None: ...

    def poll_saved(self) -> None: ...

    def poll_transmit(self) -> None: ...

    def poll_close(self) -> None: ...

    def poll_dial(self) -> None: ...

    def poll_event(self) -> None: ...

    def next_timeout(self) -> None: ...


class TestBadInput:
    def test_a_topic_whose_root_nobody_knows_is_refused_where_it_was_asked_for(self) -> None:
        network = campus()
        want(network, "A", "s", "moon/T")
        (failed,) = [e for e in network.events["A"] if isinstance(e, TopicFailed)]
        assert "leads to 'moon'" in failed.reason
        assert "\n" not in failed.reason

    def test_a_scope_cannot_own_its_owner(self) -> None:
        network = Network()
        network.add("top", "bottom")
        network.add("middle", "top")
        network.add("bottom", "middle")
        network.run(3.0)
        lost = [e for e in network.events["top"] if isinstance(e, OwnerLost)]
        assert any("own" in e.reason or "belongs" in e.reason for e in lost)
        assert "top" not in network.managers["top"].above()

    @pytest.mark.parametrize(
        ("register", "says"),
        [
            (say.Register(99, "Z", "Z", is_member=True, grace_s=1.0), "version"),
            (say.Register(PROTOCOL_VERSION, "X", "X", is_member=True, grace_s=1.0), "itself"),
            (say.Register(PROTOCOL_VERSION, "P", "evil", is_member=True, grace_s=1.0), "already"),
            (
                say.Register(PROTOCOL_VERSION, "a-b", "Z", is_member=True, grace_s=1.0),
                "no scope's name",
            ),
        ],
    )
    def test_bad_members_are_refused_in_one_line(self, register: say.Register, says: str) -> None:
        manager = campus().managers["X"]
        manager.handle_accepted(9_999, 1.0)
        manager.handle_message(9_999, register, 1.0)
        out = manager.poll_transmit()
        assert out is not None
        conn, refused = out
        assert conn == 9_999
        assert isinstance(refused, say.Refused)
        assert says in refused.reason
        assert "\n" not in refused.reason

    def test_a_channel_that_no_owner_announced_is_not_given_to_strangers(self) -> None:
        network = lecture()
        manager = network.managers["C"]
        manager.handle_accepted(9_999, 1.0)
        forged = Channel("X", ("evil",), ("Q", "C"), T, "P")
        manager.handle_message(9_999, say.RequestChannel(forged), 1.0)
        out = manager.poll_transmit()
        assert out is not None
        assert isinstance(out[1], say.ChannelRefused)

    def test_orders_from_members_and_strangers_are_counted_and_dropped(self) -> None:
        network = lecture()
        channel = Channel("X", ("P",), ("Q",), T, "P")
        order = say.Orders(T, (say.Source(channel, (), "evil"),), ())
        manager = network.managers["P"]
        (topic,) = manager.topics()
        before = topic.sources
        manager.handle_accepted(9_999, 1.0)
        manager.handle_message(9_999, order, 1.0)
        conn = manager._members.by_name["A"].conn
        assert conn is not None
        manager.handle_message(conn, order, 1.0)
        assert manager.counters["unexpected"] == 2
        assert topic.sources == before

    def test_strangers_are_bounded(self) -> None:
        manager = ScopeManager(
            name="X", address="X", owners=(), policy_of=lambda _: parse_policy("star"), place=None,
            now=0.0,
        )  # fmt: skip
        for conn in range(STRANGERS_MAX + 1):
            manager.handle_accepted(conn, 0.0)
        out = manager.poll_transmit()
        assert out is not None
        assert out[0] == 0, "the oldest"
        assert manager.poll_close() == 0
        assert isinstance(out[1], say.Refused)

    @given(st.binary(max_size=64))
    def test_any_bytes_are_a_message_or_nothing(self, data: bytes) -> None:
        message = say.parse(data)
        if message is None:
            return
        manager = ScopeManager(
            name="X", address="X", owners=(), policy_of=lambda _: parse_policy("star"), place=None,
            now=0.0,
        )  # fmt: skip
        manager.handle_accepted(1, 0.0)
        manager.handle_message(1, message, 0.0)

    def test_a_policy_that_fails_is_told_and_everybody_is_reached(self) -> None:
        network = Network()

        class Broken:
            mechanism = None

            def edges(self, members: tuple[str, ...], origin: str) -> list[object]:
                raise RuntimeError("oops")

        network.add("X")
        choices = network.managers["X"]._arranger._choices
        network.managers["X"]._arranger._choices = replace(choices, policy_of=lambda _: Broken())
        for node in "AB":
            network.add(node, "X", is_node=True)
            want(network, node, "ps")
        (first, *_) = [e for e in network.events["X"] if isinstance(e, PolicyRefused)]
        assert "oops" in first.problem
        assert network.publish("A", T) == Counter("B")


# Any hierarchy, any order of events


PARENTS = dict(zip("ABCDEFGPQRSX", "PPQQRSSXXXQ ", strict=True))
"""Laptops A to G in departments P to S, of which S is a part of Q; all in campus X."""


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[str, str]]:
    """What laptops want, one after the other; ``-`` is a crash, of a manager for a while."""
    wishes = st.tuples(st.sampled_from("ABCDEFG"), st.sampled_from(["p", "s", "ps", "", "-"]))
    restarts = st.tuples(st.sampled_from("PQRSX"), st.just("-"))
    return draw(st.lists(st.one_of(wishes, wishes, restarts), min_size=1, max_size=14))


@settings(max_examples=40, deadline=None)
@given(stories(), st.sampled_from(["star", "chain", "tree:2"]), st.sampled_from([0.1, 3.0, 12.0]))
def test_whatever_happens_subscribers_get_every_message_once(
    story: list[tuple[str, str]], policy: str, away_s: float
) -> None:
    """Once things are quiet: whoever subscribed gets what any publisher sends, once."""
    network = Network()
    for name in "XPQRSABCDEFG":
        network.add(name, *PARENTS[name].strip(), policy=policy, is_node=name in "ABCDEFG")
    wants: dict[str, str] = {}
    starts: Counter[str] = Counter()
    for name, what in story:
        if name not in network.managers:
            continue
        if what != "-":
            want(network, name, what)
            wants[name] = what
            continue
        network.kill(name)
        wants.pop(name, None)
        if name in "PQRSX":
            starts[name] += 1
            network.run(away_s)
            again = starts[name] + 1
            network.add(name, *PARENTS[name].strip(), policy=policy, starts=again)
    network.run(30.0)
    subscribers = {name for name, what in wants.items() if "s" in what}
    for name, what in wants.items():
        if "p" in what:
            got = network.publish(name, T)
            assert got.keys() >= subscribers - {name}
            assert set(got.values()) <= {1}
