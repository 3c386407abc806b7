"""With no traffic the protocols fall silent."""

from __future__ import annotations

from quicksilver.trials.scopes.cluster import ScopeCluster
from quicksilver.trials.scopes.watch import ScopeWatcher


class Quiescence(ScopeWatcher):
    """When all has arrived and is agreed on, nothing is sent but signs of life of managers."""

    name = "quiescence"

    def __init__(self, cluster: ScopeCluster) -> None:
        super().__init__(cluster)
        self._before = 0

    def on_silent(self) -> None:
        self._before = self.cluster.spoken()

    def on_settled(self) -> None:
        count = self.cluster.spoken() - self._before
        if count:
            self.fail(f"{count} frames and datagrams, besides signs of life, in the silence")
