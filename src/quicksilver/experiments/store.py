"""An experiment's folder: its finished points, what was asked for, and the summary.

The summary is a table of the points, the papers' claim, and what the numbers say about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from quicksilver.experiments.base import Column, Experiment, ExperimentError, Metrics, Point, Row
from quicksilver.lab.batch import ResultFile
from quicksilver.trace.folders import run_folder

RUN = "run.json"
POINTS = "points.jsonl"
TRACES = "traces"
SUMMARY = "summary.md"


class FinishedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One line of ``points.jsonl``."""

    experiment: str
    point: str
    """The point's name; its traces are in ``traces/run=<point>/``."""
    place: str
    """``sim`` or ``real``."""
    round: int
    seed: int
    parameters: dict[str, Any]
    metrics: dict[str, Any]

    @classmethod
    def of(cls, point: Point, metrics: Metrics) -> Self:
        return cls(
            experiment=point.experiment,
            point=point.id,
            place=point.place,
            round=point.round,
            seed=point.seed,
            parameters=dict(point.parameters),
            metrics=metrics,
        )

    def row(self) -> Row:
        """All of it in one flat table row; a metric never hides a parameter."""
        head = {"experiment": self.experiment, "point": self.point, "place": self.place}
        return head | {"round": self.round, "seed": self.seed} | self.metrics | self.parameters


class PointStore:
    """One experiment's folder."""

    def __init__(self, folder: Path, traces: Path | None = None) -> None:
        """``traces``: the folder of traces, if not the one in ``folder``."""
        self.folder = folder
        self.traces = folder / TRACES if traces is None else traces
        self._points = ResultFile(folder / POINTS, FinishedPoint, lambda found: found.point)

    def open(self, *, fresh: bool) -> None:
        """Make the folder; ``fresh`` forgets the points that are there."""
        try:
            self._points.open(fresh=fresh)
        except OSError as error:
            raise ExperimentError(
                f"{self.folder}: {error.strerror}; choose another --out"
            ) from None

    def finished(self) -> list[FinishedPoint]:
        """The points that are there, in the order they were finished; the newest counts."""
        return self._points.read()

    def add(self, point: Point, metrics: Metrics) -> None:
        """Write a finished point."""
        self._points.add(FinishedPoint.of(point, metrics))

    def write_run(self, facts: Mapping[str, Any]) -> None:
        """Write what was asked for, with which versions, and when."""
        text = msgspec.json.format(msgspec.json.encode(dict(facts)), indent=2)
        (self.folder / RUN).write_bytes(text + b"\n")

    def write_summary(self, text: str) -> None:
        (self.folder / SUMMARY).write_text(text, encoding="utf-8")

    def traces_of(self, point: Point) -> Path:
        """Where a point's trace records go."""
        return run_folder(self.traces, point.id)


VERDICTS = {True: "holds", False: "**does not hold**", None: ""}


def order_rows(rows: Sequence[Row], axes: Sequence[str]) -> list[Row]:
    """Rows by place and by the sweep's axes, in the order of their values."""

    def key(row: Row) -> tuple[object, ...]:
        parts: list[object] = [row["place"]]
        for axis in axes:
            value = row.get(axis)
            parts.append((isinstance(value, str), value))
        return (*parts, row["round"])

    return sorted(rows, key=key)


def table_of(
    experiment: Experiment, rows: Sequence[Row], axes: Sequence[str]
) -> tuple[list[str], list[list[str]]]:
    """Return the head and the body of the summary's table."""
    columns = [
        *(Column(axis, axis, "{}") for axis in axes),
        Column("place", "where"),
        *experiment.columns,
    ]
    body = [[column.show(row) for column in columns] for row in order_rows(rows, axes)]
    return [column.title for column in columns], body


def render_markdown(
    experiment: Experiment, rows: Sequence[Row], axes: Sequence[str], command: str
) -> str:
    """Return ``summary.md``."""
    head, body = table_of(experiment, rows, axes)
    lines = [
        f"# {experiment.name}: {experiment.title}",
        "",
        f"Figures {experiment.figures}. `{command}`",
        "",
        f"Papers: {experiment.claim}",
        "",
        "| " + " | ".join(head) + " |",
        "| " + " | ".join("---" for _ in head) + " |",
        *("| " + " | ".join(cells) + " |" for cells in body),
        "",
    ]
    findings = experiment.findings(rows)
    if findings:
        lines += ["| what | measured | |", "| --- | --- | --- |"]
        lines += [f"| {f.what} | {f.measured} | {VERDICTS[f.holds]} |" for f in findings]
        lines.append("")
    return "\n".join(lines)
