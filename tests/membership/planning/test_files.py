"""Plan files: what they accept, and that planners follow them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.membership.planning import make_planner
from quicksilver.membership.planning.check import check_plan
from quicksilver.membership.planning.files import (
    LoadedPlanner,
    PlanFile,
    PlanFileError,
    PlanFileHierarchy,
    PlanFileRegion,
    load_plan,
    name_plan,
    parse_plan,
    save_plan,
)
from quicksilver.membership.planning.model import PlanDelta, PlanLimits
from quicksilver.membership.planning.workload import Memberships, zipf_memberships
from quicksilver.wire.ids import GroupId, NodeId


def node_name(node: NodeId) -> str:
    return f"n{node}"


def group_name(group: GroupId) -> str:
    return f"g{group}"


def loaded(plan: PlanFile, limits: PlanLimits | None = None) -> LoadedPlanner:
    return LoadedPlanner(plan, limits or PlanLimits(), node_name=node_name, group_name=group_name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "truncated"),
        ("[]", "object"),
        ('{"version": 2, "hierarchies": []}', "2"),
        ('{"version": 1, "hierarchies": [], "extra": 1}', "extra"),
        ('{"version": 1, "hierarchies": [{"groups": [""]}]}', "length"),
        ('{"version": 1, "hierarchies": [{"groups": ["a", "a"]}]}', "'a' is listed twice"),
        (
            '{"version": 1, "hierarchies": [{"groups": [], "regions": '  # noqa: ISC004  # one text
            '[{"nodes": ["n"]}, {"nodes": ["n"]}]}]}',
            "disjoint",
        ),
        ("[" * 100_000, "recursion|object"),
    ],
)
def test_a_bad_plan_is_refused_in_one_line(text: str, message: str) -> None:
    """The operator sees which file, what is wrong and where."""
    with pytest.raises(PlanFileError, match=f"(?i)plan p.json: .*({message})") as caught:
        parse_plan(text.encode(), "p.json")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_a_plan_error(tmp_path: Path) -> None:
    """A mistyped path is a user's mistake, not a traceback."""
    with pytest.raises(PlanFileError, match="No such file"):
        load_plan(tmp_path / "none.json")


def test_too_many_hierarchies_are_refused() -> None:
    """The cap could not be honoured."""
    plan = PlanFile(1, tuple(PlanFileHierarchy((f"g{i}",)) for i in range(3)))
    with pytest.raises(PlanFileError, match="3 hierarchies"):
        loaded(plan, PlanLimits(regions_per_node_max=2))


@pytest.mark.parametrize("name", ["auto", "perfect"])
def test_a_saved_plan_is_followed_as_it_was(name: str, tmp_path: Path) -> None:
    """Saving, loading and applying gives the same nodes the same neighbours."""
    members = zipf_memberships(30, 60, 0.1, 1.5, seed=1)
    planner = make_planner(name, PlanLimits())
    planner.apply(members)
    plan = name_plan(planner.state(), node_name, group_name)
    save_plan(tmp_path / "p.json", plan)
    assert load_plan(tmp_path / "p.json") == plan
    again = loaded(plan)
    again.apply(members)

    def shape(state: object) -> set[tuple[GroupId, frozenset[tuple[NodeId, ...]]]]:
        return {
            (group, frozenset(state.regions[number] for number in numbers))  # type: ignore[attr-defined]
            for group, numbers in state.groups.items()  # type: ignore[attr-defined]
        }

    assert shape(again.state()) == shape(planner.state())


def test_what_the_file_does_not_mention_is_placed_too() -> None:
    """A plan computed last night meets nodes and groups of this morning."""
    plan = PlanFile(
        1, (PlanFileHierarchy(("g1",), (PlanFileRegion(("n1", "n2")), PlanFileRegion(("n3",)))),)
    )
    members = {NodeId(n): frozenset([GroupId(1)]) for n in (1, 2, 3, 4)}
    members[NodeId(5)] = frozenset([GroupId(9)])
    planner = loaded(plan)
    planner.apply(members)
    check_plan(members, planner.state(), PlanLimits())
    regions = [set(nodes) for nodes in planner.state().regions.values()]
    assert any({1, 2} <= nodes and 3 not in nodes for nodes in regions)


names = st.integers(1, 8)
plans = st.builds(
    lambda groups, nodes: PlanFile(
        1,
        tuple(
            PlanFileHierarchy(
                tuple(f"g{g}" for g, level in groups.items() if level == h),
                tuple(
                    PlanFileRegion(tuple(f"n{n}" for n, at in nodes.items() if at == (h, r)))
                    for r in range(3)
                ),
            )
            for h in range(2)
        ),
    ),
    st.dictionaries(names, st.integers(0, 1)),
    st.dictionaries(names, st.tuples(st.integers(0, 1), st.integers(0, 2))),
)
batch = st.dictionaries(
    st.integers(1, 10).map(NodeId), st.frozensets(st.integers(1, 10).map(GroupId), max_size=6)
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(plans, st.lists(batch, min_size=1, max_size=4), st.integers(2, 4))
def test_promises_hold_whatever_the_file_says(
    plan: PlanFile, changes: list[Memberships], cap: int
) -> None:
    """Also across a restart, which moves nobody."""
    limits = PlanLimits(regions_per_node_max=cap)
    planner = loaded(plan, limits)
    members: Memberships = {}
    for some in changes:
        planner.apply(some)
        members.update(some)
        members = {n: g for n, g in members.items() if g}
        check_plan(members, planner.state(), limits)
    again = loaded(plan, limits)
    again.restore(members.items(), planner.state())
    assert again.apply({}) == PlanDelta()
    assert again.state() == planner.state()
