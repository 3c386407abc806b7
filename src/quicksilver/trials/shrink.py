"""Makes a failing trial small: the fewest faults that still break the same property.

Delta debugging (Zeller and Hildebrandt): leave out large parts of the list first,
then smaller ones, as long as the run still fails; in the end no single fault can
be spared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from quicksilver.trials.draw import Plan
from quicksilver.trials.scopes.plan import Plan as ScopesPlan
from quicksilver.trials.trial import Verdict

AnyPlan = TypeVar("AnyPlan", Plan, ScopesPlan)
Progress = Callable[[int, int], None]
"""Told how many runs were made and how many faults are left."""


def shrink(
    plan: AnyPlan,
    run: Callable[[AnyPlan], Verdict],
    *,
    runs_max: int = 200,
    on_progress: Progress | None = None,
) -> AnyPlan:
    """Return a plan with fewer faults that fails a check that ``plan`` fails.

    A plan that does not fail is returned as it is.
    """
    wanted = {violation.check for violation in run(plan).violations}
    if not wanted:
        return plan
    runs = 1

    def fails(candidate: AnyPlan) -> bool:
        nonlocal runs
        runs += 1
        if on_progress is not None:
            on_progress(runs, len(candidate.faults))
        return any(violation.check in wanted for violation in run(candidate).violations)

    size = max(1, len(plan.faults) // 2)
    while plan.faults and runs < runs_max:
        shorter = _without_a_part(plan, size, fails, lambda: runs < runs_max)
        if shorter is not None:
            plan = shorter
        elif size == 1:
            break
        size = max(1, min(size // 2, len(plan.faults) // 2))
    return plan


def _without_a_part(
    plan: AnyPlan, size: int, fails: Callable[[AnyPlan], bool], may_go_on: Callable[[], bool]
) -> AnyPlan | None:
    for start in range(0, len(plan.faults), size):
        if not may_go_on():
            return None
        rest = plan.faults[:start] + plan.faults[start + size :]
        candidate = replace(plan, faults=rest)
        if fails(candidate):
            return candidate
    return None
