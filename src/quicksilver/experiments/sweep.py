"""Sweeps of many simulations: what to run, from a TOML file, and one run of it.

name = "seeds"
kind = "seeds"            # trials under mixed faults, as `quicksilver sim` runs them
seeds = { first = 1, count = 500 }

name = "size"
kind = "experiment"       # points of an experiment, simulated
experiment = "scale"
seeds = { first = 1, count = 3 }
settings = { seconds = 2.0 }
traces = "failed"         # whose trace records are kept: all (default), failed, none
[axes]
nodes = [2, 10, 50]

``quicksilver sweep`` distributes the runs with Spark. A simulation's trace is written
under another name and renamed when it is whole, so that a simulation that is run
twice, or stopped, leaves one trace or none.
"""

from __future__ import annotations

import shlex
import shutil
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from quicksilver.experiments.base import Context, ExperimentError, Metrics, Point, Value
from quicksilver.experiments.catalogue import find_experiment
from quicksilver.experiments.runner import run_point
from quicksilver.trace.folders import run_folder
from quicksilver.trials.trial import run_seed

TASKS_MAX = 1_000_000


class Seeds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which seeds."""

    first: Annotated[int, msgspec.Meta(ge=0)] = 1
    count: Annotated[int, msgspec.Meta(ge=1, le=TASKS_MAX)] = 1


class Sweep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One sweep."""

    name: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_-]{1,80}$")]
    kind: Literal["seeds", "experiment"]
    seeds: Seeds = Seeds()
    experiment: str = ""
    axes: dict[str, list[Value]] = {}
    settings: dict[str, Value] = {}
    traces: Literal["all", "failed", "none"] = "all"
    """Of which simulations trace records are kept."""
    trace_records_max: Annotated[int, msgspec.Meta(ge=1)] = 50_000
    """Of one simulation: what a sweep writes is bounded by this and their number."""

    def tasks(self) -> Iterator[SweepTask]:
        """Yield every combination of seed and parameters."""
        for values in product(*self.axes.values()):
            parameters = self.settings | dict(zip(self.axes, values, strict=True))
            for seed in range(self.seeds.first, self.seeds.first + self.seeds.count):
                yield SweepTask(self.kind, self.experiment, seed, parameters)


class SweepTask(msgspec.Struct, frozen=True):
    """One simulation."""

    kind: str
    experiment: str
    seed: int
    parameters: dict[str, Value]
    """Settings and one value of each axis: all that the file says about it."""

    @property
    def key(self) -> str:
        """The same for the same simulation, whoever runs it and when."""
        parts = [self.kind, self.experiment, self.seed, sorted(self.parameters.items())]
        return blake2b(msgspec.json.encode(parts), digest_size=12).hexdigest()


def load_sweep(path: Path) -> Sweep:
    """Read a sweep; raises ExperimentError that says what is wrong."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExperimentError(f"{path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path}: not TOML: {error}") from None
    try:
        sweep = msgspec.convert(data, Sweep)
    except msgspec.ValidationError as error:
        raise ExperimentError(f"{path}: {error}") from None
    if sweep.kind == "experiment" and not sweep.experiment:
        raise ExperimentError(f'{path}: say which experiment: experiment = "scale"')
    if sweep.kind == "seeds" and (sweep.axes or sweep.settings or sweep.experiment):
        raise ExperimentError(f"{path}: a sweep of seeds has no experiment, axes or settings")
    count = sweep.seeds.count
    for name, values in sweep.axes.items():
        if not values:
            raise ExperimentError(f"{path}: the axis {name} has no values")
        count *= len(values)
    if count > TASKS_MAX:
        raise ExperimentError(f"{path}: {count:,} simulations are more than {TASKS_MAX:,}")
    return sweep


# One simulation


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


class _Simulation(msgspec.Struct, frozen=True):
    """How to run a task, and to run it again."""

    run: str
    parameters: dict[str, Value]
    replay: str
    work: Callable[[Path | None], tuple[Metrics, str]]
    """Takes the folder of its trace; returns what was measured and what went wrong."""


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
    def work(trace: Path | None) -> tuple[Metrics, str]:
        if trace is None:
            result = run_seed(task.seed)
        else:
            from quicksilver.trace.parquet import ParquetTrace

            records_max = sweep.trace_records_max
            name = trace.name.removeprefix("run=")
            with ParquetTrace(
                trace.parent, name, "sim", waits=True, records_max=records_max
            ) as tracer:
                result = run_seed(task.seed, tracer)
        if result.verdict is None:
            return {}, result.problem
        found = msgspec.to_builtins(result.verdict)
        return {**found, "violations": len(found["violations"])}, result.problem

    return _Simulation(f"seed-{task.seed}", {}, _command_of(task, {}), work)


def _point_of(sweep: Sweep, task: SweepTask) -> _Simulation:
    point = make_point(sweep, task)
    if "sim" not in find_experiment(task.experiment).places:
        raise ExperimentError(f"{task.experiment} cannot be simulated")

    def work(trace: Path | None) -> tuple[Metrics, str]:
        context = Context(seed=task.seed, traces=trace, trace_records_max=sweep.trace_records_max)
        return run_point(point, context), ""

    parameters = dict(point.parameters)
    # An axis that is not named would be swept.
    named = {axis: parameters[axis] for axis in point.axes} | task.parameters
    return _Simulation(point.id, parameters, _command_of(task, named), work)


def make_point(sweep: Sweep, task: SweepTask) -> Point:
    """Return a task as a point of its experiment; raises ExperimentError."""
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
