"""The figure of a soak: memory of every process over time."""

from __future__ import annotations

from pathlib import Path

from quicksilver.analysis.drawing import COLOURS, drawing, finish
from quicksilver.lab.soak.report import SoakReport

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
