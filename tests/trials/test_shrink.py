"""The shrinker keeps a failure and drops what it does not need."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from quicksilver.trials.draw import Plan, draw_plan
from quicksilver.trials.faults import GmsRestart
from quicksilver.trials.shrink import shrink
from quicksilver.trials.trial import Verdict
from quicksilver.trials.watch import Violation

PLAN = replace(
    draw_plan(1), faults=tuple(GmsRestart(at=float(place), for_s=1.0) for place in range(24))
)


def judge(guilty: set[int], check: str = "fifo"):
    """A run that fails exactly when all the guilty faults are in the plan."""

    def run(plan: Plan) -> Verdict:
        present = {round(fault.at) for fault in plan.faults}
        found = (Violation(check=check, at=1.0, what="!"),) if guilty <= present else ()
        return Verdict(
            seed=plan.seed,
            digest="",
            messages=1,
            deliveries=1,
            faults=len(plan.faults),
            faults_by_kind={},
            datagrams=0,
            seconds=1.0,
            node_seconds=1.0,
            events=1,
            nodes=1,
            groups=1,
            views=1,
            exclusions=0,
            violations=found,
        )

    return run


@settings(max_examples=60, deadline=None)
@given(st.sets(st.integers(0, 23), min_size=1, max_size=5))
def test_only_the_guilty_are_left(guilty: set[int]) -> None:
    small = shrink(PLAN, judge(guilty), runs_max=1000)
    assert {round(fault.at) for fault in small.faults} == guilty


def test_a_good_plan_stays_as_it_is() -> None:
    assert shrink(PLAN, judge({99})) is PLAN


def test_another_failure_is_not_taken_for_the_same() -> None:
    """Fewer faults may break something else: that is a different finding."""

    def run(plan: Plan) -> Verdict:
        check = "fifo" if len(plan.faults) == len(PLAN.faults) else "views"
        return judge(set(), check)(plan)

    assert shrink(PLAN, run) == PLAN


def test_it_ends_in_time() -> None:
    runs = []
    shrink(PLAN, judge(set(range(24))), runs_max=10, on_progress=lambda n, _: runs.append(n))
    assert max(runs) <= 11


def test_a_failure_that_needs_no_fault_keeps_none() -> None:
    assert shrink(PLAN, judge(set())).faults == ()
