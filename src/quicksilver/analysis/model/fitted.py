"""The fitted model as data, and small functions that the fits of all equations share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from quicksilver.analysis.estimates import Fit, r_squared, root_mean_square
from quicksilver.analysis.model.observations import Observation


class Equation(msgspec.Struct, frozen=True, kw_only=True):
    """One equation, fitted."""

    number: str
    form: str
    fit: Fit
    unit: str
    """Of what was fitted, and so of what is left over."""
    scale: float = 1.0
    """From SI to that unit."""
    runs: tuple[str, ...]
    remark: str = ""


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """An equation that could not be fitted, and what would help."""

    number: str
    needs: str


class Fitted(msgspec.Struct, frozen=True, kw_only=True):
    """The whole model."""

    setting: str
    message_bytes: float
    ring_size: int
    token_interval_s: float | None
    latency_s: float | None
    nodes_max: int
    """The largest group that was measured at full rate, or else at all."""
    equations: tuple[Equation, ...]
    missing: tuple[Missing, ...]

    def find(self, number: str) -> Equation | None:
        return next((e for e in self.equations if e.number == number), None)

    def value(self, number: str, name: str, default: float | None = None) -> float | None:
        """Return a parameter of an equation, if it was fitted."""
        found = self.find(number)
        if found is None or name not in found.fit.estimates:
            return default
        return found.fit[name]


Found = tuple[list[Equation], list[Missing]]


def mean_of(values: Sequence[float]) -> float | None:
    """Return the mean; None without any value."""
    return sum(values) / len(values) if values else None


def names_of(observations: Sequence[Observation]) -> tuple[str, ...]:
    """Return which runs these are."""
    return tuple(o.origin for o in observations)


def usable(
    observations: Sequence[Observation], *getters: Callable[[Observation], float | None]
) -> list[Observation]:
    """Return the runs that have all of some values."""
    return [o for o in observations if all(get(o) is not None for get in getters)]


def known(value: float | None) -> float:
    """Return a value of a run that ``usable`` has found to have it."""
    assert value is not None
    return value


def different(what: str, option: str) -> str:
    """Return a request for runs, with the command that makes them."""
    values = {"--rate": "1000,2000,4000,6000,8000", "--nodes": "2,5,10,20,50"}[option]
    name = {"--rate": "light --sim", "--nodes": "scale --senders 1"}[option]
    return f"runs with different {what}: quicksilver experiment {name} {option} {values}"


def judge(fit: Fit, measured: Sequence[float], predicted: Sequence[float]) -> Fit:
    """Return a fit of a part as a fit of the whole quantity."""
    return msgspec.structs.replace(
        fit,
        r2=r_squared(measured, predicted),
        rmse=root_mean_square([m - p for m, p in zip(measured, predicted, strict=True)]),
        left_out_rmse=None,
    )
