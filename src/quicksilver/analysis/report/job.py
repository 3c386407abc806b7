"""A report of runs: the page and its figures, in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from quicksilver.analysis.errors import BadInputError
from quicksilver.analysis.inputs import filled_runs, find_traces, is_experiment
from quicksilver.analysis.page import Section, render
from quicksilver.analysis.report.experiments import section_of
from quicksilver.experiments.store import TRACES
from quicksilver.trace.folders import RUN, find_runs

PAGE = "report.html"
RUNS_MAX = 3
"""Runs of a folder that are told in detail, unless they are named."""

TellTraces = Callable[[Mapping[Path, Sequence[str]]], Sequence[Section]]
"""Makes sections of traced runs, by folder; traces are large, and Spark does it."""


def make_report(
    paths: Sequence[Path], out: Path, *, tell_traces: TellTraces, timelines: bool = True
) -> Path:
    """Write the page and its figures; returns where the page is. Raises BadInputError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"{out}: {error.strerror}; choose another --out") from None
    sections: list[Section] = []
    traced: dict[Path, list[str]] = {}
    for path in paths:
        if is_experiment(path):
            sections.append(section_of(path, out))
            folder = path / TRACES
            runs = find_runs(folder)[-1:] if timelines and folder.is_dir() else []
            runs = filled_runs(folder, runs)
        else:
            folder, runs = find_traces(path)
            runs = runs if path.name.startswith(RUN) else runs[-RUNS_MAX:]
        known = traced.setdefault(folder, [])
        known += [run for run in runs if run not in known]
    traced = {folder: runs for folder, runs in traced.items() if runs}
    if traced:
        sections += tell_traces(traced)
    page = out / PAGE
    page.write_text(render("quicksilver: runs and figures", sections), encoding="utf-8")
    return page
