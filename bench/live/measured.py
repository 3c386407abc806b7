"""A measurement, and what it was to be."""

from __future__ import annotations

import timeit
from collections.abc import Callable

import msgspec

from quicksilver.node.samples import resident_bytes


class Measured(msgspec.Struct, frozen=True):
    """One number."""

    what: str
    value: float
    unit: str
    target: float | None = None
    """Not to be passed; None: there is none."""

    @property
    def verdict(self) -> str:
        """Whether the target is met."""
        if self.target is None:
            return ""
        return "met" if self.value <= self.target else "missed"


def best_us(work: Callable[[], object], *, number: int, repeats: int = 9) -> float:
    """Return microseconds a call, the best of several repeats: the least disturbed."""
    return min(timeit.repeat(work, number=number, repeat=repeats)) / number * 1e6


def resident_mb() -> float:
    """Return the memory of this process, in millions of bytes."""
    return resident_bytes() / 1e6
