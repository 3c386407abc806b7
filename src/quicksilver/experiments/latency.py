"""How old messages are when applications get them, simulated and real alike."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.experiments.base import Metrics
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher

QUIET_S = 0.1
"""Late messages further apart than this belong to different losses."""


class LatencyWatcher(Watcher):
    """Collects the ages of stamped messages."""

    name = "latency"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.is_on = False
        self.ages_s: list[float] = []
        self.by_node: dict[int, list[tuple[float, float]]] = {}
        """For each node: when a message arrived, and how old it was."""

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        if not self.is_on:
            return
        now = self.cluster.now
        age = now - int.from_bytes(payload[:8], "little") / 1e9
        self.ages_s.append(age)
        self.by_node.setdefault(node.index, []).append((now, age))

    def metrics(self) -> Metrics:
        return latency_metrics(self.ages_s)


def latency_metrics(ages_s: Sequence[float]) -> Metrics:
    """Return mean and percentiles, in milliseconds."""
    ordered = sorted(ages_s)
    if not ordered:
        return {}

    def at(part: float) -> float:
        return 1e3 * ordered[min(len(ordered) - 1, int(part * len(ordered)))]

    return {
        "latency_ms_mean": 1e3 * sum(ordered) / len(ordered),
        "latency_ms_p50": at(0.5),
        "latency_ms_p99": at(0.99),
        "latency_ms_max": 1e3 * ordered[-1],
    }


def recovery_ms(arrivals: Sequence[tuple[float, float]]) -> tuple[float | None, int]:
    """Return how long losses took to repair, and how many there were.

    A message is late when it is a good deal older than the median; the oldest of
    late messages that come together tells how long its loss took to be repaired:
    that one was lost, the others waited behind it.
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
    return 1e3 * sum(worst) / len(worst), len(worst)
