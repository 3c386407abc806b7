"""Joins alone: what was asked for and what the views say, in whichever order they come."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from quicksilver.membership.directory import GroupView
from quicksilver.multicast.events import GroupUnmatched
from quicksilver.multicast.joins import Joins
from quicksilver.multicast.routes import Receivers
from quicksilver.wire.ids import GroupId, NodeId, RegionId, ViewNumber
from quicksilver.wire.packets import Messages

VIEW = GroupView(
    GroupId(7), "a.b", ViewNumber(3), (NodeId(1), NodeId(2)), ((RegionId(1), ViewNumber(1)),), ""
)


def ignore(_: Messages) -> None:
    pass


RECEIVERS: Receivers = (ignore, None)


@pytest.fixture
def joins() -> Joins:
    return Joins()


def take(
    joins: Joins, view: GroupView, *, batch: int = 5, is_member: bool = True, lost_batch: int = -1
) -> list[Any]:
    changes, is_missing = joins.handle_view(view, batch, is_member=is_member, lost_batch=lost_batch)
    assert not is_missing
    return changes


def test_a_group_has_a_route_while_it_is_wanted_and_its_view_has_the_node(joins: Joins) -> None:
    assert take(joins, VIEW) == []
    assert not joins.routes, "nobody asked for it"
    joins.join("a.b", RECEIVERS, echo=False)
    (change,) = take(joins, VIEW)
    assert change.is_member
    assert joins.routes.keys() == joins.routed == {7}
    assert take(joins, replace(VIEW, view=ViewNumber(4)), is_member=False) == []
    assert not joins.routes
    assert not joins.routed
    assert joins.is_used("a.b"), "the application did not leave it"


def test_the_batch_of_a_member_is_that_of_the_first_view_that_had_it(joins: Joins) -> None:
    joins.join("a.b", RECEIVERS, echo=False)
    take(joins, VIEW, batch=5)
    take(joins, replace(VIEW, view=ViewNumber(4)), batch=6)
    assert joins.routes[7].since == 5
    assert joins.newest_batch == 5


@pytest.mark.parametrize(("lost_batch", "is_lost"), [(4, False), (5, True)])
def test_a_group_with_messages_lost_before_its_join_gets_no_route(
    joins: Joins, lost_batch: int, is_lost: bool
) -> None:
    joins.join("a.b", RECEIVERS, echo=False)
    _, is_missing = joins.handle_view(VIEW, 5, is_member=True, lost_batch=lost_batch)
    assert is_missing is is_lost
    assert bool(joins.routes) is not is_lost


def test_who_joined_and_opened_a_group_is_told_each_view_once_for_each(joins: Joins) -> None:
    joins.join("a.b", RECEIVERS, echo=False)
    joins.open("a.b")
    assert [change.is_member for change in take(joins, VIEW)] == [True, False]
    assert take(joins, VIEW) == []
    joins.open("a.b")
    assert [change.is_member for change in take(joins, VIEW)] == [False]


def test_views_of_a_group_that_is_being_left_bring_no_route(joins: Joins) -> None:
    """They may be of the old membership, until the request to leave is answered."""
    joins.note_request(1, leave=("a.b",), match={}, unmatch=())
    joins.join("a.b", RECEIVERS, echo=False)
    assert take(joins, VIEW) == []
    assert not joins.routes
    assert not joins.handle_answer(1), "it was for no pattern"
    assert len(take(joins, VIEW)) == 1
    assert joins.routes


def test_a_pattern_takes_groups_in_and_gives_them_up(joins: Joins) -> None:
    joins.note_request(1, leave=(), match={"a.*": lambda _: RECEIVERS}, unmatch=())
    assert joins.handle_answer(1), "groups that were known are to be looked at again"
    take(joins, VIEW)
    assert joins.groups_for("a.*") == ("a.b",)
    assert not joins.is_used("a.b"), "nobody named it"
    assert joins.leave("a.b") is None
    joins.note_request(2, leave=(), match={}, unmatch=("a.*",))
    assert not joins.routes
    assert not joins.by_name


def test_the_next_incarnation_keeps_what_was_named_and_tells_anew(joins: Joins) -> None:
    joins.join("a.b", RECEIVERS, echo=False)
    joins.note_request(1, leave=(), match={"c.*": lambda _: RECEIVERS}, unmatch=())
    take(joins, VIEW)
    take(joins, replace(VIEW, id=GroupId(8), name="c.d"))
    joins.clear()
    assert not joins.routes
    assert list(joins.by_name) == ["a.b"], "patterns meet their groups again"
    assert len(take(joins, VIEW)) == 1


def test_a_pattern_is_told_which_of_its_groups_have_ended(joins: Joins) -> None:
    """Whoever acts for all groups that match, as a gateway does, has nobody else to ask."""
    joins.note_request(1, leave=(), match={"a.*": lambda name: RECEIVERS}, unmatch=())
    take(joins, VIEW)
    assert joins.handle_gone([7]) == [GroupUnmatched("a.b", ("a.*",))]
    assert joins.handle_gone([7]) == []
    take(joins, VIEW)
    (told,) = take(joins, replace(VIEW, view=ViewNumber(4)), is_member=False)
    assert told == GroupUnmatched("a.b", ("a.*",))
    take(joins, replace(VIEW, view=ViewNumber(5)))
    assert joins.clear() == [GroupUnmatched("a.b", ("a.*",))], "the next incarnation meets it anew"
    assert not joins.by_name
