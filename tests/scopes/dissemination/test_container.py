"""The container keeps channels as a policy wants them, and holds out bad policies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from quicksilver.scopes.dissemination.container import (
    EDGES_MAX,
    ORIGINS_APART_MAX,
    PolicyContainer,
)
from quicksilver.scopes.dissemination.filters import Modulo
from quicksilver.scopes.dissemination.policies.base import Edge, Policy
from quicksilver.scopes.dissemination.policies.meshes import Gossip, Mesh
from quicksilver.scopes.dissemination.policies.trees import Star, Stripes, Tree
from quicksilver.scopes.routing import EVERY


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


class TestManyOrigins:
    """A channel for each origin would be as many as origins times members."""

    def members(self, policy: Policy, count: int, publishers: int) -> PolicyContainer:
        container = PolicyContainer(policy)
        names = [f"m{number}" for number in range(count)]
        container.handle_members(names, ["client"])
        container.handle_origins(names[:publishers])
        return container

    @pytest.mark.parametrize("policy", [Tree(4), Tree(1), Mesh(4), Stripes(4), Gossip(3)])
    def test_channels_serve_every_origin(self, policy: Policy) -> None:
        container = self.members(policy, 300, 300)
        plan = container.plan()
        assert container.problems() == {}
        assert EVERY in plan
        assert {edge.source for edges in plan.values() for edge in edges} != {"m0"}
        assert sum(map(len, plan.values())) <= 300 * 64
        assert sum(edge.target == "client" for edge in plan[EVERY]) == 1

    def test_few_origins_have_channels_of_their_own(self) -> None:
        """As in Figures 3.15 to 3.18; and it is not changed back at once."""
        container = self.members(Tree(2), 20, ORIGINS_APART_MAX)
        assert EVERY not in container.plan()
        container.handle_origins([f"m{n}" for n in range(ORIGINS_APART_MAX + 1)])
        assert EVERY in container.plan()
        container.handle_origins([f"m{n}" for n in range(ORIGINS_APART_MAX)])
        assert EVERY in container.plan()
        container.handle_origins(["m0"])
        assert EVERY not in container.plan()

    def test_a_star_of_too_many_publishers_is_replaced_and_told(self) -> None:
        container = self.members(Star(), 300, 300)
        plan = container.plan()
        assert "65,536 channels" in container.problems()[EVERY]
        assert "a tree" in container.problems()[EVERY]
        assert sum(map(len, plan.values())) < 1_000

    def test_clients_alone_are_served_as_far_as_there_is_room(self) -> None:
        container = PolicyContainer(Tree(2))
        clients = [f"c{number}" for number in range(300)]
        container.handle_members([], clients)
        container.handle_origins(clients)
        plan = container.plan()
        assert sum(map(len, plan.values())) <= EDGES_MAX
        assert f"{len(plan)} origins are served" in container.problems()[EVERY]

    @pytest.mark.parametrize(
        ("shared", "says"),
        [
            ([Edge("m0", "m1")], "do not come to all"),
            ([Edge("m0", "stranger")], "one of them unknown"),
            (ValueError("oops"), "it raised ValueError"),
        ],
    )
    def test_bad_channels_for_every_origin_are_named(
        self, shared: list[Edge] | Exception, says: str
    ) -> None:
        class BadShared(Tree):
            def shared_edges(self, members: tuple[str, ...]) -> Iterator[Edge]:
                if isinstance(shared, Exception):
                    raise shared
                return iter(shared)

        container = self.members(BadShared(2), 12, 12)
        plan = container.plan()
        assert says in container.problems()[EVERY]
        assert len(plan[EVERY]) == 2 * 11 + 1, "a tree in both directions, and the client"
