"""Figures as SVG and PNG, in one plain style."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quicksilver.spark.report.events import Event
from quicksilver.spark.report.figures import Figure, Line

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
MARKS = {
    "ViewInstalled": ("|", "#2f8f5b"),
    "ViewRetired": ("|", "#9ac5ac"),
    "NodesFailed": ("X", "#c01717"),
    "WasExcluded": ("X", "#7a0f0f"),
    "PacketsMissed": ("v", "#c8501e"),
    "RepairsSent": ("^", "#1f5fa8"),
    "PacketsResent": ("D", "#7b4fa3"),
}
ARROWS_MAX = 400


@contextmanager
def drawing(folder: Path, name: str, rows: int = 1) -> Iterator[tuple[Any, Any]]:
    """Have axes to draw on; afterwards ``name.svg`` and ``name.png`` are there."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=(WIDTH, HEIGHT * (1 if rows == 1 else 0.55 * rows)))
        FigureCanvasAgg(canvas)
        yield canvas, canvas.subplots(rows, 1, sharex=rows > 1)
        canvas.tight_layout()
        canvas.savefig(folder / f"{name}.png", dpi=140)
        # Without a date the same values give the same file.
        canvas.savefig(folder / f"{name}.svg", metadata={"Date": None})


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
            _make_log(axes, sorted({v.x for line in lines for v in line.values}))
        if len(lines) > 1:
            axes.legend(fontsize=8)


def _make_log(axes: Axes, values: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(list(values)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def finish(axes: Axes, title: str, x_label: str, y_label: str) -> None:
    """Name the axes, and let the upright one begin at nothing."""
    axes.set_title(title, loc="left", fontsize=10.5)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_ylim(0, 1.08 * max(axes.get_ylim()[1], 1e-9))


def draw_timeline(folder: Path, name: str, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw an experiment's timeline: rates of the others and of who has trouble."""
    times = [row["at_s"] for row in rows]
    with drawing(folder, name, rows=2) as (_, (rates, pending)):
        curves = {"others, slowest": [row["received_messages_min"] for row in rows]}
        for place in range(len(rows[0]["received_messages_disturbed"])):
            curves[f"disturbed {place}" if place else "disturbed"] = [
                row["received_messages_disturbed"][place] for row in rows
            ]
        for (label, totals), colour in zip(curves.items(), COLOURS, strict=False):
            rates.plot(times[1:], _rates(times, totals), label=label, color=colour, linewidth=1.4)
        rates.legend(fontsize=8)
        finish(rates, title, "", "thousand messages/s")
        pending.plot(times, [row["pending_bytes"] / 1e6 for row in rows], color=COLOURS[3])
        finish(pending, "", "s since the warm-up began", "pending, MB")


def _rates(times: Sequence[float], totals: Sequence[float]) -> list[float]:
    return [
        (totals[i] - totals[i - 1]) / max(1e-9, times[i] - times[i - 1]) / 1e3
        for i in range(1, len(times))
    ]


def draw_seconds(
    folder: Path, name: str, by_node: Mapping[int, Sequence[Mapping[str, Any]]]
) -> None:
    """Draw rates, pending data and processor of each node, second by second."""
    began = min(row["second"] for rows in by_node.values() for row in rows)
    parts = (
        ("delivered_per_s", 1e-3, "thousand\ndelivered/s"),
        ("pending_bytes", 1e-6, "pending, MB"),
        ("memory_bytes", 1e-6, "memory, MB"),
        ("cpu_percent", 1.0, "processor, %"),
    )
    with drawing(folder, name, rows=len(parts)) as (_, panels):
        for axes, (column, scale, label) in zip(panels, parts, strict=True):
            for place, (node, rows) in enumerate(sorted(by_node.items())):
                axes.plot(
                    [row["second"] - began for row in rows],
                    [scale * (row[column] or 0) for row in rows],
                    label=f"node {node}",
                    color=COLOURS[place % len(COLOURS)],
                    linewidth=1.2,
                    alpha=0.85,
                )
            finish(axes, "", "", label)
        panels[0].set_title("By the second", loc="left", fontsize=10.5)
        if len(by_node) <= len(COLOURS):
            panels[0].legend(fontsize=8, ncols=3)
        panels[-1].set_xlabel("s")


def draw_events(
    folder: Path,
    name: str,
    events: Sequence[Event],
    rounds: Sequence[tuple[float, int]],
    began: float,
) -> None:
    """Draw who lost what and who repaired it: a row a node, an arrow a repair."""
    nodes = sorted({e.node for e in events} | {e.other for e in events if e.other is not None})
    rows = {node: place for place, node in enumerate(nodes)}
    with drawing(folder, name, rows=2) as (_, (axes, tokens)):
        for kind, (mark, colour) in MARKS.items():
            chosen = [event for event in events if event.kind == kind]
            if chosen:
                axes.scatter(
                    [event.at - began for event in chosen],
                    [rows[event.node] for event in chosen],
                    marker=mark,
                    s=26,
                    color=colour,
                    label=kind,
                    zorder=3,
                )
        repairs = [event for event in events if event.kind == "RepairsSent"][:ARROWS_MAX]
        for event in repairs:
            if event.other is not None:
                axes.annotate(
                    "",
                    xy=(event.at - began, rows[event.other]),
                    xytext=(event.at - began, rows[event.node]),
                    arrowprops={"arrowstyle": "->", "color": "#1f5fa8", "alpha": 0.35},
                )
        axes.set_yticks(list(rows.values()), [f"node {node}" for node in rows])
        axes.set_title("Who lost what, and who repaired it", loc="left", fontsize=10.5)
        axes.legend(fontsize=7.5, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.04))
        tokens.scatter(
            [at - began for at, _ in rounds], [1e-3 * us for _, us in rounds], s=6, color=COLOURS[0]
        )
        finish(tokens, "Token round-trips", "s since the run began", "ms")


def draw_cdf(folder: Path, name: str, counts: Mapping[int, int]) -> None:
    """Draw the distribution of delays out of log bins."""
    from quicksilver.spark.telemetry.bins import upper_ms

    total, so_far = sum(counts.values()), 0
    xs, ys = [], []
    for number, count in sorted(counts.items()):
        so_far += count
        xs.append(upper_ms(number))
        ys.append(100 * so_far / total)
    with drawing(folder, name) as (_, axes):
        axes.step(xs, ys, where="post", color=COLOURS[0])
        axes.set_xscale("log")
        finish(axes, "From departure to arrival of sampled packets", "ms", "% of packets")


def as_image(path: Path) -> str:
    """Return a drawing as an address that contains it, so that a page needs no other file."""
    return "data:image/svg+xml;base64," + b64encode(path.read_bytes()).decode("ascii")
