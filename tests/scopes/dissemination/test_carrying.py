"""Asking where the messages of a channel go: once, again, and never for ever."""

from __future__ import annotations

from quicksilver.scopes.dissemination.channels import Link
from quicksilver.scopes.dissemination.filters import ALL, Modulo
from quicksilver.scopes.management import messages as say
from quicksilver.scopes.management.events import Dial, Purpose, SourceOpened
from quicksilver.scopes.names import PARTS_MAX
from quicksilver.scopes.routing import Channel
from tests.scopes.peers import Alone, source

T = "lan/t"
THERE = Channel("lan", ("n1",), ("n2",), T, "n1")


def node(*others: str) -> Alone:
    """A node that is to work a channel to n2."""
    n1 = Alone("n1", "lan", *others, is_node=True)
    n1.own("lan", 1)
    n1.manager.subscribe(T, publishes=True, subscribes=True, now=n1.now)
    n1.run(0.02)
    n1.clear()
    n1.tell(1, say.Orders(T, (source(THERE),), ()))
    return n1


def requests(n1: Alone) -> list[Channel]:
    return [message.channel for _, message in n1.said if isinstance(message, say.RequestChannel)]


def test_a_connection_is_ended_when_nothing_more_is_asked_on_it() -> None:
    n1 = node()
    n1.dialled("n2", Purpose.CHANNEL, 5)
    n1.tell(5, say.OfferChannel(THERE, Link("tcp", "n2", "n2")))
    assert isinstance(n1.events[-1], SourceOpened)
    assert n1.closed == [5]


def test_connections_to_one_address_are_for_one_purpose_each() -> None:
    """The owner that is tried again and the manager that is asked may be the same."""
    n1 = node("n2")
    assert n1.dials == [Dial("n2", Purpose.CHANNEL)]
    n1.dialled("n2", Purpose.CHANNEL, 5)
    assert requests(n1) == [THERE]
    assert not any(isinstance(message, say.Register) for message in n1.heard(5))
    n1.dialled("n2", Purpose.OWNER, 6)
    assert isinstance(n1.heard(6)[0], say.Register)


def test_who_does_not_answer_is_asked_again() -> None:
    n1 = node()
    n1.dialled("n2", Purpose.CHANNEL, 5)
    n1.run(4.0, 1)
    assert n1.closed == [5]
    assert n1.dials[1:] == [Dial("n2", Purpose.CHANNEL)]
    n1.dialled("n2", Purpose.CHANNEL, 6)
    assert requests(n1) == [THERE, THERE]


def test_a_wrong_answer_is_none() -> None:
    n1 = node()
    n1.dialled("n2", Purpose.CHANNEL, 5)
    far = Channel("lan", ("n1",), ("n2", "a", "b"), T, "n1")
    n1.tell(5, say.OfferChannel(far, say.Referral("q")))
    assert n1.manager.counters["unexpected"] == 1
    n1.run(4.0, 1)
    assert len(n1.dials) == 2, "it is asked again all the same"


def test_a_connection_that_comes_too_late_is_ended() -> None:
    n1 = node()
    n1.tell(1, say.Orders(T, (), ()))
    n1.dialled("n2", Purpose.CHANNEL, 5)
    assert n1.closed == [5]
    assert requests(n1) == []


def test_orders_that_change_while_a_connection_is_made_cost_one_request() -> None:
    n1 = node()
    for number in range(50):
        rule = ALL if number % 2 else Modulo(2, 1)
        n1.tell(1, say.Orders(T, (say.Source(THERE, (rule,), "n2"),), ()))
    n1.dialled("n2", Purpose.CHANNEL, 5)
    assert requests(n1) == [THERE]


def test_referrals_end() -> None:
    n1 = node()
    n1.dialled("n2", Purpose.CHANNEL, 100)
    target: tuple[str, ...] = ("n2",)
    for step in range(2 * PARTS_MAX):
        target = (*target, "x")
        offer = say.OfferChannel(Channel("lan", ("n1",), target, T, "n1"), say.Referral(f"q{step}"))
        n1.manager.handle_message(100 + step, offer, n1.now)
        n1.dialled(f"q{step}", Purpose.CHANNEL, 101 + step)
    assert len(requests(n1)) == PARTS_MAX
    assert len(n1.manager._locator._asking) == 1
