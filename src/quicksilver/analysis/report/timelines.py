"""Drawings over time: an experiment's totals, a run by the second, a recovery event by event.

Also the memory of a soak's processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quicksilver.analysis.drawing import COLOURS, drawing, finish
from quicksilver.analysis.report.events import LOSSES, Event, Round
from quicksilver.lab.soak.report import SoakReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MARKS = {
    "ViewInstalled": ("|", "#2f8f5b", "a view begins"),
    "ViewRetired": ("|", "#9ac5ac", "a view is finished"),
    "NodesFailed": ("X", "#c01717", "hears of a failure"),
    "WasExcluded": ("X", "#7a0f0f", "was excluded"),
    "PacketsMissed": ("v", "#c8501e", "lacks packets, asks"),
    "RepairsSent": ("^", "#1f5fa8", "sends a repair"),
    "PacketsResent": ("D", "#7b4fa3", "sender repeats"),
}
ARROWS_MAX = 400
FEW_SECONDS = 5
"""Of so few seconds one sees where they are."""
TRACKS_MAX = 16
TRACK_INCHES = 0.26
SECONDS_HIDDEN = 12
"""Nodes of which one cannot tell the lines apart: they become a band."""


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
        finish(rates, title, "", "thousand messages/s")
        rates.set_ylim(0, 1.25 * rates.get_ylim()[1])
        rates.legend(fontsize=8, ncols=3, loc="upper right")
        pending.plot(times, [row["pending_bytes"] / 1e6 for row in rows], color=COLOURS[3])
        finish(pending, "", "s since the warm-up began", "pending, MB")


def _rates(times: Sequence[float], totals: Sequence[float]) -> list[float]:
    return [
        (totals[i] - totals[i - 1]) / max(1e-9, times[i] - times[i - 1]) / 1e3
        for i in range(1, len(times))
    ]


PARTS = (
    ("sent_per_s", 1e-3, "thousand\nsent/s"),
    ("delivered_per_s", 1e-3, "thousand\ndelivered/s"),
    ("lost_per_s", 1.0, "packets\nlost/s"),
    ("pending_bytes", 1e-6, "pending, MB"),
    ("memory_bytes", 1e-6, "memory, MB"),
    ("cpu_percent", 1.0, "processor, %"),
)


def draw_seconds(
    folder: Path, name: str, by_node: Mapping[int, Sequence[Mapping[str, Any]]]
) -> None:
    """Draw rates, losses, pending data and processor of each node, second by second."""
    began = min(row["second"] for rows in by_node.values() for row in rows)
    parts = [
        part for part in PARTS if any(row.get(part[0]) for rows in by_node.values() for row in rows)
    ]
    with drawing(folder, name, rows=len(parts), height=1.3 * len(parts) + 0.8) as (_, panels):
        each = panels if len(parts) > 1 else [panels]
        for axes, (column, scale, label) in zip(each, parts, strict=True):
            for place, (node, rows) in enumerate(sorted(by_node.items())):
                axes.plot(
                    [row["second"] - began for row in rows],
                    [scale * (row[column] or 0) for row in rows],
                    label=f"node {node}",
                    color=COLOURS[place % len(COLOURS)],
                    linewidth=1.2,
                    marker="o" if len(rows) <= FEW_SECONDS else "",
                    markersize=3,
                    alpha=0.85 if len(by_node) <= SECONDS_HIDDEN else 0.4,
                )
            finish(axes, "", "", label)
        each[0].set_title("By the second", loc="left", fontsize=10.5)
        each[-1].set_xlabel("s")
        if len(by_node) <= len(COLOURS):
            each[-1].legend(fontsize=8, ncols=6, loc="upper center", bbox_to_anchor=(0.5, -0.45))


def choose_tracks(events: Sequence[Event], limit: int = TRACKS_MAX) -> list[int]:
    """Return the nodes to be shown, in order: those that failed, lost and repaired most."""
    weights: Counter[int] = Counter()
    for event in events:
        weight = 1 if event.kind in LOSSES else 0.01
        weights[event.node] += weight  # type: ignore[assignment]  # fractions only order
        if event.other is not None:
            weights[event.other] += weight  # type: ignore[assignment]  # the same
        for failed in event.failed:
            weights[failed] += 1_000_000
    chosen = sorted(weights, key=lambda node: (-weights[node], node))[:limit]
    return sorted(chosen)


def draw_events(
    folder: Path,
    name: str,
    title: str,
    events: Sequence[Event],
    rounds: Sequence[Round],
    arrivals: Sequence[tuple[float, int]],
    span: tuple[float, float],
    began: float,
) -> int:
    """Draw who lost what and who repaired it: a track a node, an arrow a repair.

    Sampled arrivals of packets are dots: where they are missing, nothing came. Returns how
    many nodes have a track.
    """
    nodes = choose_tracks(events)
    tracks = {node: place for place, node in enumerate(nodes)}
    height = max(2.0, TRACK_INCHES * len(nodes) + 1.3)
    ratios = {"height_ratios": [height, 1.5]}
    with drawing(folder, name, rows=2, height=height + 1.9, gridspec_kw=ratios) as (
        canvas,
        (axes, tokens),
    ):
        heard = [(at, tracks[node]) for at, node in arrivals if node in tracks]
        axes.scatter(
            [at - began for at, _ in heard],
            [track for _, track in heard],
            s=4,
            color="#b4bac6",
            label="receives (sampled)",
            zorder=1,
        )
        _draw_tracks(axes, events, tracks, span, began)
        axes.set_title(title, loc="left", fontsize=10.5)
        levels = sorted({each.level for each in rounds})
        for level in levels:
            some = [each for each in rounds if each.level == level]
            tokens.scatter(
                [each.at - began for each in some],
                [1e3 * each.seconds for each in some],
                s=7,
                color=COLOURS[level % len(COLOURS)],
                label=f"rings of level {level}",
            )
        finish(tokens, "Token round-trips", "s since the run began", "ms")
        tokens.set_xlim(span[0] - began, span[1] - began)
        if len(levels) > 1:
            tokens.legend(
                fontsize=7.5, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(levels)
            )
        handles, labels = axes.get_legend_handles_labels()
        canvas.legend(
            handles, labels, fontsize=7.5, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 0.0)
        )
    return len(nodes)


def _draw_tracks(
    axes: Axes,
    events: Sequence[Event],
    tracks: Mapping[int, int],
    span: tuple[float, float],
    began: float,
) -> None:
    for kind, (mark, colour, label) in MARKS.items():
        chosen = [event for event in events if event.kind == kind and event.node in tracks]
        if chosen:
            axes.scatter(
                [event.at - began for event in chosen],
                [tracks[event.node] for event in chosen],
                marker=mark,
                s=[150.0 if mark == "|" else 18.0 + min(60, event.packets) for event in chosen],
                color=colour,
                label=label,
                zorder=3,
            )
    repairs = [e for e in events if e.kind == "RepairsSent" and e.other in tracks]
    for event in repairs[:ARROWS_MAX]:
        if event.node in tracks and event.other is not None:
            axes.annotate(
                "",
                xy=(event.at - began, tracks[event.other]),
                xytext=(event.at - began, tracks[event.node]),
                arrowprops={"arrowstyle": "->", "color": "#1f5fa8", "alpha": 0.35},
            )
    ends: dict[int, float] = {}
    for event in events:
        for failed in event.failed:
            ends[failed] = min(event.at, ends.get(failed, event.at))
    for failed, at in ends.items():
        if failed in tracks:
            axes.plot(
                [at - began, span[1] - began],
                [tracks[failed]] * 2,
                color="#c01717",
                linewidth=7,
                alpha=0.3,
                solid_capstyle="butt",
            )
    axes.set_xlim(span[0] - began, span[1] - began)
    axes.set_ylim(-0.7, len(tracks) - 0.3)
    axes.set_yticks(list(tracks.values()), [f"node {node}" for node in tracks], fontsize=8)


NAME = "soak-memory"


def draw_memory(folder: Path, report: SoakReport) -> None:
    """Draw resident memory against time; a process that was started again begins a new line."""
    places = sorted({name.partition(".")[0] for name in report.vitals})
    with drawing(folder, NAME) as (_, axes):
        for name, samples in sorted(report.vitals.items()):
            place = name.partition(".")[0]
            number = places.index(place)
            is_first = name.endswith(".0")
            axes.plot(
                [one.at for one in samples],
                [one.rss_bytes / 1e6 for one in samples],
                color=COLOURS[number % len(COLOURS)],
                linestyle="-" if number < len(COLOURS) else "--",
                linewidth=1.2,
                label=place if is_first else None,
            )
        acts = sum(report.acts.values())
        finish(axes, f"Memory during a soak with {acts} mishaps", "s", "resident, MB")
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=4)
