"""The container keeps channels as a policy wants them, and holds out bad policies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quicksilver.scopes.dissemination.container import EDGES_MAX, PolicyContainer
from quicksilver.scopes.dissemination.filters import Modulo
from quicksilver.scopes.dissemination.policies.base import Edge, Policy
from quicksilver.scopes.dissemination.policies.trees import Star, Stripes, Tree


def filled(policy: Policy, *members: str, origin: str) -> PolicyContainer:
    container = PolicyContainer(policy)
    container.handle_members(members, ())
    container.handle_origins([origin])
    return container


def test_without_a_source_there_are_no_channels() -> None:
    """Dissertation 3.2.5: "there is no need to forward anything" until a source is known."""
    container = PolicyContainer(Star())
    container.handle_members(["C", "D"], ())
    assert container.plan() == {}
    container.handle_origins(["C"])
    assert container.plan() == {"C": [Edge("C", "D")]}


@pytest.mark.parametrize("policy", [Star(), Tree(1), Tree(2), Stripes(2)])
def test_who_only_publishes_gets_nothing(policy: Policy) -> None:
    """It is an origin, and no member."""
    container = filled(policy, "Q", "R", origin="P")
    container.handle_origins(["P", "Q"])
    plan = container.plan()
    assert {edge.target for edge in plan["P"]} == {"Q", "R"}
    assert {edge.target for edge in plan["Q"]} == {"R"}


def test_a_member_that_leaves_moves_few_others() -> None:
    """Its place goes to the last one; the rest of the tree stays."""
    members = [f"m{i}" for i in range(100)]
    container = filled(Tree(3), *members, origin="m0")
    before = set(container.plan()["m0"])
    container.handle_members([member for member in members if member != "m5"], ())
    assert len(before ^ set(container.plan()["m0"])) <= 2 * 5


def test_a_policy_can_be_changed() -> None:
    container = filled(Star(), "P", "Q", "R", origin="P")
    container.plan()
    container.policy = Tree(1)
    assert container.plan() == {"P": [Edge("P", "Q"), Edge("Q", "R")]}


def test_clients_get_messages_and_pass_none_on() -> None:
    """Dissertation 3.2.2: "the host cannot rely on the client to perform any tasks"."""
    container = PolicyContainer(Tree(1))
    container.handle_members(["P", "Q", "R"], ["x", "y", "z"])
    container.handle_origins(["P", "x"])
    plan = container.plan()
    assert {edge.target for edge in plan["P"]} == {"Q", "R", "x", "y", "z"}
    assert {edge.source for edge in plan["P"]} <= {"P", "Q", "R"}
    assert {edge.target for edge in plan["x"]} == {"P", "Q", "R", "y", "z"}
    assert {edge.source for edge in plan["x"] if edge.source != "x"} <= {"P", "Q", "R"}


def test_clients_alone_get_messages_from_the_origin() -> None:
    container = PolicyContainer(Tree(2))
    container.handle_members([], ["x", "y"])
    container.handle_origins(["x"])
    assert container.plan() == {"x": [Edge("x", "y")]}


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
    assert container.plan() == {"P": [Edge("P", "Q"), Edge("P", "R")]}
    assert says in container.problems()["P"]


def test_what_a_policy_wanted_before_it_failed_stays() -> None:
    container = filled(Tree(1), "P", "Q", "R", origin="P")
    container.plan()
    container.policy = Bad(error=ValueError("now"))
    container.handle_members(["P", "Q", "R", "S"], ())
    assert container.plan() == {"P": [Edge("P", "Q"), Edge("Q", "R"), Edge("P", "S")]}
    container.handle_members(["P", "R", "S"], ())
    assert {edge.target for edge in container.plan()["P"]} == {"R", "S"}
