"""Sections of the page that come from experiments' finished points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from quicksilver.analysis.drawing import (
    as_image,
    draw_bars,
    draw_distribution,
    draw_lines,
)
from quicksilver.analysis.errors import BadInputError
from quicksilver.analysis.figures import Line, bars_of, counts_of, lines_of
from quicksilver.analysis.page import Picture, Section, Verdict
from quicksilver.analysis.report.papers import BARS, DISTRIBUTIONS, FIGURES
from quicksilver.analysis.report.timelines import draw_timeline
from quicksilver.experiments.base import ExperimentError, Row
from quicksilver.experiments.catalogue import EXPERIMENTS, find_experiment
from quicksilver.experiments.store import POINTS, RUN, TRACES, PointStore
from quicksilver.stdx.bins import percentile_ms
from quicksilver.trace.folders import TIMELINE, run_folder, safe_name

TIMED = frozenset({"freeze", "crash", "joins", "overload"})
"""Experiments whose figure is a curve over time."""

TIMELINES_MAX = 6


def section_of(path: Path, out: Path) -> Section:
    """Return an experiment's section, its figures drawn; raises BadInputError."""
    rows: list[Row] = [point.row() for point in PointStore(path).finished()]
    if not rows:
        raise BadInputError(f"{path / POINTS} has no finished point; run the experiment again")
    name = rows[-1]["experiment"]
    try:
        experiment = find_experiment(name)
    except ExperimentError as error:
        raise BadInputError(f"{path}: {error}") from None
    prefix = safe_name(path.name)
    section = Section(
        name=prefix,
        title=_title(experiment.title, experiment.figures)
        + ("" if path.name == name else f" · {path.name}"),
        origin=_command(path),
        claim=experiment.claim,
        verdicts=[Verdict(f.what, f.measured, f.holds) for f in experiment.findings(rows)],
    )
    _add_lines(section, rows, out, name)
    _add_distributions(section, rows, out, name)
    _add_bars(section, rows, out, name)
    if name in TIMED:
        _add_timelines(section, path, rows, out, experiment.figures)
    if not section.pictures:
        section.remarks.append("Too few points for a figure: one needs two values of its axis.")
    return section


def _drawn_name(section: Section, name: str, experiment: str) -> str:
    """Several folders of one experiment may be in one report."""
    return f"{section.name}-{name.removeprefix(experiment + '-')}"


def _add_lines(section: Section, rows: Sequence[Row], out: Path, name: str) -> None:
    for figure in FIGURES:
        lines = [line for line in lines_of(figure, rows) if line.values]
        if any(len(line.values) > 1 for line in lines):
            drawn = replace(figure, name=_drawn_name(section, figure.name, name))
            draw_lines(out, drawn, lines)
            section.pictures.append(
                Picture(
                    image=as_image(out / f"{drawn.name}.svg"),
                    title=f"{figure.title} ({figure_number(figure.paper)})",
                    paper=claim_on(figure.experiment, figure.paper),
                    measured=in_words(lines, figure.y_label),
                )
            )


def _title(title: str, figures: str) -> str:
    return f"{title[0].upper()}{title[1:]} ({figure_number(figures)})"


def figure_number(paper: str) -> str:
    """Return how figures of the papers are called."""
    if not paper[0].isdigit():
        return paper if paper != "–" else "our own"
    is_one = "," not in paper and "–" not in paper
    return f"Figure {paper}" if is_one else f"Figures {paper}"


def claim_on(experiment: str, paper: str) -> str:
    """Return what the papers say of a figure, in the words of its experiment."""
    return f"{EXPERIMENTS[experiment].claims[paper]}."


def describe_point(point: str) -> str:
    """Return a point's name as a person reads it: without its round and its mark."""
    return point.rsplit("_", 2)[0].replace("_", ", ").replace("-", " ")


