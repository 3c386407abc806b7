"""What a figure of the model is made of, and how it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quicksilver.spark.report.drawing import COLOURS, add_legend, drawing, finish, make_log


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Marks, or a line, perhaps with a band of how sure it is."""

    label: str
    points: Sequence[tuple[float, float]]
    is_line: bool = False
    is_dashed: bool = False
    band: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One figure of the model."""

    name: str
    number: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    paper: str
    measured: str
    is_log: bool = False


def draw_chart(folder: Path, chart: Chart) -> None:
    """Write a figure as SVG and PNG."""
    with drawing(folder, chart.name) as (_, axes):
        for place, series in enumerate(chart.series):
            colour = COLOURS[place % len(COLOURS)]
            points = sorted(series.points)
            xs, ys = [x for x, _ in points], [y for _, y in points]
            if series.is_line:
                dashes = "--" if series.is_dashed else "-"
                axes.plot(xs, ys, dashes, color=colour, label=series.label, linewidth=1.6)
            else:
                axes.plot(xs, ys, "o", color=colour, label=series.label, markersize=5)
            if series.band:
                band = sorted(series.band)
                axes.fill_between(
                    [x for x, _, _ in band],
                    [low for _, low, _ in band],
                    [high for _, _, high in band],
                    color=colour,
                    alpha=0.18,
                    linewidth=0,
                )
        finish(axes, chart.title, chart.x_label, chart.y_label)
        if chart.is_log:
            marked = [s.points for s in chart.series if not s.is_line] or [
                s.points for s in chart.series
            ]
            make_log(axes, {x for points in marked for x, _ in points})
        add_legend(axes, len(chart.series))
