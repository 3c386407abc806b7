"""A wave is found, the beginning and end of a run are not one."""

from __future__ import annotations

from math import pi, sin

import pytest

pandas = pytest.importorskip("pandas")

from quicksilver.spark.telemetry.views import find_oscillation  # noqa: E402  # needs pandas


def rates(values: list[float]) -> object:
    return pandas.DataFrame(
        {"run": "r", "node": 1, "second": range(len(values)), "delivered_per_s": values}
    )


def test_a_wave_of_ten_seconds_is_found_between_silences() -> None:
    wave = [100 + 50 * sin(2 * pi * second / 10) for second in range(60)]
    row = find_oscillation(rates([0.0] * 7 + wave + [0.0] * 5)).iloc[0]
    assert row["is_oscillating"]
    assert row["period_s"] == pytest.approx(10.0)
    assert row["amplitude"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("values", [[], [0.0] * 9, [100.0] * 40, [0.0] * 20 + [9.0] * 20])
def test_what_is_even_or_begins_late_does_not_oscillate(values: list[float]) -> None:
    if values:
        assert not find_oscillation(rates(values)).iloc[0]["is_oscillating"]
