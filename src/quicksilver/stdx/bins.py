"""Delays in bins of a quarter octave: distributions without keeping every value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import floor, log2

BINS_AN_OCTAVE = 4
FLOOR_US = 1.0
"""Shorter delays, and those that a clock makes negative, are in the lowest bin."""


def number_of(delay_s: float) -> int:
    """Return the bin that a delay, in seconds, belongs to."""
    if delay_s * 1e6 <= FLOOR_US:
        return 0
    return floor(BINS_AN_OCTAVE * log2(delay_s * 1e6 / FLOOR_US))


def count_delays(delays_s: Iterable[float]) -> list[tuple[int, int]]:
    """Return bins with how many delays, in seconds, are in each, in order."""
    return sorted(Counter(map(number_of, delays_s)).items())


def add_counts(several: Iterable[Iterable[tuple[int, int]]]) -> list[tuple[int, int]]:
    """Return counts of several distributions as one."""
    total: Counter[int] = Counter()
    for counts in several:
        for number, count in counts:
            total[number] += count
    return sorted(total.items())


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
