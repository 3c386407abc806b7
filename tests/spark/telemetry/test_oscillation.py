"""A wave is found, the beginning and end of a run are not one."""

from __future__ import annotations

from math import pi, sin

import pytest

pandas = pytest.importorskip("pandas")

from quicksilver.spark.telemetry.waves import find_wave  # noqa: E402  # needs pandas


def rates(values: list[float]) -> object:
    return pandas.DataFrame(
        {"run": "r", "node": 1, "second": range(len(values)), "delivered_per_s": values}
    )


def test_a_wave_of_ten_seconds_is_found_between_silences() -> None:
    wave = [100 + 50 * sin(2 * pi * second / 10) for second in range(60)]
    row = find_wave(rates([0.0] * 7 + wave + [0.0] * 5)).iloc[0]
    assert row["is_oscillating"]
    assert row["period_s"] == pytest.approx(10.0)
    assert row["amplitude"] == pytest.approx(0.5, abs=0.05)


def test_pulses_are_a_wave_although_they_spread_over_the_spectrum() -> None:
    """A receiver that stands still for two seconds out of six, and then catches up."""
    row = find_wave(rates([300.0, 300.0, 300.0, 180.0, 0.0, 720.0] * 6)).iloc[0]
    assert row["is_oscillating"]
    assert row["period_s"] == 6.0


def test_noise_is_no_wave() -> None:
    """However strong; of a hundred seeds one may be taken for a wave."""
    from random import Random

    found = 0
    for seed in range(100):
        random = Random(seed)
        noise = [100 * random.uniform(0.2, 1.8) for _ in range(40)]
        found += bool(find_wave(rates(noise)).iloc[0]["is_oscillating"])
    assert found <= 3


@pytest.mark.parametrize(
    "values",
    [
        [],
        [0.0] * 9,
        [100.0] * 40,
        [0.0] * 20 + [9.0] * 20,
        [300.0] * 10 + [150.0] * 25 + [300.0] * 5,
    ],
)
def test_what_is_even_or_begins_late_does_not_oscillate(values: list[float]) -> None:
    if values:
        assert not find_wave(rates(values)).iloc[0]["is_oscillating"]
