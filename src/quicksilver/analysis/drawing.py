"""Figures as SVG and PNG, in one plain style."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quicksilver.analysis.figures import Bars, Distribution, Figure, Line, Value
from quicksilver.stdx.bins import upper_ms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#1f5fa8", "#c8501e", "#2f8f5b", "#7b4fa3", "#a0761a", "#555555")
WIDTH, HEIGHT = 6.4, 3.6
STYLE: Any = {
    "figure.dpi": 110,
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "legend.frameon": False,
    # Text stays text: it can be searched, and a page is smaller.
    "svg.fonttype": "none",
    "svg.hashsalt": "quicksilver",
}
LABELS_MAX = 70
"""Characters of names that fit below a drawing."""
TICKS_APART = 1.25
"""Marks of a log axis that are nearer to each other than this would overlap."""


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
    """A drawing of several series, with what is said about it."""

    name: str
    number: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    paper: str
    measured: str
    is_log: bool = False


@contextmanager
def drawing(
    folder: Path, name: str, rows: int = 1, height: float | None = None, **layout: Any
) -> Iterator[tuple[Any, Any]]:
    """Have axes to draw on; afterwards ``name.svg`` and ``name.png`` are there."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context(STYLE):
        tall = height or HEIGHT * (1 if rows == 1 else 0.55 * rows)
        canvas = Canvas(figsize=(WIDTH, tall))
        FigureCanvasAgg(canvas)
        yield canvas, canvas.subplots(rows, 1, sharex=rows > 1, **layout)
        canvas.tight_layout()
        # Legends stand outside of the axes: the paper is cut around all of it.
        cut: Any = {"bbox_inches": "tight", "pad_inches": 0.08}
        canvas.savefig(folder / f"{name}.png", dpi=140, **cut)
        # Without a date the same values give the same file; without a ground it fits
        # bright pages and dark ones.
        canvas.savefig(folder / f"{name}.svg", metadata={"Date": None}, transparent=True, **cut)


def draw_lines(folder: Path, figure: Figure, lines: Sequence[Line]) -> None:
    """Draw a metric against an axis of a sweep, with intervals where there are any."""
    with drawing(folder, figure.name) as (_, axes):
        for line, colour in zip(lines, COLOURS * (1 + len(lines) // len(COLOURS)), strict=False):
            xs, ys = [v.x for v in line.values], [v.y for v in line.values]
            errors = [v.half_width or 0.0 for v in line.values]
            has_intervals = any(v.half_width is not None for v in line.values)
            axes.errorbar(
                xs,
                ys,
                yerr=errors if has_intervals else None,
                marker="o",
                markersize=4,
                capsize=3,
                color=colour,
                label=line.label,
            )
        finish(axes, figure.title, figure.x_label, figure.y_label)
        if figure.is_log and all(v.x > 0 for line in lines for v in line.values):
            make_log(axes, {v.x for line in lines for v in line.values})
        if len(lines) > 1:
            add_legend(axes, len(lines))


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


def add_legend(axes: Axes, entries: int) -> None:
    """Say what is what, below the drawing: there it covers no value."""
    axes.legend(
        fontsize=8,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.17),
        ncols=1 if entries == 1 else 2 if entries != 3 else 3,
    )


def make_log(axes: Axes, values: set[float]) -> None:
    """Make the x axis logarithmic, with marks where values are."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    marks: list[float] = []
    for value in sorted(values):
        if not marks or value >= TICKS_APART * marks[-1]:
            marks.append(value)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(marks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def make_log_times(axes: Axes) -> None:
    """Make the x axis logarithmic, for delays that may be anything."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    low, high = axes.get_xlim()
    # Few decades leave room for marks in between.
    between = (1.0, 2.0, 5.0) if high < 3000 * low else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=between))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())


