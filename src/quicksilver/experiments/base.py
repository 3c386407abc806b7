"""What an experiment is: a sweep, a way to run one point of it, and a claim to test."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, Literal

import msgspec

from quicksilver.stdx.errors import QuicksilverError

Place = Literal["sim", "real"]
Value = int | float | str | bool
Metrics = dict[str, Any]
"""Measured values by name; the unit is the end of the name (docs/experiments.md)."""

Row = dict[str, Any]
"""A finished point as the store gives it back: parameters, place and metrics in one."""


class ExperimentError(QuicksilverError):
    """An experiment cannot be run as asked; the text says what would do."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the summary: where its value is, and how it is shown."""

    name: str
    title: str
    form: str = "{:,.0f}"
    scale: float = 1.0

    def show(self, row: Mapping[str, Any]) -> str:
        value = row.get(self.name)
        if value is None:
            return "–"
        if isinstance(value, str | bool):
            return str(value)
        return self.form.format(value * self.scale if self.scale != 1.0 else value)


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence of the summary: what is claimed, what was measured, whether it holds."""

    what: str
    measured: str
    holds: bool | None = None
    """None: there is nothing to reach, or too little was measured to judge."""


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of parameters, in one place, in one round."""

    experiment: str
    place: Place
    round: int
    seed: int
    parameters: Mapping[str, Value]
    axes: tuple[str, ...]
    """The parameters that the sweep varies."""

    @property
    def id(self) -> str:
        """A name that is the same for the same point, and fits a folder's name."""
        parts = [f"{axis}-{self.parameters[axis]}" for axis in self.axes]
        text = msgspec.json.encode([sorted(self.parameters.items()), self.seed])
        mark = blake2b(text, digest_size=4).hexdigest()
        name = "_".join([self.place, *parts, f"round-{self.round}", mark])
        return "".join(c if c.isalnum() or c in "-_." else "-" for c in name)


@dataclass(slots=True)
class Context:
    """What a point is given to run with."""

    seed: int
    traces: Path | None = None
    """The run's folder of trace records (``run=…``); None: none are wanted."""
    model: Path | None = None
    """A machine's costs, as ``calibrate`` wrote them, in place of the named ones."""
    folder: Path | None = None
    """The experiment's own folder, for what is more than a point."""
    trace_records_max: int = 1_000_000


class Experiment(ABC):
    """Base of all experiments; a subclass states what differs."""

    name: str
    figures: str
    """Figures of the dissertation that it repeats."""
    title: str
    claims: Mapping[str, str]
    """What the papers say, in words and numbers, by figure or section; no full stop.

    The only place where it is said: summaries, commands and reports take it from here.
    """
    varies: str
    places: tuple[Place, ...] = ("sim",)
    """Where it can run; the first is where it runs when nobody says."""
    sweep: Mapping[str, Sequence[Value]]
    """The values of each axis; points are all combinations."""
    quick: Mapping[str, Sequence[Value]]
    """The same, to see in a minute or so that it works."""
    settings: Mapping[str, Value]
    """Everything else that ``--set`` can change."""
    quick_settings: Mapping[str, Value] = {}
    columns: tuple[Column, ...] = ()

    @property
    def claim(self) -> str:
        """All that the papers say, with the figures where they say it."""
        return " ".join(
            f"{text} ({figures})." if figures != "–" else f"{text}."
            for figures, text in self.claims.items()
        )

    def points(
        self,
        *,
        axes: Mapping[str, Sequence[Value]],
        settings: Mapping[str, Value],
        place: Place | None,
        rounds: int,
        seed: int,
    ) -> Iterator[Point]:
        """All points of a sweep, the small ones first as the axes give them."""
        names = tuple(axes)
        for round_ in range(rounds):
            for values in product(*axes.values()):
                parameters = dict(settings) | dict(zip(names, values, strict=True))
                if self.skips(parameters):
                    continue
                yield Point(
                    experiment=self.name,
                    place=place or self.place_of(parameters),
                    round=round_,
                    seed=seed + round_,
                    parameters=parameters,
                    axes=names,
                )

    def place_of(self, parameters: Mapping[str, Value]) -> Place:
        """Return where a point runs by default: ``sim`` or ``real``."""
        del parameters
        return self.places[0]

    def skips(self, parameters: Mapping[str, Value]) -> bool:
        """Whether a combination makes no sense."""
        del parameters
        return False

    @abstractmethod
    def run(self, point: Point, context: Context) -> Metrics:
        """Run one point and return what was measured."""

    def findings(self, rows: Sequence[Row]) -> list[Finding]:
        """What the rows say about the claim."""
        del rows
        return []


def choose(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    """Return the rows with these values."""
    return [row for row in rows if all(row.get(k) == v for k, v in wanted.items())]


def median_of(rows: Sequence[Row], name: str) -> float | None:
    """Return the median of a metric over rows that have it; None without any."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return float(median(values)) if values else None


def mean_of(rows: Sequence[Row], name: str) -> float | None:
    """Return the mean of a metric over rows that have it; None without any."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return sum(values) / len(values) if values else None
