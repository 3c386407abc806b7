"""Silence in the end."""

from __future__ import annotations

from quicksilver.trials.cluster import Cluster
from quicksilver.trials.watch import Watcher

SILENT_S = 10.0


class Quiescence(Watcher):
    """With no traffic the protocol falls silent.

    "With no traffic, the protocol falls silent" (DESIGN.md, semantics and
    quiescence; dissertation 4.2.1 C). When a trial has settled, no datagram has
    left any card for ten seconds. Heartbeats travel on streams, not as
    datagrams.
    """

    name = "quiescence"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._packets = 0
        self._changed_at = 0.0

    def on_look(self) -> None:
        packets = self.cluster.spoken()
        if packets != self._packets:
            self._packets = packets
            self._changed_at = self.cluster.now

    def on_settled(self) -> None:
        self.on_look()
        silent_s = self.cluster.now - self._changed_at
        if silent_s < SILENT_S:
            self.fail(f"datagrams were sent until {silent_s:.1f} s ago, {self._packets} in all")
