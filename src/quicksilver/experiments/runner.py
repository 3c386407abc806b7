"""Running the points of a sweep, some at a time, in processes of their own.

Simulated points are independent and use one core each; points with real
processes have the machine to themselves.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from quicksilver import __version__
from quicksilver.experiments.base import Context, Experiment, Metrics, Point
from quicksilver.experiments.catalogue import find_experiment
from quicksilver.experiments.processes import end_with_parent
from quicksilver.experiments.store import PointStore


@dataclass(frozen=True, slots=True)
class Done:
    """A point has been finished, now or in an earlier run."""

    point: Point
    metrics: Metrics | None
    """None: it was there already."""


def run_point(point: Point, traces: Path | None, model: Path | None, folder: Path) -> Metrics:
    """Run one point in this process."""
    experiment = find_experiment(point.experiment)
    context = Context(seed=point.seed, traces=traces, model=model, folder=folder)
    return experiment.run(point, context)


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
    todo: list[Point] = []
    for point in points:
        if point.id in known:
            yield Done(point, None)
        else:
            todo.append(point)

    def begin(point: Point) -> None:
        if on_start is not None:
            on_start(point)

    def traces_of(point: Point) -> Path | None:
        return store.traces_of(point) if with_traces else None

    alone = [p for p in todo if p.place == "real" or jobs <= 1]
    together = [p for p in todo if not (p.place == "real" or jobs <= 1)]
    if together:
        yield from _run_together(together, store, jobs, model, traces_of, begin)
    for point in alone:
        begin(point)
        metrics = run_point(point, traces_of(point), model, store.folder)
        store.add(point, metrics)
        yield Done(point, metrics)


def _run_together(
    points: Sequence[Point],
    store: PointStore,
    jobs: int,
    model: Path | None,
    traces_of: Callable[[Point], Path | None],
    on_start: Callable[[Point], None],
) -> Iterator[Done]:
    waiting = list(points)
    running: dict[Future[Metrics], Point] = {}
    with ProcessPoolExecutor(
        max_workers=jobs,
        mp_context=get_context("spawn"),
        initializer=end_with_parent,
        initargs=(os.getpid(),),
    ) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    point = waiting.pop(0)
                    on_start(point)
                    work = pool.submit(run_point, point, traces_of(point), model, store.folder)
                    running[work] = point
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    point = running.pop(future)
                    metrics = future.result()
                    store.add(point, metrics)
                    yield Done(point, metrics)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


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
