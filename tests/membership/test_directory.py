"""A directory applies an update whole, or not at all, and never raises."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.membership.directory import (
    Directory,
    DirectoryChange,
    GroupView,
    Misfit,
    RegionView,
)
from quicksilver.wire import gms

NODES = tuple(gms.NodeInfo(n, f"n{n}", "10.0.0.1", 7000 + n) for n in (1, 2, 3))
FIRST = gms.Update(
    1,
    nodes=NODES,
    regions=(gms.RegionChange(5, 1, 0, "239.192.0.1", (1, 2), (), (1, 2, 3)),),
    groups=(gms.GroupChange(7, "news", 1, 0, ((5, 1),), (1, 2)),),
)


@pytest.fixture
def directory() -> Directory:
    directory = Directory()
    assert isinstance(directory.apply(FIRST), DirectoryChange)
    return directory


def test_the_first_update_installs_views(directory: Directory) -> None:
    """Views are values: what the engine builds its rings and lanes from."""
    region = RegionView(5, 1, "239.192.0.1", (1, 2), frozenset({1, 2, 3}))
    assert directory.regions == {5: region}
    assert directory.groups == {7: GroupView(7, "news", 1, (1, 2), ((5, 1),), "")}
    assert set(directory.nodes) == {1, 2, 3}


def test_a_difference_moves_region_and_group_together(directory: Directory) -> None:
    """One batch, one step: no moment with a group over an old region view."""
    change = directory.apply(
        gms.Update(
            2,
            regions=(gms.RegionChange(5, 2, 1, "239.192.0.1", (3,), (1,), (), (1,)),),
            groups=(gms.GroupChange(7, "", 2, 1, ((5, 2),), (3,), (1,)),),
            nodes_failed=(1,),
        )
    )
    assert isinstance(change, DirectoryChange)
    assert change.nodes_failed == (1,)
    assert directory.regions[5].members == (2, 3)
    assert directory.regions[5].senders == {2, 3}
    assert directory.groups[7] == GroupView(7, "news", 2, (2, 3), ((5, 2),), "")
    assert set(directory.nodes) == {2, 3}


def test_senders_change_without_a_new_view(directory: Directory) -> None:
    """Rings are built from members: they must not be rebuilt for a sender."""
    change = directory.apply(
        gms.Update(2, regions=(gms.RegionChange(5, 1, 1, "239.192.0.1", senders_gone=(3,)),))
    )
    assert isinstance(change, DirectoryChange)
    assert directory.regions[5].view == 1
    assert directory.regions[5].senders == {1, 2}


REGION = {"id": 5, "view": 2, "base": 1, "address": "239.192.0.1"}
GROUP = {"id": 7, "name": "", "view": 2, "base": 1, "regions": ()}
MISFITS = {
    "an old batch": gms.Update(1),
    "a wrong base": gms.Update(2, regions=(gms.RegionChange(**REGION | {"base": 4}),)),
    "an unknown region": gms.Update(2, regions=(gms.RegionChange(**REGION | {"id": 6}),)),
    "a rewound region": gms.Update(2, regions=(gms.RegionChange(**REGION | {"view": 0}),)),
    "a stranger": gms.Update(2, regions=(gms.RegionChange(**REGION, joined=(9,)),)),
    "a second arrival": gms.Update(2, regions=(gms.RegionChange(**REGION, joined=(1,)),)),
    "a second departure": gms.Update(2, regions=(gms.RegionChange(**REGION, left=(3,)),)),
    "members without a view": gms.Update(
        2, regions=(gms.RegionChange(5, 1, 1, "239.192.0.1", joined=(3,)),)
    ),
    "a bad address": gms.Update(2, regions=(gms.RegionChange(**REGION | {"address": "10.1.1.1"}),)),
    "a group left behind": gms.Update(
        2,
        regions=(gms.RegionChange(**REGION, left=(1,)),),
        groups=(gms.GroupChange(**GROUP | {"view": 3, "base": 2}),),
    ),
    "a region view of the past": gms.Update(
        2,
        regions=(gms.RegionChange(**REGION, left=(1,)),),
        groups=(gms.GroupChange(**GROUP, left=(1,)),),
    ),
    "a member in no region": gms.Update(2, groups=(gms.GroupChange(**GROUP, joined=(3,)),)),
    "a region never spanned": gms.Update(2, groups=(gms.GroupChange(**GROUP, regions_gone=(8,)),)),
    "a nameless group": gms.Update(2, groups=(gms.GroupChange(8, "", 1, 0, ()),)),
    "an unknown region gone": gms.Update(2, regions_gone=(6,)),
    "an unknown group gone": gms.Update(2, groups_gone=(6,)),
    "a failed member": gms.Update(2, nodes_failed=(1,)),
    "a node without an address": gms.Update(2, nodes=(gms.NodeInfo(4, "x", "nowhere", 1),)),
    "a complete update with a base": gms.Update(
        2, alive=(1,), regions=(gms.RegionChange(**REGION),)
    ),
}


@pytest.mark.parametrize("update", MISFITS.values(), ids=MISFITS.keys())
def test_what_does_not_fit_changes_nothing(directory: Directory, update: gms.Update) -> None:
    """The node goes on with a consistent, if old, view of the world."""
    before = copy.deepcopy(vars(directory))
    misfit = directory.apply(update)
    assert isinstance(misfit, Misfit)
    assert misfit.reason
    assert vars(directory) == before


def test_overlapping_regions_are_refused() -> None:
    """ "A list L of disjoint region views" (dissertation 4.2.1 A)."""
    nodes = tuple(gms.NodeInfo(n, "", "10.0.0.1", 1) for n in range(1, 21))
    everybody = tuple(range(1, 21))
    regions = tuple(gms.RegionChange(r, 1, 0, "239.192.0.1", everybody) for r in (1, 2))
    group = gms.GroupChange(1, "g", 1, 0, ((1, 1), (2, 1)), everybody)
    misfit = Directory().apply(gms.Update(1, nodes=nodes, regions=regions, groups=(group,)))
    assert misfit == Misfit("group 1 has regions that overlap")


def test_a_complete_update_replaces_and_tells_the_difference(directory: Directory) -> None:
    """After a GMS restart only what really changed disturbs the engine."""
    change = directory.apply(
        gms.Update(
            4,
            nodes=NODES[1:],
            regions=(gms.RegionChange(6, 1, 0, "239.192.0.2", (2, 3)),),
            groups=(gms.GroupChange(7, "news", 3, 0, ((6, 1),), (2, 3)),),
            alive=(2, 3, 9),
        )
    )
    assert isinstance(change, DirectoryChange)
    assert [r.id for r in change.regions] == [6]
    assert change.regions_gone == (5,)
    assert change.nodes_failed == (1,)
    same = gms.Update(
        4,
        nodes=NODES[1:],
        regions=(gms.RegionChange(6, 1, 0, "239.192.0.2", (2, 3)),),
        groups=(gms.GroupChange(7, "news", 3, 0, ((6, 1),), (2, 3)),),
        alive=(2, 3, 9),
    )
    assert directory.apply(same) == DirectoryChange()


def test_a_complete_update_keeps_live_nodes_that_it_does_not_mention(directory: Directory) -> None:
    """Their last messages may still be on the way, in views that are going out of use."""
    directory.apply(gms.Update(2, alive=(1, 2)))
    assert set(directory.nodes) == {1, 2}
    assert directory.regions == {}


small = st.integers(-1, 4)
numbers = st.lists(small, max_size=3).map(tuple)
updates = st.builds(
    gms.Update,
    small,
    st.lists(st.builds(gms.NodeInfo, small, st.just("n"), st.just("10.0.0.1"), small)).map(tuple),
    st.lists(
        st.builds(
            gms.RegionChange, small, small, small, st.just(""), numbers, numbers, numbers, numbers
        ),
        max_size=2,
    ).map(tuple),
    st.lists(
        st.builds(
            gms.GroupChange,
            small,
            st.sampled_from(["", "g"]),
            small,
            small,
            st.lists(st.tuples(small, small), max_size=2).map(tuple),
            numbers,
            numbers,
            st.just(""),
            numbers,
        ),
        max_size=2,
    ).map(tuple),
    numbers,
    numbers,
    numbers,
    numbers,
)


@settings(max_examples=200)
@given(st.lists(updates, max_size=4))
def test_no_update_raises_or_breaks_the_directory(history: list[gms.Update]) -> None:
    """Whatever a confused GMS sends, what is installed is consistent."""
    directory = Directory()
    for update in history:
        before = copy.deepcopy(vars(directory))
        if isinstance(directory.apply(update), Misfit):
            assert vars(directory) == before
        for region in directory.regions.values():
            assert list(region.members) == sorted(set(region.members))
            assert set(region.members) | region.senders <= set(directory.nodes)