def _add_distributions(section: Section, rows: Sequence[Row], out: Path, name: str) -> None:
    for figure in DISTRIBUTIONS:
        lines = counts_of(figure, rows)
        if not lines:
            continue
        drawn = replace(figure, name=_drawn_name(section, figure.name, name))
        draw_distribution(out, drawn, lines)
        words = "; ".join(
            f"{label}: median below {percentile_ms(counts, 0.5):.3g} ms, "
            f"99 % below {percentile_ms(counts, 0.99):.3g} ms, all below "
            f"{percentile_ms(counts, 1.0):.3g} ms ({sum(n for _, n in counts):,})"
            for label, counts in lines.items()
        )
        section.pictures.append(
            Picture(
                image=as_image(out / f"{drawn.name}.svg"),
                title=f"{figure.title} ({figure_number(figure.paper)})",
                paper=claim_on(figure.experiment, figure.paper),
                measured=f"{words}. In bins of a quarter octave.",
            )
        )


def _add_bars(section: Section, rows: Sequence[Row], out: Path, name: str) -> None:
    for figure in BARS:
        groups = bars_of(figure, rows)
        if max((len(bars) for bars in groups.values()), default=0) < 2:
            continue
        drawn = replace(figure, name=_drawn_name(section, figure.name, name))
        draw_bars(out, drawn, groups)
        words = "; ".join(
            f"{group} {kind}: ".lstrip()
            + number(value.y)
            + (f" ± {number(value.half_width)}" if value.half_width is not None else "")
            for group, bars in groups.items()
            for kind, value in bars
        )
        section.pictures.append(
            Picture(
                image=as_image(out / f"{drawn.name}.svg"),
                title=f"{figure.title} ({figure_number(figure.paper)})",
                paper=claim_on(figure.experiment, figure.paper),
                measured=f"{words} ({figure.y_label}).",
            )
        )


def _command(path: Path) -> str:
    """The command that made a folder, as far as it is known."""
    try:
        facts: dict[str, Any] = msgspec.json.decode((path / RUN).read_bytes(), type=dict)
        return str(facts["asked"]["command"])
    except (OSError, msgspec.MsgspecError, KeyError, TypeError):
        return str(path)


def in_words(lines: Sequence[Line], unit: str) -> str:
    """Return how each line begins and ends, with intervals where they are known."""
    texts = []
    for line in lines:
        first, last = line.values[0], line.values[-1]
        label = f"{line.label}: " if len(lines) > 1 else ""
        if first is last:
            texts.append(f"{label}{number(first.y)} at {first.x:,g}")
            continue
        ends = " to ".join(
            number(v.y) + (f" ± {number(v.half_width)}" if v.half_width is not None else "")
            for v in (first, last)
        )
        change = f" ({100 * (last.y / first.y - 1):+.1f} %)" if first.y else ""
        texts.append(f"{label}{ends} {unit} from {first.x:,g} to {last.x:,g}{change}")
    return "; ".join(texts) + "."


def number(value: float) -> str:
    """Return a number with as many digits as a person reads."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def read_timeline(path: Path) -> list[dict[str, Any]]:
    """Return a point's timeline; what is torn or missing is left out."""
    if not path.is_file():
        return []
    rows = []
    for line in path.read_bytes().splitlines():
        try:
            rows.append(msgspec.json.decode(line, type=dict[str, Any]))
        except msgspec.MsgspecError:
            continue
    return rows


def _add_timelines(
    section: Section, path: Path, rows: Sequence[Row], out: Path, paper: str
) -> None:
    for row in rows[:TIMELINES_MAX]:
        timeline = read_timeline(run_folder(path / TRACES, row["point"]) / TIMELINE)
        if len(timeline) < 3:
            continue
        name = f"{section.name}-time-{safe_name(row['point'])}"
        draw_timeline(out, name, describe_point(row["point"]), timeline)
        section.pictures.append(
            Picture(
                image=as_image(out / f"{name}.svg"),
                title=f"Over time: {describe_point(row['point'])} ({figure_number(paper)})",
            )
        )
