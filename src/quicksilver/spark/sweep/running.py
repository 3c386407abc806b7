"""One simulation, inside a Spark task."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from quicksilver.spark.sweep.config import Sweep, SweepTask


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the results."""

    key: str
    kind: str
    experiment: str
    seed: int
    parameters: str
    """As JSON."""
    metrics: str
    """As JSON."""
    is_good: bool
    problem: str
    replay: str
    seconds: float
    """Of real time."""


OUTCOMES = (
    "key string, kind string, experiment string, seed bigint, parameters string, "
    "metrics string, is_good boolean, problem string, replay string, seconds double"
)


def run_task(sweep: Sweep, task: SweepTask) -> Outcome:
    """Run one simulation; what it raises is its outcome."""
    begun = time.perf_counter()
    problem = ""
    metrics: dict[str, Any] = {}
    try:
        metrics, problem = _run_seed(task) if task.kind == "seeds" else _run_experiment(sweep, task)
    except Exception as error:  # noqa: BLE001  # one simulation that fails must not end the job
        problem = " ".join(f"{type(error).__name__}: {error}".split())
    return Outcome(
        key=task.key,
        kind=task.kind,
        experiment=task.experiment,
        seed=task.seed,
        parameters=msgspec.json.encode(task.parameters).decode(),
        metrics=msgspec.json.encode(metrics).decode(),
        is_good=not problem,
        problem=problem,
        replay=task.replay,
        seconds=time.perf_counter() - begun,
    )


def _run_seed(task: SweepTask) -> tuple[dict[str, Any], str]:
    from quicksilver.trials.draw import draw_plan
    from quicksilver.trials.trial import run_trial

    report = run_trial(draw_plan(task.seed))
    found = msgspec.to_builtins(report)
    violations = found.pop("violations")
    first = report.violations[0] if report.violations else None
    problem = "" if first is None else f"{first.check} at {first.at:.2f} s: {first.what}"
    return {**found, "violations": len(violations)}, problem


def _run_experiment(sweep: Sweep, task: SweepTask) -> tuple[dict[str, Any], str]:
    from quicksilver.experiments.base import Context, ExperimentError, Point
    from quicksilver.experiments.catalogue import find_experiment

    experiment = find_experiment(task.experiment)
    known = {
        **experiment.settings,
        **{name: values[0] for name, values in experiment.sweep.items()},
    }
    given = {**sweep.settings, **task.parameters}
    unknown = given.keys() - known.keys()
    if unknown:
        raise ExperimentError(f"{task.experiment} has no parameter {min(unknown)!r}")
    if "sim" not in experiment.places:
        raise ExperimentError(f"{task.experiment} cannot be simulated")
    point = Point(
        experiment=task.experiment,
        place="sim",
        round=0,
        seed=task.seed,
        parameters={**known, **given},
        axes=tuple(experiment.sweep),
    )
    return experiment.run(point, Context(seed=task.seed)), ""
