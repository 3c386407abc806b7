"""Estimates and how sure they are: means, least squares, intervals, R², what is left over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import stdev

import msgspec
import numpy as np

RESOLUTION = 1e-9
"""No measurement is taken to be better than this part of itself.

Runs may agree to the last bit, and what a fit then leaves over is the rounding of its
own arithmetic, which differs between processors and may be exactly zero. Standard
errors never go below this, so nothing that is decided by them is decided by rounding.
"""

RANK_TOLERANCE = 1e-7
"""Columns that depend on each other but for this part do not determine a fit."""

_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)


def t95(freedom: int) -> float:
    """Return Student's t of a 95 % interval; to 0.3 % for more than 10 degrees of freedom."""
    assert freedom >= 1
    return _T95[freedom - 1] if freedom <= len(_T95) else 1.96 + 2.6 / freedom


def half_width(values: Sequence[float]) -> float | None:
    """Return half of the 95 % interval of the mean; None for fewer than two values."""
    count = len(values)
    if count < 2:
        return None
    return float(t95(count - 1) * stdev(values) / count**0.5)


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted value with its 95 % interval; none where no run was left to judge by."""

    value: float
    standard_error: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def is_distinct_from_zero(self) -> bool:
        """Whether zero is outside of the interval."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """A least-squares fit: estimated parameters, and how well they fit."""

    names: tuple[str, ...]
    estimates: dict[str, Estimate]
    covariance: tuple[tuple[float, ...], ...]
    """Of the values, in the order of their names; zeros where it is unknown."""
    r2: float | None
    """Part of the variance that is explained; None where there is none."""
    rmse: float
    """What is left over, as a root of the mean square, in the unit of what was fitted."""
    left_out_rmse: float | None
    """The same when every run is predicted by a fit of the others (leave one out)."""
    runs: int

    @property
    def has_intervals(self) -> bool:
        """Whether there were more runs than values to find, so that errors are known."""
        return self.runs > len(self.names)

    def __getitem__(self, name: str) -> float:
        return self.estimates[name].value


def least_squares(columns: Mapping[str, Sequence[float]], target: Sequence[float]) -> Fit | None:
    """Fit ``target`` as a sum of columns; None where the runs do not determine it."""
    names = tuple(columns)
    x = np.array([columns[name] for name in names], dtype=float).T
    y = np.asarray(target, dtype=float)
    count, width = x.shape if x.size else (0, len(names))
    # Columns differ by ten orders of magnitude: each is scaled to its largest.
    scale = np.abs(x).max(axis=0) if count else np.ones(width)
    if count < width or not np.all(scale > 0):
        return None
    left, sizes, right = np.linalg.svd(x / scale, full_matrices=False)
    if sizes[-1] < RANK_TOLERANCE * sizes[0]:
        return None
    back = right.T / sizes
    solved = back @ (left.T @ y)
    rest = y - x @ (solved / scale)
    freedom = count - width
    squares = float(rest @ rest)
    covariance = np.zeros((width, width))
    if freedom > 0:
        variance = max(squares / freedom, RESOLUTION**2 * float(y @ y) / count)
        covariance = variance * (back @ back.T) / np.outer(scale, scale)
    values = solved / scale
    errors = np.sqrt(np.diag(covariance))
    return Fit(
        names=names,
        estimates={
            name: _estimate(float(value), float(error), freedom)
            for name, value, error in zip(names, values, errors, strict=True)
        },
        covariance=tuple(tuple(float(v) for v in row) for row in covariance),
        r2=r_squared(y.tolist(), (y - rest).tolist()),
        rmse=(squares / count) ** 0.5,
        left_out_rmse=_left_out(left, rest) if freedom > 0 else None,
        runs=count,
    )


def _estimate(value: float, error: float, freedom: int) -> Estimate:
    if freedom < 1:
        return Estimate(value=value)
    width = t95(freedom) * error
    return Estimate(value=value, standard_error=error, low=value - width, high=value + width)


def _left_out(
    left: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    rest: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> float | None:
    """What a run is missed by when it is not fitted, out of the leverages."""
    free = 1.0 - np.sum(left * left, axis=1)
    if np.any(free < RESOLUTION):
        return None
    return float(np.sqrt(np.mean((rest / free) ** 2)))


def r_squared(measured: Sequence[float], predicted: Sequence[float]) -> float | None:
    """Return the part of the variance that a prediction explains; below zero: it is worse
    than the mean. None where nothing varies."""
    middle = sum(measured) / len(measured) if measured else 0.0
    total = sum((value - middle) ** 2 for value in measured)
    # Of what is the same to a thousandth, noise is all that could be explained.
    if total <= 1e-6 * sum(value * value for value in measured) or not measured:
        return None
    left = sum((m - p) ** 2 for m, p in zip(measured, predicted, strict=True))
    return 1.0 - left / total


def root_mean_square(values: Sequence[float]) -> float:
    return (sum(value * value for value in values) / len(values)) ** 0.5 if values else 0.0
