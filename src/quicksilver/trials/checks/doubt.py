"""A GMS that hears nobody excludes nobody."""

from __future__ import annotations

from quicksilver.membership.service import MembershipService
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.gms import GMS_INDEX
from quicksilver.trials.watch import Watcher


class Doubt(Watcher):
    """While the GMS is cut off from all nodes, no node is excluded for its silence.

    Their silence says something about the GMS's own link (``membership.health``). Nodes
    that were silent before may still be counted out as long as the others were heard
    half a failure timeout ago; and whoever is silent for ``silence_s_max`` may be.
    """

    name = "doubt"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._cut_since: float | None = None
        self._service: MembershipService | None = None
        self._silent = 0
        """Nodes that this service has excluded for their silence."""

    def on_look(self) -> None:
        cluster, now = self.cluster, self.cluster.now
        gms = cluster.gms
        service = gms.service
        before, self._silent = self._silent, service.counters.silent
        if service is not self._service:
            self._service, before = service, 0
        network = cluster.network
        if any(
            network.passes(node.index, GMS_INDEX) and network.passes(GMS_INDEX, node.index)
            for node in cluster.nodes
        ):
            self._cut_since = None
            return
        if self._cut_since is None:
            self._cut_since = now
        cut_s = now - self._cut_since
        doubts_s = gms.settings.failure_timeout_s / 2 + 0.25
        if doubts_s < cut_s < gms.config.silence_s_max and self._silent > before:
            count = self._silent - before
            self.fail(f"a GMS that has heard nobody for {cut_s:.1f} s excludes {count}")
