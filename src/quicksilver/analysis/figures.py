"""What a figure is, and its values out of an experiment's points.

Every figure is one metric against one axis of the sweep, a line for each value of
another. Points that were run several times become a mean with a 95 % interval
(Student's t); of one run there is a value and no interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from quicksilver.analysis.estimates import half_width
from quicksilver.stdx.bins import add_counts

Row = Mapping[str, Any]

BINS_MAX = 200
"""A bin beyond this is longer than a century: the file is not what it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One drawing: what is on its axes."""

    name: str
    experiment: str
    paper: str
    """Number of the figure in the dissertation, under which its experiment has the claim."""
    title: str
    x: str
    y: str
    x_label: str
    y_label: str
    scale: float = 1.0
    is_log: bool = False
    """The x axis is logarithmic."""
    label: str = ""
    """What ``y`` is called where there is more than one metric …"""
    more: tuple[tuple[str, str], ...] = ()
    """… and the others, of the same unit: metric and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A drawing of counts in log bins: how many delays were how long."""

    name: str
    experiment: str
    paper: str
    title: str
    bins: str
    """The metric that has the counts."""
    by: str
    """The parameter that makes lines."""
    x_label: str
    is_cumulative: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A drawing of a metric for each of some kinds of runs."""

    name: str
    experiment: str
    paper: str
    title: str
    by: str
    kinds: tuple[str, ...]
    y: str
    y_label: str
    group: str = ""
    """The parameter whose values stand side by side, such as two versions; empty: none."""
    floor: float = 0.0
    """Above 0: the upright axis is logarithmic, and begins here."""


@dataclass(frozen=True, slots=True)
class Value:
    """One mark: where, how much, how sure, out of how many runs."""

    x: float
    y: float
    half_width: float | None
    runs: int


@dataclass(frozen=True, slots=True)
class Line:
    """Marks that belong together."""

    label: str
    values: tuple[Value, ...]


LABELLED = (
    "kind",
    "machine",
    "senders",
    "perturbed",
    "rate",
    "place",
    "ranges",
    "slowness",
    "nodes",
    "groups",
)
"""Parameters by which lines are told apart where they vary."""


def lines_of(figure: Figure, rows: Sequence[Row]) -> list[Line]:
    """Return a figure's lines out of finished points; none if they have nothing for it."""
    metrics = ((figure.y, figure.label), *figure.more)
    found = []
    for metric, label in metrics:
        found += _lines_of_metric(figure, metric, label if figure.more else "", rows)
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _lines_of_metric(figure: Figure, metric: str, label: str, rows: Sequence[Row]) -> list[Line]:
    usable = [
        row
        for row in rows
        if row["experiment"] == figure.experiment
        and _is_number(row.get(metric))
        and _is_number(row.get(figure.x))
    ]
    varying = _varying(figure.x, usable)
    by_line: dict[tuple[str, ...], dict[float, list[float]]] = {}
    for row in usable:
        name = tuple(_show(key, row.get(key)) for key in varying)
        marks = by_line.setdefault(name, {})
        marks.setdefault(float(row[figure.x]), []).append(float(row[metric]) * figure.scale)
    return [
        Line(
            ", ".join([*([label] if label else []), *name]) or "measured",
            tuple(Value(x, mean(ys), half_width(ys), len(ys)) for x, ys in sorted(marks.items())),
        )
        for name, marks in sorted(by_line.items())
    ]


def counts_of(figure: Distribution, rows: Sequence[Row]) -> dict[str, list[tuple[int, int]]]:
    """Return counts by bin for each line of a distribution; rounds are added up."""
    usable = [row for row in rows if row["experiment"] == figure.experiment]
    found: dict[str, list[list[tuple[int, int]]]] = {}
    varying = [key for key in _varying("", usable) if key in ("place", figure.by)]
    for row in sorted(usable, key=lambda row: (_is_number(row.get(figure.by)), row.get(figure.by))):
        counts = _checked(row.get(figure.bins))
        if counts:
            label = ", ".join(_show(key, row.get(key)) for key in varying) or "measured"
            found.setdefault(label, []).append(counts)
    return {label: add_counts(several) for label, several in found.items()}


def _checked(counts: object) -> list[tuple[int, int]]:
    """Return counts as a file has them, if that is what they are."""
    if not isinstance(counts, list):
        return []
    pairs = [pair for pair in counts if isinstance(pair, list | tuple) and len(pair) == 2]
    return [
        (number, count)
        for number, count in pairs
        if isinstance(number, int) and isinstance(count, int) and 0 <= number < BINS_MAX
    ]


def bars_of(figure: Bars, rows: Sequence[Row]) -> dict[str, list[tuple[str, Value]]]:
    """Return the bars for which there are points, in the figure's order, for each group."""
    found: dict[str, list[tuple[str, Value]]] = {}
    usable = [
        row
        for row in rows
        if row["experiment"] == figure.experiment
        and not row.get("rate")
        and _is_number(row.get(figure.y))
    ]
    for group in dict.fromkeys(str(row.get(figure.group, "")) for row in usable):
        chosen = [row for row in usable if str(row.get(figure.group, "")) == group]
        bars = []
        for place, kind in enumerate(figure.kinds):
            ys = [float(row[figure.y]) for row in chosen if row.get(figure.by) == kind]
            if ys:
                bars.append((kind, Value(float(place), mean(ys), half_width(ys), len(ys))))
        if bars:
            found[group] = bars
    return found


def _varying(axis: str, rows: Sequence[Row]) -> list[str]:
    """Parameters other than the axis that differ between rows: they make lines."""
    fixed = {axis, "round", "seed", "point", "experiment"}
    return [
        key
        for key in LABELLED
        if key not in fixed and len({_show(key, row.get(key)) for row in rows}) > 1
    ]


def _show(key: str, value: object) -> str:
    match key, value:
        case "place", str():
            return {"sim": "simulated", "real": "real processes"}.get(value, value)
        case "kind", str():
            return {"scopes": "a tree of scopes", "flat": "one flat GMS"}.get(value, value)
        case "perturbed", bool():
            return "one perturbed" if value else "undisturbed"
        case "ranges", 0:
            return "as many ranges as nodes"
        case _, True:
            return str(key)
        case _, False:
            return f"not {key}"
        case "rate", 0 | 0.0:
            return "full rate"
        case _, float():
            return f"{key} {value:g}"
        case "machine", _:
            return str(value)
        case _, 1:
            return f"1 {key.removesuffix('s')}"
        case _, int():
            return f"{value:,} {key}"
        case _:
            return f"{value} {key}"
