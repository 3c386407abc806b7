"""Owners: each topic is had from one of them, and none says more than it may."""

from __future__ import annotations

import pytest

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.management import arranging
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.config import Config
from quicksilver.scopes.management.events import (
    OrdersTooLarge,
    OwnerLost,
    Purpose,
    SourceClosed,
    SourceOpened,
    TargetClosed,
    TargetOpened,
    TopicFailed,
    TopicLeft,
)
from quicksilver.scopes.routing import Channel
from tests.scopes.peers import Alone, source

T = "R/t"
BY_A = Channel("A", ("x",), ("n1",), T, "x")
BY_B = Channel("B", ("y",), ("n1",), T, "y")


def node(*owners: str) -> Alone:
    alone = Alone("n1", *owners, is_node=True, config=Config(silent_s=1e9))
    alone.manager.subscribe(T, publishes=True, subscribes=True, now=0.0)
    return alone


def subscribed(alone: Alone, conn: int) -> list[bool]:
    return [m.subscribes for m in alone.heard(conn) if isinstance(m, say.Subscribe)]


class TestSeveralOwners:
    def test_a_topic_is_asked_for_at_one_that_stays(self) -> None:
        n1 = node("A", "B")
        n1.own("B", 2, "R")
        n1.own("A", 1, "R")
        assert (subscribed(n1, 1), subscribed(n1, 2)) == ([], [True])

    def test_only_the_one_that_was_asked_gives_orders(self) -> None:
        n1 = node("A", "B")
        n1.own("A", 1, "R")
        n1.own("B", 2, "R")
        n1.tell(1, say.Orders(T, (), (say.Target(BY_A),)))
        n1.tell(2, say.Orders(T, (), (say.Target(BY_B),)))
        n1.tell(2, say.TopicRefused(T, "no"))
        assert [event for event in n1.events if isinstance(event, TargetOpened)] == [
            TargetOpened(BY_A)
        ]
        assert n1.manager.counters["orders_refused"] == 1
        assert len(n1.manager.topics()) == 1

    def test_one_that_leads_there_no_more_is_left_for_another(self) -> None:
        n1 = node("A", "B")
        n1.own("A", 1, "R")
        n1.own("B", 2, "R")
        n1.tell(1, say.Above(()))
        assert (subscribed(n1, 1), subscribed(n1, 2)) == ([True, False], [True])

    def test_when_one_is_lost_another_is_asked(self) -> None:
        n1 = node("A", "B")
        n1.own("A", 1, "R")
        n1.own("B", 2, "R")
        n1.tell(1, say.Orders(T, (), (say.Target(BY_A),)))
        n1.manager.handle_closed(1, n1.now)
        n1.run(0.02)
        assert subscribed(n1, 2) == [True]
        assert TargetClosed(BY_A) not in n1.events, "what was arranged stays until then"
        n1.tell(2, say.Orders(T, (), (say.Target(BY_B),)))
        assert n1.events[-2:] == [TargetClosed(BY_A), TargetOpened(BY_B)]
        n1.own("A", 3, "R")
        assert subscribed(n1, 3) == []

    def test_what_an_owner_arranged_ends_when_it_leads_there_no_more(self) -> None:
        n1 = node("A")
        n1.own("A", 1, "R")
        n1.tell(1, say.Orders(T, (), (say.Target(BY_A),)))
        n1.tell(1, say.Above(()))
        assert n1.events[-1] == TargetClosed(BY_A)


class TestUnknownOwners:
    def test_no_topic_is_refused_while_there_may_be_more_above(self) -> None:
        """An owner that has just started, and whose own owner is out of reach, knows of none."""
        n1 = Alone("n1", "A", is_node=True)
        n1.dialled("A", Purpose.OWNER, 1)
        n1.tell(1, say.Registered("A", (), is_all=False))
        n1.manager.subscribe(T, publishes=False, subscribes=True, now=n1.now)
        n1.run(0.02)
        assert not any(isinstance(event, TopicFailed) for event in n1.events)
        n1.tell(1, say.Above(("R",)))
        assert subscribed(n1, 1) == [True]

    def test_members_are_told_whether_all_above_are_known(self) -> None:
        scope = Alone("S", "A")
        scope.join(7, "n1")
        assert (7, say.Registered("S", (), is_all=False)) in scope.said
        scope.own("A", 1)
        assert (7, say.Above(("A",), is_all=True)) in scope.said


