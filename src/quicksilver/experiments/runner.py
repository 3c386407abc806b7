"""Running the points of a sweep, and keeping each as it is finished.

Simulated points are independent and use one core each; points with real
processes have the machine to themselves.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from quicksilver import __version__
from quicksilver.experiments.base import Context, Experiment, Metrics, Point
from quicksilver.experiments.catalogue import find_experiment
from quicksilver.experiments.store import PointStore
from quicksilver.lab.batch import run_batch


@dataclass(frozen=True, slots=True)
class Done:
    """A point has been finished, now or in an earlier run."""

    point: Point
    metrics: Metrics | None
    """None: it was there already."""


def run_point(point: Point, context: Context) -> Metrics:
    """Run one point in this process."""
    return find_experiment(point.experiment).run(point, context)


def run_points(
    points: Sequence[Point],
    store: PointStore,
    *,
    jobs: int = 1,
    model: Path | None = None,
    with_traces: bool = True,
    on_start: Callable[[Point], None] | None = None,
) -> Iterator[Done]:
    """Run what is not there yet; yields every point as it is finished."""
    known = {finished.point for finished in store.finished()}
    together: list[tuple[Point, Context]] = []
    alone: list[tuple[Point, Context]] = []
    for point in points:
        if point.id in known:
            yield Done(point, None)
            continue
        traces = store.traces_of(point) if with_traces else None
        context = Context(seed=point.seed, traces=traces, model=model, folder=store.folder)
        (alone if point.place == "real" else together).append((point, context))

    def begin(task: tuple[Point, Context]) -> None:
        if on_start is not None:
            on_start(task[0])

    for tasks, at_once in ((together, jobs), (alone, 1)):
        for (point, _), metrics in run_batch(_run, tasks, jobs=at_once, on_start=begin):
            store.add(point, metrics)
            yield Done(point, metrics)


def _run(task: tuple[Point, Context]) -> Metrics:
    return run_point(*task)


def run_facts(experiment: Experiment, asked: dict[str, Any]) -> dict[str, Any]:
    """What ``run.json`` says."""
    return {
        "experiment": experiment.name,
        "figures": experiment.figures,
        "claim": experiment.claim,
        "asked": asked,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quicksilver": __version__,
        "python": sys.version.split()[0],
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
