"""One seed of the simulator: its trial, and what came of it."""

from __future__ import annotations

import msgspec

from quicksilver.trace.records import Tracer
from quicksilver.trials.draw import draw_plan
from quicksilver.trials.trial import Verdict, run_trial


class SeedResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a seed."""

    seed: int
    verdict: Verdict | None = None
    """None: the trial raised."""
    problem: str = ""
    """The first violation, or what was raised; empty when all was well."""


def run_seed(seed: int, tracer: Tracer | None = None) -> SeedResult:
    """Run one seed; a crash of ours is a failure like any other."""
    try:
        verdict = run_trial(draw_plan(seed), tracer=tracer)
    except Exception as error:  # noqa: BLE001  # an engine that raises has failed its trial
        text = " ".join(f"raised {type(error).__name__}: {error}".split())
        return SeedResult(seed=seed, problem=text)
    first = verdict.violations[0] if verdict.violations else None
    problem = "" if first is None else f"{first.check} at {first.at:.2f} s: {first.what}"
    return SeedResult(seed=seed, verdict=verdict, problem=problem)
