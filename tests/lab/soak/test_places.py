"""When a soak is over, everybody must reach everybody: what is lacking is told."""

from __future__ import annotations

from typing import cast

import pytest

from quicksilver.lab.local_gms import Relay
from quicksilver.lab.soak.places import Place, make_groups
from quicksilver.lab.soak.records import Round, group_name

BOTH, ONE = group_name(1), group_name(2)


def make_place(number: int, groups: list[int], node: int) -> Place:
    relay = cast("Relay", None)
    return Place(number=number, groups=make_groups(groups), relay=relay, life=0, node=node)


def last_words(problem: str = "", **members: list[int]) -> Round:
    return Round(
        epoch=0, at=0.0, ended_at=1.0, problem=problem, runs={}, members=members, is_last=True
    )


@pytest.fixture
def places() -> list[Place]:
    return [make_place(0, [1, 2], 10), make_place(1, [1], 11)]


def test_who_reaches_all_its_peers_has_no_problem(places: list[Place]) -> None:
    """Groups that the other is not in do not count."""
    places[0].last = last_words(**{BOTH: [11], ONE: []})
    assert places[0].problem(places) == ""


def test_a_peer_that_is_not_in_the_view_is_a_problem(places: list[Place]) -> None:
    """Its former incarnation may be: that one gets nothing any more."""
    places[0].last = last_words(**{BOTH: [9], ONE: []})
    assert "worker 1.0 (node 11) is not in its view of soak-0001" in places[0].problem(places)


def test_a_flush_that_failed_or_did_not_end_is_a_problem(places: list[Place]) -> None:
    assert "has not said how its last flush ended" in places[0].problem(places)
    places[0].last = last_words("ExcludedError: counted out", **{BOTH: [11]})
    assert "ExcludedError" in places[0].problem(places)


def test_who_is_asked_again_and_again_is_told_with_the_reason(places: list[Place]) -> None:
    """Most of the time it has just been asked: that alone would not say what is wrong."""
    places[0].last = last_words(**{BOTH: [9], ONE: []})
    places[0].conclude(places[0].problem(places))
    problem = places[0].problem(places)
    assert "has not said" in problem
    assert "worker 1.0 (node 11) is not in its view of soak-0001" in problem
