"""Nobody asks for what was not lost."""

from __future__ import annotations

from quicksilver.membership.events import ViewsChanged
from quicksilver.multicast.events import SessionEvent
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher

SETTLED_S = 0.5
"""Time for all to come in. Whoever comes later may miss what is sent meanwhile."""


class Proof(Watcher):
    """Without a loss nothing counts as missing, however slow a node is.

    "A tail that a token announces counts as lost only if the socket was drained since"
    (ARCHITECTURE.md, decisions; DESIGN.md, "Recovery must not amplify"). A node that
    stood still finds tokens before the data that they are about, and must read that
    first. Judges trials in which the network loses, delays and turns round nothing, no
    buffer overflows and views stand still.
    """

    name = "proof"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._is_moving = False
        self._before: int | None = None

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        if isinstance(event, ViewsChanged) and self.cluster.now > SETTLED_S:
            self._is_moving = True

    def on_look(self) -> None:
        if self._before is None and self.cluster.now > SETTLED_S:
            self._before = self._missing()

    def on_settled(self) -> None:
        lost = self.cluster.network.mishaps
        for node in self.cluster.lives:
            lost += node.host.counters.receive_drops + node.host.counters.port_drops
        if lost or self._is_moving or self._before is None:
            return
        missing = self._missing() - self._before
        if missing:
            self.fail(f"{missing} packets counted as missing, and none was lost")

    def _missing(self) -> int:
        return sum(node.engine.counters.missing for node in self.cluster.lives)
