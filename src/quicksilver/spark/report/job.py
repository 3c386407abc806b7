"""A report of runs: the page and its figures, in a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from quicksilver.spark.errors import BadInputError
from quicksilver.spark.report import experiments
from quicksilver.spark.report.page import Section, render
from quicksilver.trace.folders import RUN, find_runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = "report.html"
RUNS_MAX = 3
"""Runs of a folder that are told in detail, unless they are named."""

Session = Callable[[], AbstractContextManager["SparkSession"]]


def make_report(
    paths: Sequence[Path],
    out: Path,
    *,
    session: Session,
    timelines: bool = True,
    remark: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write the page and its figures; returns where the page is. Raises BadInputError."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"{out}: {error.strerror}; choose another --out") from None
    sections: list[Section] = []
    traced: dict[Path, list[str]] = {}
    for path in paths:
        if not path.is_dir():
            raise BadInputError(
                f"{path} is no folder of a run; see out/experiments, or what --trace wrote"
            )
        if experiments.is_experiment(path):
            sections.append(experiments.section_of(path, out))
            if timelines:
                _add(traced, path / "traces", _last_runs(path / "traces", 1))
        else:
            _add_traces(traced, path)
    if traced:
        sections += _trace_sections(traced, out, session, remark)
    page = out / PAGE
    page.write_text(render("quicksilver: runs and figures", sections), encoding="utf-8")
    return page


def _last_runs(folder: Path, count: int) -> list[str]:
    return find_runs(folder)[-count:] if folder.is_dir() else []


def _add(traced: dict[Path, list[str]], folder: Path, runs: Sequence[str]) -> None:
    filled = [r for r in runs if any((folder / f"{RUN}{r}").glob("kind=*/[!._]*.parquet"))]
    if filled:
        known = traced.setdefault(folder, [])
        known += [run for run in filled if run not in known]


def _add_traces(traced: dict[Path, list[str]], path: Path) -> None:
    from quicksilver.spark.telemetry.files import find_traces

    folder, runs = find_traces(path)
    _add(traced, folder, runs if path.name.startswith(RUN) else runs[-RUNS_MAX:])


def _trace_sections(
    traced: Mapping[Path, Sequence[str]],
    out: Path,
    session: Session,
    remark: Callable[[str], None],
) -> list[Section]:
    from quicksilver.spark.report import runs as trace_runs
    from quicksilver.spark.telemetry.files import find_problems
    from quicksilver.spark.telemetry.views import make_views

    found = []
    with session() as spark:
        for folder, names in traced.items():
            for problem in find_problems(folder, names):
                remark(problem)
            tables = make_views(spark, folder, names)
            found += [trace_runs.section_of(tables, folder, name, out) for name in names]
    return found
