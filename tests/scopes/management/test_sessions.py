"""Sessions are installed down the tree, flushed, and retired when everybody is done."""

from __future__ import annotations

import pytest

from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.events import (
    Event,
    SessionFlushing,
    SessionInstalled,
    SessionRetired,
)
from quicksilver.scopes.management.messages import Flavour, Session
from quicksilver.scopes.management.sessions import find_sessions_problem
from tests.scopes.management.test_manager import T, want
from tests.scopes.management.test_posts import campus
from tests.scopes.network import Network
from tests.scopes.peers import Alone

SEALED = Flavour(key="exam")


def lecture() -> Network:
    network = campus("none")
    for laptop in "ABCDEF":
        want(network, laptop, "ps")
    network.run(1.0)
    for node in network.nodes.values():
        # Each test says itself when a node has delivered all of a session.
        node.sessions._is_complete = lambda *_: False  # type: ignore[method-assign]
    return network


def of_sessions(network: Network, node: str) -> list[Event]:
    kinds = SessionInstalled, SessionFlushing, SessionRetired
    return [event for event in network.events[node] if isinstance(event, kinds)]


def number(network: Network) -> int:
    (topic,) = network.managers["X"].topics()
    return topic.sessions.sessions[0].number


def test_everybody_is_in_the_first_session() -> None:
    network = lecture()
    first = number(network)
    for laptop in "ABCDEF":
        assert of_sessions(network, laptop) == [SessionInstalled(T, first, Flavour())]


def test_a_change_is_installed_flushed_and_retired() -> None:
    """3.2.7: a publisher uses the newest; subscribers are told that the old one is flushed;
    "eventually, subscribers report that they have completed flushing and a global decision is
    made to cease any activity"."""
    network = lecture()
    old = number(network)
    assert network.managers["X"].change_session(T, SEALED, network.now) is None
    network.run(1.0)
    (_, new) = network.managers["X"].topics()[0].sessions.sessions
    for laptop in "ABCDEF":
        assert of_sessions(network, laptop)[1:] == [
            SessionInstalled(T, new.number, SEALED),
            SessionFlushing(T, old),
        ]
    for laptop in "ABCDE":
        network.managers[laptop].handle_flushed(T, old, network.now)
    network.run(1.0)
    assert SessionRetired(T, old) not in of_sessions(network, "A"), "F is not done with it"
    network.managers["F"].handle_flushed(T, old, network.now)
    network.run(1.0)
    for laptop in "ABCDEF":
        assert of_sessions(network, laptop)[-1] == SessionRetired(T, old)
    assert network.managers["X"].topics()[0].sessions.sessions == (new,)


def test_nothing_is_flushed_before_everybody_has_installed_the_new_one() -> None:
    """Else somebody would still send in a session that others are done with."""
    lan = Alone("lan")
    for conn, name in ((1, "a"), (2, "b")):
        lan.join(conn, name)
        lan.tell(conn, say.Subscribe("lan/t", 0, publishes=True, subscribes=True))
        lan.tell(conn, say.Confirm("lan/t", 1, 0))
    lan.manager.change_session("lan/t", SEALED, lan.now)
    lan.run(0.02)

    def told() -> tuple[Session, ...]:
        return [m for m in lan.heard(1) if isinstance(m, say.Orders)][-1].sessions

    old, new = told()
    lan.tell(1, say.Confirm("lan/t", new.number, old.number - 1))
    assert told() == (old, new)
    lan.tell(2, say.Confirm("lan/t", new.number, old.number - 1))
    assert told() == (Session(old.number, old.flavour, is_flushing=True), new)
    lan.tell(1, say.Confirm("lan/t", new.number, old.number))
    assert len(told()) == 2
    lan.tell(2, say.Confirm("lan/t", new.number, old.number))
    assert told() == (new,)


def test_acknowledgements_are_put_together_one_level_at_a_time() -> None:
    """X hears once from each department, however many laptops it has."""
    network = lecture()
    before = network.said["P", "X"]
    network.managers["X"].change_session(T, SEALED, network.now)
    network.run(1.0)
    assert network.said["P", "X"] == before + 1
    old = number(network)
    for laptop in "ABC":
        network.managers[laptop].handle_flushed(T, old, network.now)
        network.run(0.1)
    assert network.said["P", "X"] == before + 2


def test_an_owner_that_starts_again_is_told_again_how_far_everybody_is() -> None:
    q = Alone("Q", "X")
    q.own("X", 1)
    q.join(2, "n1")
    q.tell(2, say.Subscribe("X/t", 0, publishes=True, subscribes=True))
    q.tell(1, say.Orders("X/t", (), (), sessions=(Session(4, SEALED),)))
    q.tell(2, say.Confirm("X/t", 4, 3))
    assert q.heard(1)[-1] == say.Confirm("X/t", 4, 3)
    q.manager.handle_closed(1, q.now)
    q.run(1.0, 2)
    q.own("X", 3)
    assert q.heard(3)[-1] == say.Confirm("X/t", 4, 3)


