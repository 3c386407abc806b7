"""The checker finds each kind of broken promise."""

from __future__ import annotations

import pytest

from quicksilver.membership.planning.check import PlanViolation, check_plan
from quicksilver.membership.planning.model import PlanLimits, PlanState
from quicksilver.wire.ids import GroupId, NodeId, RegionId

MEMBERS = {
    NodeId(1): frozenset([GroupId(1)]),
    NodeId(2): frozenset([GroupId(1), GroupId(2)]),
}


def state(
    regions: dict[int, tuple[int, ...]], groups: dict[int, tuple[int, ...]], after: int = 9
) -> PlanState:
    return PlanState(
        regions={RegionId(r): tuple(map(NodeId, n)) for r, n in regions.items()},
        groups={GroupId(g): tuple(map(RegionId, r)) for g, r in groups.items()},
        next_region=after,
    )


def test_a_good_plan_passes() -> None:
    """Exact regions of the two nodes."""
    check_plan(MEMBERS, state({1: (1,), 2: (2,)}, {1: (1, 2), 2: (2,)}), PlanLimits())


@pytest.mark.parametrize(
    ("promise", "bad"),
    [
        ("cover", state({1: (1,), 2: (2,)}, {1: (1,), 2: (2,)})),
        ("cover", state({1: (1, 2)}, {1: (1,)})),
        ("disjoint", state({1: (1, 2), 2: (2,)}, {1: (1, 2), 2: (2,)})),
        ("known", state({1: (1, 2)}, {1: (1,), 2: (1,), 3: (1,)})),
        ("known", state({1: (1, 2, 3)}, {1: (1,), 2: (1,)})),
        ("known", state({1: (1, 2)}, {1: (1,), 2: (1, 7)})),
        ("order", state({1: (2, 1)}, {1: (1,), 2: (1,)})),
        ("idle", state({1: (1, 2), 2: (2,)}, {1: (1,), 2: (1,)})),
        ("idle", state({1: (1,), 2: (2,)}, {1: (1, 2), 2: (1, 2)})),
        ("fresh", state({1: (1, 2)}, {1: (1,), 2: (1,)}, after=1)),
        ("cap", state({1: (1, 2), 2: (2,)}, {1: (1,), 2: (2,)})),
    ],
)
def test_each_broken_promise_is_named(promise: str, bad: PlanState) -> None:
    """A checker that cannot fail would be worse than none."""
    limits = PlanLimits(regions_per_node_max=1 if promise == "cap" else 20)
    with pytest.raises(PlanViolation) as caught:
        check_plan(MEMBERS, bad, limits)
    assert caught.value.promise == promise
    assert "\n" not in str(caught.value)