class TestWhatOwnersSay:
    def test_a_topic_that_is_refused_leaves_no_channel_open(self) -> None:
        n1 = node("R")
        n1.own("R", 1)
        there = Channel("R", ("n1",), ("n2",), T, "n1")
        here = Channel("R", ("n2",), ("n1",), T, "n2")
        n1.tell(1, say.Orders(T, (source(there),), (say.Target(here),)))
        n1.dialled("n2", Purpose.CHANNEL, 5)
        n1.tell(5, say.OfferChannel(there, Link("tcp", "n2", "n2")))
        assert isinstance(n1.events[-1], SourceOpened)
        n1.tell(1, say.TopicRefused(T, "no"))
        assert n1.events[-4:] == [
            TopicFailed(T, "no"),
            SourceClosed(there),
            TargetClosed(here),
            TopicLeft(T),
        ]

    def test_orders_are_for_their_topic_only(self) -> None:
        n1 = node("R")
        n1.own("R", 1)
        n1.clear()
        other = Channel("R", ("n1",), ("n2",), "R/other", "n1")
        n1.tell(1, say.Orders(T, (source(other),), ()))
        assert n1.manager.counters["orders_refused"] == 1
        assert n1.dials == []

    @pytest.mark.parametrize(("name", "above"), [("a b", ()), ("R", ("a:b",)), ("", ())])
    def test_names_that_are_none_are_refused(self, name: str, above: tuple[str, ...]) -> None:
        n1 = node("R")
        n1.dialled("R", Purpose.OWNER, 1)
        n1.tell(1, say.Registered(name, above))
        (lost,) = [event for event in n1.events if isinstance(event, OwnerLost)]
        assert "name" in lost.reason
        assert n1.closed == [1]
        assert n1.manager.above() == ()

    def test_long_names_and_long_lists_are_not_understood(self) -> None:
        for message in (
            say.Registered("R", ("x" * 201,)),
            say.Above(("x",) * 65),
            say.Orders(T, (), (say.Target(Channel("R", ("n2",), (), T, "n2")),)),
            say.Orders(T, (source(Channel("R", (), ("n2",), T, "n2")),), ()),
            say.RequestChannel(Channel("R", ("n1",), ("n",) * 17, T, "n2")),
            say.Refused("x" * 1_001),
        ):
            assert say.parse(say.encode(message)) is None


class TestLongOrders:
    def test_orders_that_fit_no_frame_come_in_parts(self) -> None:
        names = [f"campus/{'x' * 100}{number}" for number in range(6_000)]
        targets = tuple(say.Target(Channel("R", (name,), ("n1",), T, name)) for name in names)
        whole = say.Orders(T, (), targets)
        assert say.parse(say.encode(whole)) is None
        parts = say.split_orders(whole)
        assert None not in [say.parse(say.encode(part)) for part in parts]
        n1 = node("R")
        n1.own("R", 1)
        for part in parts[:-1]:
            n1.tell(1, part)
        assert not any(isinstance(event, TargetOpened) for event in n1.events)
        n1.tell(1, parts[-1])
        opened = [
            say.Target(event.channel) for event in n1.events if isinstance(event, TargetOpened)
        ]
        assert tuple(opened) == targets

    def test_the_end_of_orders_alone_is_dropped(self) -> None:
        n1 = node("R")
        n1.own("R", 1)
        here = Channel("R", ("n2",), ("n1",), T, "n2")
        n1.tell(1, say.Orders(T, (), (say.Target(here),), is_first=False))
        assert not any(isinstance(event, TargetOpened) for event in n1.events)

    def test_orders_beyond_all_bounds_are_told_of(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(arranging, "ENDS_MAX", 2)
        lan = Alone("lan")
        lan.join(0, "sub")
        lan.tell(0, say.Subscribe("lan/t", 1, publishes=False, subscribes=True))
        for conn in (1, 2, 3):
            lan.join(conn, f"n{conn}")
            lan.tell(conn, say.Subscribe("lan/t", 1, publishes=True, subscribes=False))
        assert OrdersTooLarge("lan/t", "sub", 3) in lan.events
        last = [message for message in lan.heard(0) if isinstance(message, say.Orders)][-1]
        assert len(last.targets) == 2
