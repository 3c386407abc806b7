"""The bins that tables of delays have; the same as in experiments' points."""

from __future__ import annotations

from quicksilver.stdx.bins import BINS_AN_OCTAVE, FLOOR_US, percentile_ms, upper_ms

__all__ = ["BINS_AN_OCTAVE", "FLOOR_US", "percentile_ms", "upper_ms"]
