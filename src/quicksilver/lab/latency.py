"""How old messages are when applications get them, and how long losses took to repair."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

QUIET_S = 0.1
"""Late messages further apart than this belong to different losses."""


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution of ages, in seconds."""

    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    p999_s: float
    max_s: float


def summarise_ages(ages_s: Sequence[float]) -> Latency | None:
    """Return mean and percentiles; None without any."""
    ordered = sorted(ages_s)
    if not ordered:
        return None

    def at(part: float) -> float:
        return ordered[min(len(ordered) - 1, int(part * len(ordered)))]

    return Latency(
        mean_s=sum(ordered) / len(ordered),
        p50_s=at(0.5),
        p90_s=at(0.9),
        p99_s=at(0.99),
        p999_s=at(0.999),
        max_s=ordered[-1],
    )


def recovery_s(arrivals: Sequence[tuple[float, float]]) -> tuple[float | None, int]:
    """Return how long losses took to repair, and how many there were.

    ``arrivals`` are times of arrival with ages. A message is late when it is a good
    deal older than the median; the oldest of late messages that come together tells
    how long its loss took to be repaired: that one was lost, the others waited
    behind it.
    """
    if not arrivals:
        return None, 0
    ages = sorted(age for _, age in arrivals)
    late = 3 * ages[len(ages) // 2] + 0.002
    worst: list[float] = []
    last = -1e9
    for at, age in sorted(arrivals):
        if age <= late:
            continue
        if at - last > QUIET_S:
            worst.append(age)
        else:
            worst[-1] = max(worst[-1], age)
        last = at
    if not worst:
        return None, 0
    return sum(worst) / len(worst), len(worst)