def short(value: float) -> str:
    """Return a number as a mark of an axis: 2,000 or 256k."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    if abs(value) >= 1e4:
        return f"{value / 1e3:.3g}k"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def finish(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    """Name the axes, and let the upright one begin at nothing."""
    from matplotlib.ticker import FuncFormatter

    axes.set_title(title, loc="left", fontsize=10.5)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_ylim(0, 1.08 * max(axes.get_ylim()[1], 1e-9))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    if axes.get_ylim()[1] >= 1000:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))


def draw_distribution(
    folder: Path, figure: Distribution, lines: Mapping[str, Sequence[tuple[int, int]]]
) -> None:
    """Draw counts in log bins, as they are or added up."""
    with drawing(folder, figure.name) as (_, axes):
        for place, (label, counts) in enumerate(lines.items()):
            colour = COLOURS[place % len(COLOURS)]
            if figure.is_cumulative:
                xs, ys = cumulate(counts)
                axes.step(xs, ys, where="post", color=colour, label=label, linewidth=1.4)
            else:
                _draw_histogram(axes, label, counts, colour, place, len(lines))
        finish(axes, figure.title, figure.x_label, "% of them")
        make_log_times(axes)
        add_legend(axes, len(lines))


def _draw_histogram(
    axes: Axes,
    label: str,
    counts: Sequence[tuple[int, int]],
    colour: str,
    place: int,
    lines: int,
) -> None:
    """Lines of a histogram stand side by side: each has a part of every bin."""
    total = sum(count for _, count in counts)
    lefts, widths = [], []
    for number, _ in counts:
        low, step = upper_ms(number - 1), upper_ms(number) / upper_ms(number - 1)
        left, right = (low * step ** ((place + part) / lines) for part in (0, 1))
        lefts.append(left)
        widths.append(right - left)
    heights = [100 * count / total for _, count in counts]
    axes.bar(lefts, heights, width=widths, align="edge", color=colour, label=f"{label} ({total:,})")


def cumulate(counts: Sequence[tuple[int, int]]) -> tuple[list[float], list[float]]:
    """Return upper edges in milliseconds, and the percentage of values below each."""
    total, so_far = sum(count for _, count in counts), 0
    xs, ys = [upper_ms(counts[0][0] - 1)], [0.0]
    for number, count in sorted(counts):
        so_far += count
        xs.append(upper_ms(number))
        ys.append(100 * so_far / total)
    return xs, ys


def draw_bars(
    folder: Path, figure: Bars, groups: Mapping[str, Sequence[tuple[str, Value]]]
) -> None:
    """Draw a metric for each kind of run; groups stand side by side."""
    from matplotlib.ticker import FuncFormatter

    kinds = [kind for kind in figure.kinds if any(kind in dict(bars) for bars in groups.values())]
    width = 0.7 / len(groups)
    with drawing(folder, figure.name) as (_, axes):
        for number, (group, bars) in enumerate(groups.items()):
            shift = (number - (len(groups) - 1) / 2) * width
            errors = [value.half_width or 0.0 for _, value in bars]
            axes.bar(
                [kinds.index(kind) + shift for kind, _ in bars],
                # On a logarithmic axis nothing would be no bar at all.
                [max(figure.floor, value.y) for _, value in bars],
                yerr=errors if any(errors) else None,
                capsize=3,
                color=COLOURS[number % len(COLOURS)],
                width=0.9 * width,
                label=group,
            )
        finish(axes, figure.title, "", figure.y_label)
        is_long = sum(map(len, kinds)) > LABELS_MAX
        axes.set_xticks(
            range(len(kinds)),
            kinds,
            rotation=35 if is_long else 0,
            ha="right" if is_long else "center",
        )
        if figure.floor:
            axes.set_yscale("log")
            axes.set_ylim(figure.floor, None)
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        if len(groups) > 1:
            axes.legend(fontsize=8, loc="upper left")


def draw_cdf(folder: Path, name: str, counts: Mapping[int, int]) -> None:
    """Draw the distribution of delays out of log bins."""
    xs, ys = cumulate(sorted(counts.items()))
    with drawing(folder, name) as (_, axes):
        axes.step(xs, ys, where="post", color=COLOURS[0])
        finish(axes, "From departure to arrival of sampled packets", "ms", "% of packets")
        make_log_times(axes)


def as_image(path: Path) -> str:
    """Return a drawing as an address that contains it, so that a page needs no other file."""
    return "data:image/svg+xml;base64," + b64encode(path.read_bytes()).decode("ascii")
