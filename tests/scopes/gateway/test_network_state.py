"""What gateways say of their network in recovery domains: what all of its nodes have."""

from __future__ import annotations

import pytest

from quicksilver.scopes.dissemination.holdings import Holdings, Name
from quicksilver.scopes.dissemination.packets import Packet, Sender
from quicksilver.scopes.gateway.network_state import NetworkState
from quicksilver.scopes.reliability.lower import NodeState
from quicksilver.stdx.ranges import RangeSet

T = "campus/news"
ALICE = Sender("campus/lan1", "alice", 17)
NAME = Name(T, ALICE)


class Gateway:
    """Holdings with ten messages, and how far the network is known to have them."""

    def __init__(self) -> None:
        self.confirmed: int | None = 4
        self.holdings = Holdings(1 << 20)
        lower = NetworkState(self.holdings, lambda *_: self.confirmed, self.is_counted)
        self.state = NodeState(lower, lambda _: True)
        self.take(0, 10)

    def is_counted(self, name: Name) -> bool:
        return self.state.is_counted(name)

    def take(self, first: int, stop: int) -> None:
        messages = (b"x",) * (stop - first)
        self.holdings.take(Packet.of(T, ALICE, first, 0, 0, (), {}, messages))


@pytest.fixture
def gateway() -> Gateway:
    return Gateway()


def test_a_gateway_is_counted_by_what_it_has_and_then_speaks_for_its_network(
    gateway: Gateway,
) -> None:
    """Else a network would never be counted in where messages never stop."""
    assert gateway.state.report(NAME, 8).low == 10
    assert gateway.state.report(NAME, 8).low == 4
    gateway.confirmed = 9
    assert gateway.state.report(NAME, 9).low == 9


def test_what_it_has_itself_it_can_give_and_does_not_ask_for(gateway: Gateway) -> None:
    gateway.state.report(NAME, 0)
    own = gateway.state.report(NAME, 0)
    assert (own.low, own.high, own.kept) == (4, 10, 0)
    assert own.some == RangeSet([(4, 10)])
    assert not gateway.state.lacking(NAME, RangeSet([(0, 10)]))
    assert len(gateway.state.lower.copies(T, ALICE, RangeSet([(5, 9)]), 1 << 20)) == 1


def test_a_gap_is_one_whatever_is_confirmed(gateway: Gateway) -> None:
    gateway.take(12, 14)
    gateway.state.report(NAME, 0)
    assert gateway.state.lacking(NAME, RangeSet([(0, 14)])) == RangeSet([(10, 12)])


def test_streams_that_nobody_here_wants_are_as_far_as_the_gateway(gateway: Gateway) -> None:
    gateway.state.report(NAME, 0)
    gateway.confirmed = None
    assert gateway.state.report(NAME, 0).low == 10
