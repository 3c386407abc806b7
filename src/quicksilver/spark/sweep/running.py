"""One simulation, inside a Spark task.

Its trace is written under another name and renamed when it is whole, so that a
simulation that is run twice, or stopped, leaves one trace or none.
"""

from __future__ import annotations

import shlex
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from quicksilver.spark.sweep.config import Sweep, SweepTask, Value
from quicksilver.trace.folders import run_folder

if TYPE_CHECKING:
    from quicksilver.experiments.base import Point

Found: TypeAlias = tuple[dict[str, Any], str]
"""What was measured, and what went wrong."""


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
    run: str
    """The name of its trace in the sweep's folder ``traces``; empty if none is kept."""
    seconds: float
    """Of real time."""


OUTCOMES = (
    "key string, kind string, experiment string, seed bigint, parameters string, "
    "metrics string, is_good boolean, problem string, replay string, run string, seconds double"
)


class _Simulation(msgspec.Struct, frozen=True):
    """How to run a task, and to run it again."""

    run: str
    parameters: dict[str, Value]
    replay: str
    work: Callable[[Path | None], Found]


def run_task(sweep: Sweep, task: SweepTask, traces: Path | None = None) -> Outcome:
    """Run one simulation; what it raises is its outcome.

    ``traces`` is the folder of the sweep's traces.
    """
    begun = time.perf_counter()
    problem, run = "", ""
    metrics: dict[str, Any] = {}
    parameters, replay = task.parameters, _command_of(task, task.parameters)
    try:
        simulation = _seed_of(sweep, task) if task.kind == "seeds" else _point_of(sweep, task)
        parameters, replay = simulation.parameters, simulation.replay
        with _tracing(traces, simulation.run) as trace:
            try:
                metrics, problem = simulation.work(trace)
            except Exception as error:  # noqa: BLE001  # one that fails must not end the job
                problem = _tell(error)
            if trace is not None and (problem or sweep.traces == "all"):
                run = simulation.run
                _keep(trace, traces)
    except Exception as error:  # noqa: BLE001  # the same
        problem = problem or _tell(error)
    return Outcome(
        key=task.key,
        kind=task.kind,
        experiment=task.experiment,
        seed=task.seed,
        parameters=msgspec.json.encode(parameters).decode(),
        metrics=msgspec.json.encode(metrics).decode(),
        is_good=not problem,
        problem=problem,
        replay=replay,
        run=run,
        seconds=time.perf_counter() - begun,
    )


def _tell(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


@contextmanager
def _tracing(traces: Path | None, run: str) -> Iterator[Path | None]:
    """Have a folder for a trace, which is gone at the end unless it was kept."""
    if traces is None:
        yield None
        return
    # Spark passes over names that begin like this.
    unfinished = traces / f"_unfinished-{uuid.uuid4().hex}"
    try:
        yield run_folder(unfinished, run)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _keep(trace: Path, traces: Path | None) -> None:
    assert traces is not None
    if not trace.is_dir():
        return  # it failed before there was anything to tell
    target = traces / trace.name
    try:
        trace.rename(target)
    except OSError:
        if not target.is_dir():
            raise
        # The same simulation was run before, and gave the same.


def _seed_of(sweep: Sweep, task: SweepTask) -> _Simulation:
    def work(trace: Path | None) -> Found:
        from quicksilver.trace.parquet import ParquetTrace
        from quicksilver.trials.draw import draw_plan
        from quicksilver.trials.trial import run_trial

        plan = draw_plan(task.seed)
        if trace is None:
            report = run_trial(plan)
        else:
            records_max = sweep.trace_records_max
            name = trace.name.removeprefix("run=")
            with ParquetTrace(
                trace.parent, name, "sim", waits=True, records_max=records_max
            ) as tracer:
                report = run_trial(plan, tracer=tracer)
        found = msgspec.to_builtins(report)
        violations = found.pop("violations")
        first = report.violations[0] if report.violations else None
        problem = "" if first is None else f"{first.check} at {first.at:.2f} s: {first.what}"
        return {**found, "violations": len(violations)}, problem

    return _Simulation(f"seed-{task.seed}", {}, _command_of(task, {}), work)


def _point_of(sweep: Sweep, task: SweepTask) -> _Simulation:
    from quicksilver.experiments.base import Context, ExperimentError
    from quicksilver.experiments.catalogue import find_experiment

    experiment = find_experiment(task.experiment)
    point = make_point(sweep, task)
    if "sim" not in experiment.places:
        raise ExperimentError(f"{task.experiment} cannot be simulated")

    def work(trace: Path | None) -> Found:
        context = Context(seed=task.seed, traces=trace, trace_records_max=sweep.trace_records_max)
        return experiment.run(point, context), ""

    parameters = dict(point.parameters)
    # An axis that is not named would be swept.
    named = {axis: parameters[axis] for axis in point.axes} | task.parameters
    return _Simulation(point.id, parameters, _command_of(task, named), work)


def make_point(sweep: Sweep, task: SweepTask) -> Point:
    """Return a task as a point of its experiment; raises ExperimentError."""
    from quicksilver.experiments.base import ExperimentError, Point
    from quicksilver.experiments.catalogue import find_experiment

    experiment = find_experiment(task.experiment)
    known = {
        **experiment.settings,
        **{name: values[0] for name, values in experiment.sweep.items()},
    }
    unknown = task.parameters.keys() - known.keys()
    if unknown:
        raise ExperimentError(f"{task.experiment} has no parameter {min(unknown)!r}")
    return Point(
        experiment=task.experiment,
        place="sim",
        round=task.seed - sweep.seeds.first,
        seed=task.seed,
        parameters={**known, **task.parameters},
        axes=tuple(experiment.sweep),
    )


def _command_of(task: SweepTask, parameters: dict[str, Value]) -> str:
    """Return the command that runs a task again, in a folder of its own."""
    if task.kind == "seeds":
        return f"quicksilver sim --seed {task.seed}"
    words = ["quicksilver", "experiment", task.experiment, "--sim", "--seed", str(task.seed)]
    for name, value in parameters.items():
        words += ["--set", f"{name}={value}"]
    return shlex.join([*words, "--fresh", "--out", "out/replay"])
