"""Who counts: newcomers, those who only send, the silent, and the hosts of agents."""

from __future__ import annotations

import pytest

from quicksilver.scopes.dissemination.holdings import Holdings, Name
from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.scopes.posts import AgentKey, DomainId
from quicksilver.scopes.reliability.lower import NodeState
from quicksilver.scopes.reliability.records import RECORDS_MAX
from quicksilver.scopes.reliability.repairs import Config
from quicksilver.scopes.reliability.returns import RETURN_S
from quicksilver.scopes.reliability.rounds import LOST_S
from quicksilver.stdx.ranges import RangeSet
from tests.scopes.reliability.draws import PROTOCOLS
from tests.scopes.reliability.forked import make_forked
from tests.scopes.reliability.test_agreement import settle
from tests.scopes.reliability.world import TOPIC, Scope, World


def two_levels(upper: str = "ring", lower: str = "ring") -> Scope:
    return Scope(
        "top",
        upper,
        [Scope("top/x", lower, list("abc")), Scope("top/y", lower, list("def"))],
    )


def stable_of(world: World, node: str, sender: str) -> int:
    return world.nodes[node].agents.state.stable(Name(TOPIC, world.nodes[sender].sender))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_newcomer_begins_at_what_is_stable(protocol: str) -> None:
    """It gets all that was not everywhere when it came, and nothing older (3.2.14)."""
    world = World(Scope("top", protocol, list("abc")))
    world.publish("a", 20)
    world.run(2.0)
    assert stable_of(world, "a", "a") == 20
    world.join("top", "late")
    world.publish("a", 5, reach=0.0)
    settle(world)
    name = Name(TOPIC, world.nodes["a"].sender)
    late = world.nodes["late"]
    assert late.holdings.begun[name] == 20
    assert late.received[name] == RangeSet([(20, 25)])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_was_away_gets_what_began_meanwhile(protocol: str) -> None:
    """It knows nothing of the stream, which is stable by now; but it is not new."""
    world = World(Scope("top", protocol, list("abc")))
    world.publish("b", 5)
    world.run(2.0)
    away = world.nodes["c"]
    away.frozen_until = world.now + 3.0
    world.leave("top", "c")
    send_to(world, "a", 20, "b")
    world.run(2.0)
    assert stable_of(world, "b", "a") == 20
    world.scopes["top"].members.append("c")
    world.arrange()
    world.run(5.0)
    name = Name(TOPIC, world.nodes["a"].sender)
    assert away.received[name] == RangeSet([(0, 20)])
    assert not away.gaps


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_domain_that_moves_is_waited_for_where_it_comes_to(protocol: str) -> None:
    """The domain that it comes to had agreed on more before, and hears of it first; then the one
    that it leaves goes on without it. Together they must not say that it has what it lacks
    (monotonicity, 3.2.15)."""
    moving = Scope("top/x", protocol, list("ab"))
    left = Scope("top/left", protocol, ["e", moving])
    joined = Scope("top/joined", protocol, list("cd"))
    world = World(Scope("top", protocol, [joined, left]))
    world.publish("c", 5)
    world.run(2.0)
    assert stable_of(world, "c", "c") == 5
    for node in "ab":
        world.nodes[node].frozen_until = world.now + 3.0
    send_to(world, "c", 20, "d", "e")
    world.run(1.0)
    assert stable_of(world, "c", "c") == 5
    joined.members.append(moving)
    world.arrange()
    world.run(0.1)
    left.members.remove(moving)
    world.arrange()
    world.run(1.5)
    assert stable_of(world, "c", "c") == 5
    world.run(5.0)
    assert stable_of(world, "c", "c") == 25
    world.check_everybody_has_all()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_part_that_was_away_gets_what_began_meanwhile(protocol: str) -> None:
    """Its domain was passed over one level up, and none of its members knows of the stream."""
    world = World(two_levels(protocol, protocol))
    world.publish("b", 5)
    world.run(2.0)
    part = world.scopes["top"].members.pop()
    for away in "def":
        world.nodes[away].frozen_until = world.now + 3.0
    world.arrange()
    send_to(world, "a", 20, "b", "c")
    world.run(2.0)
    assert stable_of(world, "b", "a") == 20
    world.scopes["top"].members.append(part)
    world.arrange()
    world.run(5.0)
    name = Name(TOPIC, world.nodes["a"].sender)
    for away in "def":
        assert world.nodes[away].received[name] == RangeSet([(0, 20)])


def send_to(world: World, sender: str, count: int, *receivers: str) -> None:
    """Send messages that reach some nodes only."""
    packet = world.nodes[sender].publish(count, world.now)
    for receiver in receivers:
        world.nodes[receiver].take(packet, world.now)
    world.run(0.0)


