"""A wave is found, the beginning and end of a run are not one."""

from __future__ import annotations

from math import pi, sin
from random import Random

import pytest

from quicksilver.analysis.waves import Wave, find_wave, strongest_wave

pytest.importorskip("numpy")


def test_a_wave_of_ten_seconds_is_found_between_silences() -> None:
    wave = [100 + 50 * sin(2 * pi * second / 10) for second in range(62)]
    _, period_s, amplitude, _, is_oscillating = find_wave([0.0] * 7 + wave + [0.0] * 5)
    assert is_oscillating
    assert period_s == 10.0
    assert amplitude == pytest.approx(0.5, abs=0.05)


def test_pulses_are_a_wave_although_they_spread_over_the_spectrum() -> None:
    """A receiver that stands still for two seconds out of six, and then catches up."""
    found = find_wave([300.0, 300.0, 300.0, 180.0, 0.0, 720.0] * 6)
    assert found[-1]
    assert found[1] == 6.0


def test_noise_is_no_wave() -> None:
    """However strong; a few seeds of a hundred may look like one."""
    found = 0
    for seed in range(100):
        random = Random(seed)
        found += find_wave([100 * random.uniform(0.2, 1.8) for _ in range(40)])[-1]
    assert found <= 3


@pytest.mark.parametrize(
    "rates",
    [
        [],
        [0.0] * 9,
        [100.0] * 40,
        [0.0] * 20 + [9.0] * 20,
        [300.0] * 10 + [150.0] * 25 + [300.0] * 5,
    ],
    ids=["nothing", "silence", "even", "late", "a slow part"],
)
def test_what_is_even_or_changes_once_does_not_oscillate(rates: list[float]) -> None:
    assert not find_wave(rates)[-1]


@pytest.mark.parametrize("value", [0.1, 1 / 3, 4321.7])
def test_rounding_is_no_wave(value: float) -> None:
    """The mean of equal values need not be that value."""
    assert strongest_wave([value] * 61) == Wave(0.0, 0.0, 0.0)
