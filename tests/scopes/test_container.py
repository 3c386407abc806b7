"""The container keeps channels as a policy wants them, and holds out bad policies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quicksilver.scopes.container import (
    EDGES_MAX,
    Change,
    Connect,
    Disconnect,
    PolicyContainer,
    PolicyFailed,
)
from quicksilver.scopes.filters import ALL, Modulo
from quicksilver.scopes.policies.base import Edge, Policy
from quicksilver.scopes.policies.trees import Star, Stripes, Tree


def take(container: PolicyContainer) -> list[Change]:
    changes = []
    while (change := container.poll_change()) is not None:
        changes.append(change)
    return changes


def filled(policy: Policy, *members: str, origin: str) -> PolicyContainer:
    container = PolicyContainer(policy)
    for member in members:
        container.handle_member_added(member)
    container.handle_origin_added(origin)
    return container


def test_without_a_source_there_are_no_channels() -> None:
    """Dissertation 3.2.5: "there is no need to forward anything" until a source is known."""
    container = PolicyContainer(Star())
    container.handle_member_added("C")
    container.handle_member_added("D")
    assert take(container) == []
    container.handle_origin_added("C")
    assert take(container) == [Connect("C", "D", "C", (ALL,))]


def test_new_channels_come_before_old_ones_go() -> None:
    container = filled(Tree(1), "P", "Q", "R", origin="P")
    take(container)
    container.handle_member_removed("Q")
    assert take(container) == [
        Connect("P", "R", "P", (ALL,)),
        Disconnect("P", "Q", "P"),
        Disconnect("Q", "R", "P"),
    ]


def test_of_a_member_that_is_gone_nothing_originates() -> None:
    container = filled(Star(), "P", "Q", origin="P")
    take(container)
    container.handle_member_removed("P")
    assert take(container) == [Disconnect("P", "Q", "P")]
    assert container.channels("P") == []


def test_a_member_that_leaves_moves_few_others() -> None:
    """Its place goes to the last one; the rest of the tree stays."""
    members = [f"m{i}" for i in range(100)]
    container = filled(Tree(3), *members, origin="m0")
    take(container)
    container.handle_member_removed("m5")
    assert len(take(container)) <= 2 * 5


def test_stripes_that_use_the_same_channel_are_one_channel() -> None:
    container = filled(Stripes(2), "P", "Q", origin="P")
    assert take(container) == [Connect("P", "Q", "P", (Modulo(2, 0), Modulo(2, 1)))]


def test_a_policy_can_be_changed() -> None:
    container = filled(Star(), "P", "Q", "R", origin="P")
    take(container)
    container.handle_policy(Tree(1))
    assert take(container) == [Connect("Q", "R", "P", (ALL,)), Disconnect("P", "R", "P")]


class Bad:
    """A policy that can be told what to want."""

    mechanism = None

    def __init__(self, *edges: Edge, endless: bool = False, error: Exception | None = None) -> None:
        self._edges = edges
        self._endless = endless
        self._error = error

    def edges(self, members: tuple[str, ...], origin: str) -> Iterator[Edge]:
        yield from self._edges
        while self._endless:
            yield Edge("P", "Q")
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (Bad(error=KeyError("x")), "it raised KeyError"),
        (Bad(endless=True), f"more than {EDGES_MAX:,} channels"),
        (Bad(Edge("P", "stranger")), "one of them unknown"),
        (Bad(Edge("P", "P")), "to itself"),
        (Bad(Edge("P", "Q")), "never come to 'R'"),
        (Bad(Edge("Q", "P"), Edge("Q", "R")), "never come to"),
        (Bad(Edge("P", "Q", Modulo(2, 0)), Edge("P", "R", Modulo(2, 1))), "never come to"),
        (Bad(Edge("P", "Q", Modulo(2, 0)), Edge("P", "R", Modulo(2, 0))), "1 modulo 2"),
    ],
)
def test_a_bad_policy_is_named_and_everybody_is_still_reached(policy: Policy, says: str) -> None:
    container = filled(policy, "P", "Q", "R", origin="P")
    changes = take(container)
    (failure,) = [change for change in changes if isinstance(change, PolicyFailed)]
    assert says in failure.problem
    assert container.channels("P") == [Edge("P", "Q"), Edge("P", "R")]


def test_what_a_policy_wanted_before_it_failed_stays() -> None:
    container = filled(Tree(1), "P", "Q", "R", origin="P")
    take(container)
    container.handle_policy(Bad(error=ValueError("now")))
    container.handle_member_added("S")
    assert container.channels("P") == [Edge("P", "Q"), Edge("P", "S"), Edge("Q", "R")]