@pytest.mark.parametrize("is_told_earlier", [False, True])
def test_who_is_new_is_not_given_what_somebody_else_has_missed(is_told_earlier: bool) -> None:
    """Also if the node that its messages come from says where those begin who were away."""
    world = World(Scope("top", "ring", list("abc")))
    world.publish("a", 10)
    world.run(2.0)
    world.leave("top", "c")
    world.publish("a", 10)
    world.run(2.0)
    name = Name(TOPIC, world.nodes["a"].sender)
    giver = world.nodes["b"].holdings.find(*name)
    assert giver is not None
    assert (giver.beginning(), giver.missed()) == (20, 10)
    world.join("top", "late")
    late = world.nodes["late"]
    if is_told_earlier:
        world.run(0.2)
        late.holdings.begin(*name, giver.missed())
    packet = world.nodes["a"].publish(5, world.now)
    late.take(packet, world.now)
    settle(world)
    stream = late.holdings.find(*name)
    assert stream is not None
    assert (stream.kept, stream.low) == (20, 25)
    assert not late.gaps


def test_after_a_while_nobody_is_expected_back() -> None:
    """Then whoever comes is new, and begins after what is stable."""
    world = World(Scope("top", "ring", list("abc")))
    world.publish("a", 10)
    world.run(2.0)
    world.leave("top", "c")
    world.publish("a", 10)
    world.run(RETURN_S + 3.0)
    world.join("top", "late")
    world.publish("a", 5, reach=0.0)
    settle(world)
    name = Name(TOPIC, world.nodes["a"].sender)
    assert world.nodes["late"].received[name] == RangeSet([(20, 25)])


def test_who_catches_up_holds_up_nobody_until_it_has() -> None:
    """A light member: what it lacks was stable before it came back."""
    world = World(
        Scope("top", "star", list("abc")), config=Config(answer_bytes=2000, answer_bytes_s=20e3)
    )
    world.run(0.2)
    world.nodes["d"] = late = type(world.nodes["a"])("d", world)
    world.nodes["a"].publish(1, world.now)
    packet = world.nodes["a"].holdings.copies(
        TOPIC, world.nodes["a"].sender, RangeSet([(0, 1)]), 1000
    )[0]
    late.take(packet, world.now)  # so its stream begins at 0
    for _ in range(50):
        world.publish("a", 10, reach=1.0)
    late.holdings.forget_topic(TOPIC)
    late.take(packet, world.now)
    late.received.clear()
    world.run(2.0)
    assert stable_of(world, "a", "a") == 501
    world.join("top", "d")
    late.is_late = False
    world.run(0.4)
    name = Name(TOPIC, world.nodes["a"].sender)
    assert late.low(name) < 501, "it still catches up"
    assert not late.agents.state.is_counted(name)
    world.publish("b", 10, reach=1.0)
    world.publish("a", 10, reach=1.0)
    world.run(0.5)
    assert late.low(name) < 501
    assert stable_of(world, "b", "a") == 511, "and nobody waits for it"
    world.run(20.0)
    assert late.low(name) == 511
    assert late.agents.state.is_counted(name)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_silent_member_is_waited_for_until_its_manager_gives_it_up(protocol: str) -> None:
    world = World(Scope("top", protocol, list("abcd")))
    world.publish("a", 10)
    world.run(2.0)
    assert stable_of(world, "a", "a") == 10
    world.crash("c", detect_s=2.0)
    world.publish("a", 10)
    world.run(1.9)
    assert stable_of(world, "a", "a") == 10
    settle(world)
    assert stable_of(world, "b", "a") == 20


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_host_of_all_agents_crashes(protocol: str) -> None:
    """Its agents are posted elsewhere with nothing in them, and the result stays right."""
    world = World(two_levels(protocol, protocol), loss=0.05)
    world.publish("b", 10, reach=0.3)
    world.run(1.0)
    host = world.way(world.root)[-1]
    assert host == "a"
    world.publish("e", 10, reach=0.3)
    world.crash(host)
    world.publish("b", 10, reach=0.0)
    settle(world, 6.0)
    assert stable_of(world, "c", "b") == 20
    top = DomainId("top", 1)
    assert AgentKey(top, "top/x") in world.nodes["b"].agents.hosted


def test_who_only_sends_has_its_say_and_is_sent_nothing() -> None:
    world = World(Scope("top", "ring", list("abc")))
    world.nodes["a"].is_subscribed = False
    world.publish("a", 10, reach=0.0)
    world.publish("b", 10, reach=0.0)
    world.run(3.0)
    sent = Name(TOPIC, world.nodes["a"].sender)
    other = Name(TOPIC, world.nodes["b"].sender)
    assert world.nodes["c"].low(sent) == world.nodes["b"].low(sent) == 10
    assert world.nodes["c"].low(other) == 10
    assert other not in world.nodes["a"].received
    assert stable_of(world, "a", "a") == 10
    assert stable_of(world, "c", "b") == 10


