"""How sure a number is: Student's t."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import stdev

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
