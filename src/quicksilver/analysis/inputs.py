"""Which folders a user gave: an experiment's points, or traces of runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from quicksilver.analysis.errors import BadInputError
from quicksilver.experiments.store import POINTS
from quicksilver.trace.folders import KIND, RUN, find_runs

PATTERN = f"{KIND}*/[!._]*.parquet"
"""Finished files in the folder of a run."""


def is_experiment(path: Path) -> bool:
    """Return whether a folder has an experiment's points; raises BadInputError if it is none."""
    if not path.is_dir():
        raise BadInputError(
            f"{path} is not a folder of results; give one of an experiment or of --trace"
        )
    return (path / POINTS).is_file()


def filled_runs(folder: Path, runs: Iterable[str]) -> list[str]:
    """Return the runs that have records."""
    return [run for run in runs if any((folder / f"{RUN}{run}").glob(PATTERN))]


def find_traces(path: Path) -> tuple[Path, list[str]]:
    """Return the folder of runs behind a path and the runs that are meant.

    The path is a folder of runs, one run, or an experiment's folder with its traces.
    Raises BadInputError.
    """
    if not path.is_dir():
        raise BadInputError(f"{path} is no folder; give one that --trace wrote, or a run in it")
    if path.name.startswith(RUN):
        folder, runs = path.parent, [path.name.removeprefix(RUN)]
    else:
        folder = path / "traces" if (path / "traces").is_dir() else path
        runs = find_runs(folder)
    if not runs:
        raise BadInputError(f"{path} has no runs; a trace is in folders named run=NAME")
    filled = filled_runs(folder, runs)
    if not filled:
        raise BadInputError(f"{path}: no records were written in {', '.join(runs[:5])}")
    return folder, filled
