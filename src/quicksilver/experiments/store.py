"""Finished points on disk: one JSON object a line, never half a one that counts.

A sweep that was interrupted goes on where it stopped: points whose line is there
are not run again. The last line of a file may be torn by a crash; such a line is
no point, and the next one begins after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from quicksilver.experiments.base import ExperimentError, Metrics, Point, Row
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
        self._points = folder / POINTS

    def open(self, *, fresh: bool) -> None:
        """Make the folder; ``fresh`` forgets the points that are there."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if fresh:
                self._points.unlink(missing_ok=True)
            elif self._points.exists():
                self._mend()
        except OSError as error:
            raise ExperimentError(
                f"{self.folder}: {error.strerror}; choose another --out"
            ) from None

    def _mend(self) -> None:
        """End a torn last line, so that the next point has a line of its own."""
        with self._points.open("rb+") as file:
            file.seek(0, 2)
            if file.tell():
                file.seek(-1, 2)
                if file.read(1) != b"\n":
                    file.write(b"\n")

    def finished(self) -> list[FinishedPoint]:
        """The points that are there, in the order they were finished; the newest counts."""
        found: dict[str, FinishedPoint] = {}
        if not self._points.exists():
            return []
        for line in self._points.read_bytes().splitlines():
            try:
                point = msgspec.json.decode(line, type=FinishedPoint)
            except msgspec.MsgspecError:
                continue
            found.pop(point.point, None)
            found[point.point] = point
        return list(found.values())

    def add(self, point: Point, metrics: Metrics) -> FinishedPoint:
        """Write a finished point."""
        finished = FinishedPoint(
            experiment=point.experiment,
            point=point.id,
            place=point.place,
            round=point.round,
            seed=point.seed,
            parameters=dict(point.parameters),
            metrics=metrics,
        )
        with self._points.open("ab") as file:
            file.write(msgspec.json.encode(finished) + b"\n")
        return finished

    def write_run(self, facts: Mapping[str, Any]) -> None:
        """Write what was asked for, with which versions, and when."""
        text = msgspec.json.format(msgspec.json.encode(dict(facts)), indent=2)
        (self.folder / RUN).write_bytes(text + b"\n")

    def write_summary(self, text: str) -> None:
        (self.folder / SUMMARY).write_text(text, encoding="utf-8")

    def traces_of(self, point: Point) -> Path:
        """Where a point's trace records go."""
        return run_folder(self.traces, point.id)
