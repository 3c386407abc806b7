"""Waves in rates: the spectral peak of what a node receives second by second."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, NamedTuple

SECONDS_MIN = 16
"""In less a wave cannot be told from chance."""
AMPLITUDE_MIN = 0.2
"""A wave of a fifth of the mean rate is called an oscillation,"""
RHYTHM_MIN = 0.5
"""if the rate resembles itself so much one period later,"""
CHANCES = 3.0
"""and by so many times more than noise of that length would."""
ROUNDING = 1e-9
"""Differences of this part of the mean are the arithmetic's own."""


class Wave(NamedTuple):
    """The strongest wave in a series."""

    period: float
    """In steps; 0: there is none."""
    amplitude: float
    """Over the mean, of the highest peak of the spectrum."""
    rhythm: float
    """How the series correlates with itself a period later; 1: it repeats itself."""


def strongest_wave(values: Sequence[float]) -> Wave:
    """Return the strongest wave, by fast Fourier transforms.

    The peak of the spectrum tells how strong it is. Its period is where the series is most
    like itself again, past the point where it is unlike itself: sharp pulses spread over many
    frequencies, and a slow change is like itself only nearby.
    """
    import numpy

    series = numpy.asarray(values, dtype=float)
    count = len(series)
    middle = float(series.mean()) if count else 0.0
    if count < 4 or middle <= 0 or series.std() <= ROUNDING * middle:
        return Wave(0.0, 0.0, 0.0)
    spectrum = numpy.fft.rfft(series - middle, 2 * count)
    heights = 2 * numpy.abs(numpy.fft.rfft(series - middle))[1:] / count
    amplitude = float(heights.max()) / middle
    same = numpy.fft.irfft(spectrum * numpy.conj(spectrum))[:count]
    likeness = same / same[0] * count / numpy.arange(count, 0, -1)
    unlike = numpy.flatnonzero(likeness < -ROUNDING)
    candidates = likeness[: count // 2 + 1]
    if not len(unlike) or unlike[0] >= len(candidates):
        return Wave(0.0, amplitude, 0.0)
    first = int(unlike[0])
    period = _first_peak(candidates, first)
    return Wave(float(period), amplitude, max(0.0, float(candidates[period])))


def _first_peak(likeness: Any, start: int) -> int:
    """Return where a series is most like itself.

    Two periods later it is as much so, and by chance more: the first high peak counts.
    """
    high = 0.9 * likeness[start:].max()
    for place in range(start, len(likeness) - 1):
        here = likeness[place]
        if here >= high and here >= likeness[place + 1]:
            return place
    return int(len(likeness) - 1)


def find_wave(rates: Sequence[float]) -> tuple[int, float, float, float, bool]:
    """Return seconds, period, amplitude, rhythm, and whether a node's rates oscillate.

    The silence before and after the traffic is left out. A wave fits at least twice into
    the rest: otherwise it is how a run begins and ends.
    """
    busy = [place for place, rate in enumerate(rates) if rate]
    # The first and the last second with traffic are parts of seconds.
    active = rates[busy[0] + 1 : busy[-1]] if busy else []
    wave = strongest_wave(active)
    is_oscillating = (
        len(active) >= SECONDS_MIN
        and wave.amplitude >= AMPLITUDE_MIN
        and wave.rhythm >= max(RHYTHM_MIN, CHANCES / sqrt(len(active) - wave.period))
    )
    return len(active), *wave, is_oscillating
