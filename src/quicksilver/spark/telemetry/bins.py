"""Delays in bins of a quarter octave: percentiles without keeping every value."""

from __future__ import annotations

from collections.abc import Iterable

BINS_AN_OCTAVE = 4
FLOOR_US = 1.0
"""Shorter delays, and those that a clock makes negative, are in the lowest bin."""


def upper_ms(number: int) -> float:
    """Return the upper edge of a bin, in milliseconds."""
    return float(2 ** ((number + 1) / BINS_AN_OCTAVE)) * FLOOR_US / 1e3


def percentile_ms(counts: Iterable[tuple[int, int]], part: float) -> float | None:
    """Return the edge below which a part of the values lies; None without any.

    At most 19 % above the true value, which is the width of a bin.
    """
    ordered = sorted(counts)
    total = sum(count for _, count in ordered)
    seen = 0
    for number, count in ordered:
        seen += count
        if seen >= part * total and total:
            return upper_ms(number)
    return None