def test_what_nobody_wants_is_stable_at_once() -> None:
    """Else senders to a topic without receivers would wait for ever."""
    world = World(Scope("top", "ring", list("ab")))
    for node in world.nodes.values():
        node.is_subscribed = False
    world.publish("a", 10, reach=0.0)
    world.run(2.0)
    assert stable_of(world, "a", "a") == 10


@pytest.mark.parametrize("upper", PROTOCOLS)
def test_what_went_with_its_sender_is_told_as_a_gap(upper: str) -> None:
    """Only when a complete round of all nodes shows that none has it."""
    world = World(two_levels(upper))
    world.publish("a", 5, reach=1.0)
    world.run(1.0)
    sender = world.nodes["f"]
    first = sender.publish(3, world.now)
    for name in "ad":
        world.nodes[name].take(first, world.now)
    sender.publish(4, world.now)
    later = sender.publish(2, world.now)
    world.nodes["b"].take(later, world.now)
    sender.is_down = True
    world.arrange()
    world.run(LOST_S + 5.0)
    name = Name(TOPIC, sender.sender)
    for node in world.members():
        assert node.gaps[name] == RangeSet([(3, 7)])
        assert node.received[name] == RangeSet([(0, 3), (7, 9)])
        assert stable_of(world, node.name, "f") == 9


def test_what_a_silent_node_may_have_is_not_given_up() -> None:
    """It is asked for as long as its manager counts the node."""
    world = World(Scope("top", "ring", list("abc")))
    sender = world.nodes["c"]
    sender.publish(4, world.now)
    later = sender.publish(2, world.now)
    world.nodes["b"].take(later, world.now)
    sender.frozen_until = world.now + 3.0
    world.run(2.9)
    assert not any(node.gaps for node in world.nodes.values())
    settle(world)
    assert not any(node.gaps for node in world.nodes.values())


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["ring", "star"])
def test_more_streams_than_fit_take_turns(protocol: str) -> None:
    """Every one of them becomes stable, and no message grows with their number."""
    topics = [f"top/{n}" for n in range(3 * RECORDS_MAX)]
    world = World(Scope("top", protocol, list("abc")), topics=topics)
    for topic in topics:
        world.publish("a", 2, reach=0.5, topic=topic)
    world.run(15.0)
    world.check_everybody_has_all()
    world.check_all_is_stable()
    assert world.longest < 64 << 10


def test_a_round_is_as_long_as_there_are_active_streams() -> None:
    """Whatever the number of nodes, and of streams that are quiet."""
    longest = []
    for members, streams in ((4, 1), (40, 1), (4, 8)):
        names = [f"n{n}" for n in range(members)]
        world = World(Scope("top", "star", names))  # type: ignore[arg-type]
        world.rounds_class._certified = lambda self, record, own: record  # type: ignore[assignment,method-assign]
        world.rounds_class._sealed = lambda self, record, now: None  # type: ignore[assignment,method-assign]
        world.rounds_class._handle_stable = lambda *_: None  # type: ignore[assignment,method-assign]
        for name in names[:4]:
            world.publish(name, 5, reach=1.0)
        world.run(3.0)
        world.longest = 0
        for n in range(streams):
            world.publish(names[n % 4], 5, reach=1.0)
            world.run(0.0)
        if streams > 4:
            for name in names[:4]:
                world.nodes[name].publish(1, world.now, TOPIC)
        world.run(1.0)
        longest.append(world.longest)
    assert longest[1] < 1.2 * longest[0]
    assert longest[0] < longest[2]


def test_one_region_of_two_topics_speaks_in_the_domain_of_each() -> None:
    """Figure 3.31: the stack of a node forks."""
    world = make_forked()
    world.publish("b", 5, reach=0.0, topic="top/x")
    world.publish("b", 5, reach=0.0, topic="top/y")
    world.publish("a", 5, reach=0.0, topic="top/x")
    world.run(4.0)
    received = {
        node.name: sorted(
            (name.topic, name.sender.node, list(ranges)) for name, ranges in node.received.items()
        )
        for node in world.nodes.values()
    }
    both = [
        ("top/x", "a", [(0, 5)]),
        ("top/x", "b", [(0, 5)]),
        ("top/y", "b", [(0, 5)]),
    ]
    assert received == {"a": both[:2], "b": both, "c": both, "d": both[2:]}
    for node in world.nodes.values():
        for stream in node.holdings.streams.values():
            assert stream.stable == 5


def test_who_only_sent_when_a_member_was_passed_over_was_not_away() -> None:
    """It wanted nothing then: when it joins, it begins at what is stable, as others who join."""
    state = NodeState(Holdings(1 << 20), lambda _: True)
    name = Name("top/x", Sender("top", "s", 1))
    state.note_joined(name.topic, 1.0)
    state.note_away(name, 3, 2.0 + RETURN_S)
    state.note_subscribed(name.topic, 4.0)
    state.learn(name, 10, 0)
    assert state.report(name, 0).need == 10