def test_who_joins_during_a_change_takes_part_in_the_old_session_too() -> None:
    """Publishers that have not heard of the new one still send in it."""
    network = lecture()
    old = number(network)
    network.managers["X"].change_session(T, SEALED, network.now)
    network.run(1.0)
    network.add("G", "R", is_node=True)
    want(network, "G", "s")
    (_, new) = network.managers["X"].topics()[0].sessions.sessions
    assert of_sessions(network, "G") == [
        SessionInstalled(T, old, Flavour()),
        SessionFlushing(T, old),
        SessionInstalled(T, new.number, SEALED),
    ]
    for laptop in "ABCDEF":
        network.managers[laptop].handle_flushed(T, old, network.now)
    network.run(5.0)
    assert network.managers["X"].topics()[0].sessions.sessions == (new,), "G is done as well"


def test_who_is_gone_is_not_waited_for() -> None:
    network = lecture()
    old = number(network)
    network.managers["X"].change_session(T, SEALED, network.now)
    network.run(1.0)
    for laptop in "ABCDE":
        network.managers[laptop].handle_flushed(T, old, network.now)
    network.kill("F")
    network.run(5.0)
    assert of_sessions(network, "A")[-1] == SessionRetired(T, old)


def test_a_change_during_a_change_waits_and_the_last_one_counts() -> None:
    network = lecture()
    first = number(network)
    x = network.managers["X"]
    for flavour in (SEALED, Flavour("none"), Flavour("repair", "fifo", "key1")):
        x.change_session(T, flavour, network.now)
        network.run(0.5)
    sessions = x.topics()[0].sessions.sessions
    assert [session.flavour for session in sessions] == [Flavour(), SEALED]
    for laptop in "ABCDEF":
        network.managers[laptop].handle_flushed(T, first, network.now)
    network.run(1.0)
    sessions = x.topics()[0].sessions.sessions
    assert [session.flavour for session in sessions] == [SEALED, Flavour("repair", "fifo", "key1")]


@pytest.mark.parametrize("victim", ["X", "P", "XPQR", "A"])
@pytest.mark.parametrize("when", ["installing", "flushing"])
def test_a_change_survives_restarts_on_the_way(victim: str, when: str) -> None:
    """The whole state is told each time, by whoever starts again too."""
    network = lecture()
    old = number(network)
    network.managers["X"].change_session(T, SEALED, network.now)
    if when == "flushing":
        network.run(1.0)
        for laptop in "BCDE":
            network.managers[laptop].handle_flushed(T, old, network.now)
    else:
        network.run(0.011)
    for name in victim:
        network.kill(name)
    for name in victim:
        owners = {"X": (), "A": ("P",)}.get(name, ("X",))
        network.add(name, *owners, is_node=name == "A", starts=2)
        if name == "A":
            network.events["A"].clear()
            want(network, "A", "ps")
    network.run(15.0)
    for laptop in "ABCDEF":
        network.managers[laptop].handle_flushed(T, old, network.now)
    network.run(5.0)
    (left,) = network.managers["X"].topics()[0].sessions.sessions
    assert (left.flavour, left.is_flushing) == (SEALED, False)
    for laptop in "BCDEF":
        assert of_sessions(network, laptop)[1:] == [
            SessionInstalled(T, left.number, SEALED),
            SessionFlushing(T, old),
            SessionRetired(T, old),
        ]


def test_a_topic_that_nobody_took_part_in_has_a_new_session() -> None:
    """3.2.10: when the first member rejoins "a new session is to be created"."""
    network = lecture()
    old = number(network)
    for laptop in "ABCDEF":
        want(network, laptop, "")
    network.run(1.0)
    want(network, "A", "ps")
    assert number(network) > old


def test_changes_that_make_no_sense_are_refused_in_one_line() -> None:
    network = lecture()
    x, p = network.managers["X"], network.managers["P"]
    for problem, says in (
        (x.change_session(T, Flavour("certainly"), network.now), "no reliability 'certainly'"),
        (x.change_session(T, Flavour(ordering="odd"), network.now), "no ordering 'odd'"),
        (x.change_session("X/none", SEALED, network.now), "nobody takes part"),
        (p.change_session(T, SEALED, network.now), "not rooted in 'P'"),
    ):
        assert problem is not None
        assert says in problem
        assert "\n" not in problem


def test_flushed_is_what_is_flushed() -> None:
    network = lecture()
    first = number(network)
    for wrong in (first, first + 1, -1):
        network.managers["A"].handle_flushed(T, wrong, network.now)
    network.managers["A"].handle_flushed("X/none", first, network.now)
    progress = network.managers["A"].topics()[0].sessions.progress["A"]
    assert progress == (first, first - 1)


@pytest.mark.parametrize(
    ("sessions", "says"),
    [
        ((Session(2, SEALED), Session(1, SEALED)), "one after the other"),
        ((Session(0, SEALED),), "one after the other"),
        ((Session(1, SEALED, is_flushing=True),), "newest"),
        ((Session(1, Flavour("odd")),), "no reliability"),
    ],
)
def test_sessions_that_no_root_tells_are_refused(sessions: tuple[Session, ...], says: str) -> None:
    problem = find_sessions_problem(sessions)
    assert problem is not None
    assert says in problem
    node = Alone("n1", "lan", is_node=True)
    node.own("lan", 1)
    node.manager.subscribe("lan/t", publishes=True, subscribes=True, now=node.now)
    node.run(0.02)
    node.tell(1, say.Orders("lan/t", (), (), sessions=sessions))
    assert node.manager.counters["orders_refused"] == 1
    assert not any(isinstance(event, SessionInstalled) for event in node.events)
