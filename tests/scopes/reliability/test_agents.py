"""The agents of one node: posts, views, links, and what strangers send."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.holdings import Holdings, Name
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.management.events import (
    AgentPosted,
    AgentWithdrawn,
    PeerFound,
    PeerLost,
    TopicLeft,
)
from quicksilver.scopes.posts import AgentKey, DomainId, Post, Seat
from quicksilver.scopes.reliability.agents import Agents
from quicksilver.scopes.reliability.frames import (
    Frame,
    ReportBody,
    RumoursBody,
    TokenBody,
    WakeBody,
    encode,
    parse_frame,
)
from quicksilver.scopes.reliability.kinds import parse_protocol
from quicksilver.scopes.reliability.records import Gathered
from quicksilver.scopes.routing import begin
from tests.scopes.reliability.draws import PROTOCOLS

DOMAIN = DomainId("top", 1)
TOPIC = "top/x"
SENDER = Sender("top", "a", 1)


def make() -> Agents:
    return Agents(lower=Holdings(1 << 20), subscribes=lambda _: True, seed=1)


def post(members: str = "abc", *, view: int = 1, protocol: str = "star", member: str = "a") -> Post:
    seats = tuple(Seat(name, 0, name) for name in members)
    return Post(DOMAIN, view, protocol, (member,), seats, (TOPIC,), True)


def publish(agents: Agents, number: int, now: float) -> None:
    packet = Packet.of(TOPIC, SENDER, number, 0, 0, begin("top", "a"), {}, (b"x",))
    agents.state.lower.take(packet)  # type: ignore[attr-defined]
    agents.handle_arrived(TOPIC, SENDER, now)


def sent(agents: Agents) -> list[tuple[str, Frame]]:
    found = []
    while (out := agents.poll_message()) is not None:
        frame = parse_frame(out[1])
        assert frame is not None
        assert isinstance(out[0], Link)
        found.append((out[0].node, frame))
    return found


def find_peers(agents: Agents, members: str = "bc") -> None:
    for name in members:
        agents.handle_event(PeerFound(DOMAIN, name, Link("tcp", name, name)), 0.0)


def test_an_agent_talks_to_those_that_were_found() -> None:
    agents = make()
    agents.handle_event(AgentPosted(post()), 0.0)
    publish(agents, 0, 0.0)
    agents.handle_timeout(0.2)
    assert sent(agents) == []
    assert agents.counters["unreachable"] == 2
    assert [agents.poll_sought() for _ in range(3)] == [
        AgentKey(DOMAIN, "b"),
        AgentKey(DOMAIN, "c"),
        None,
    ]
    find_peers(agents)
    agents.handle_timeout(agents.next_timeout() or 0.0)
    assert {node for node, _ in sent(agents)} == {"b", "c"}
    agents.handle_event(PeerLost(DOMAIN, "c"), 1.0)
    agents.handle_timeout(agents.next_timeout() or 0.0)
    assert {node for node, _ in sent(agents)} == {"b"}


def test_who_cannot_be_dialled_is_answered_where_it_came_from() -> None:
    """It has made a link itself."""
    agents = make()
    agents.handle_event(AgentPosted(post(member="b", protocol="star")), 0.0)
    publish(agents, 0, 0.0)
    body = TokenBody(1, 0, (), Gathered(()), False)
    agents.handle_message("a-node", encode(Frame(DOMAIN, 1, 0, 1, body)), 0.1)
    out = agents.poll_message()
    assert out is not None
    assert out[0] == Link("", "", "a-node")


def test_a_seat_speaks_from_its_own_node() -> None:
    agents = make()
    agents.handle_event(AgentPosted(post(member="b")), 0.0)
    find_peers(agents, "ac")
    body = TokenBody(1, 0, (), Gathered(()), False)
    agents.handle_message("c", encode(Frame(DOMAIN, 1, 0, 1, body)), 0.1)
    assert agents.counters["strangers"] == 1
    assert sent(agents) == []


def test_what_belongs_to_another_view_is_dropped() -> None:
    agents = make()
    agents.handle_event(AgentPosted(post(member="b", view=3)), 0.0)
    find_peers(agents, "ac")
    for view in (2, 4):
        body = TokenBody(1, 0, (), Gathered(()), False)
        agents.handle_message("a", encode(Frame(DOMAIN, view, 0, 1, body)), 0.1)
    assert agents.counters["other_views"] == 2
    assert sent(agents) == []


def test_an_old_view_does_not_come_back() -> None:
    agents = make()
    agents.handle_event(AgentPosted(post(view=3)), 0.0)
    agents.handle_event(AgentPosted(post("ab", view=2)), 0.0)
    assert agents.hosted[AgentKey(DOMAIN, "a")].post.view == 3


def test_a_new_view_keeps_what_was_agreed_on() -> None:
    agents = make()
    agents.handle_event(AgentPosted(post("a")), 0.0)
    publish(agents, 0, 0.0)
    for _ in range(5):
        agents.handle_timeout(agents.next_timeout() or 1.0)
        sent(agents)
    name = Name(TOPIC, SENDER)
    assert agents.state.stable(name) == 1
    assert agents.poll_stable() == (TOPIC, SENDER, 1)
    agents.handle_event(AgentPosted(post("ab", view=2)), 2.0)
    rounds = agents.hosted[AgentKey(DOMAIN, "a")].rounds
    assert rounds.streams[name].agreed == 1
    assert agents.state.stable(name) == 1


def test_an_agent_that_is_withdrawn_says_nothing_more() -> None:
    agents = make()
    agents.handle_event(AgentPosted(post()), 0.0)
    find_peers(agents)
    publish(agents, 0, 0.0)
    agents.handle_event(AgentWithdrawn(DOMAIN, "a"), 0.1)
    assert agents.next_timeout() is None
    agents.handle_timeout(1.0)
    assert sent(agents) == []


def test_nothing_is_left_of_a_topic_that_the_node_has_left() -> None:
    agents = make()
    agents.handle_event(AgentPosted(post("a")), 0.0)
    publish(agents, 0, 0.0)
    for _ in range(5):
        agents.handle_timeout(agents.next_timeout() or 1.0)
    agents.handle_event(TopicLeft(TOPIC), 2.0)
    assert agents.state.stable(Name(TOPIC, SENDER)) == 0
    assert not agents.state.active


def test_two_agents_of_one_domain_on_one_node_hear_each_other() -> None:
    """A node may lead two parts of a scope; their agents need no network."""
    agents = make()
    seats = (Seat("top:1", 1, "a"), Seat("top:2", 2, "a"))
    for number in (1, 2):
        part = Post(
            DomainId("top", number), 1, "ring", ("a",), (Seat("a", 0, "a"),), (TOPIC,), False
        )
        agents.handle_event(AgentPosted(part), 0.0)
        above = Post(DomainId("top", 3), 1, "star", (f"top:{number}", "a"), seats, (TOPIC,), True)
        agents.handle_event(AgentPosted(above), 0.0)
    publish(agents, 0, 0.0)
    now = 0.0
    for _ in range(50):
        now = agents.next_timeout() or now
        agents.handle_timeout(now)
        assert sent(agents) == []
    assert agents.state.stable(Name(TOPIC, SENDER)) == 1
    assert agents.next_timeout() is None, "and all is quiet"


@given(st.sampled_from(PROTOCOLS), st.lists(st.binary(max_size=60), max_size=5))
def test_any_bytes_are_counted_and_dropped(protocol: str, garbage: list[bytes]) -> None:
    agents = make()
    agents.handle_event(AgentPosted(post(protocol=protocol)), 0.0)
    for data in garbage:
        agents.handle_message("b", data, 1.0)
    assert agents.counters["not_understood"] == len(garbage)


@given(
    st.sampled_from(PROTOCOLS),
    st.lists(
        st.tuples(
            st.integers(-1, 4),
            st.integers(-1, 4),
            st.integers(-1, 4),
            st.integers(0, 5),
            st.sampled_from(("token", "roll", "report", "rumours", "wake")),
        ),
        max_size=20,
    ),
)
def test_members_that_lie_do_no_harm(
    protocol: str, lies: list[tuple[int, int, int, int, str]]
) -> None:
    """Seats that are none, leaders that are none, rounds that nobody has begun."""
    agents = make()
    agents.handle_event(AgentPosted(post(protocol=protocol)), 0.0)
    find_peers(agents)
    publish(agents, 0, 0.0)
    now = 0.0
    for origin, to, leader, round_, kind in lies:
        now += 0.05
        content = Gathered(())
        body = {
            "token": TokenBody(round_, leader, (leader,), content, True),
            "roll": TokenBody(round_, leader, (leader,), None, False),
            "report": ReportBody(round_, leader, (leader,), content),
            "rumours": RumoursBody(round_, leader, (3,), content, ((origin, content),)),
            "wake": WakeBody(),
        }[kind]
        node = "abc"[origin] if 0 <= origin < 3 else "x"
        frame = Frame(DOMAIN, 1, origin, to, body)  # type: ignore[arg-type]  # a union of bodies
        agents.handle_message(node, encode(frame), now)
        agents.handle_timeout(now)
        sent(agents)


def test_names_of_protocols() -> None:
    assert parse_protocol("ring") == ("ring", 0)
    assert parse_protocol("tree") == ("tree", 3)
    assert parse_protocol("tree:5") == ("tree", 5)
    assert parse_protocol("gossip:4") == ("gossip", 4)
    assert parse_protocol("ring:5") == ("ring", 5)
    for bad in ("", "ring:1", "star:2", "tree:0", "tree:x", "tree:", "tree:99999", "unknown"):
        assert parse_protocol(bad) is None
