"""Order per sender."""

from __future__ import annotations

from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher


class Fifo(Watcher):
    """A node delivers the messages of one sender to one group in the order sent.

    "FIFO per sender" (DESIGN.md, semantics; dissertation 4.2.1). Holds for one
    life of the receiver, also across its exclusion, and one incarnation of the
    sender; the same message again is the business of ``duplicates``.
    """

    name = "fifo"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._last: dict[tuple[SimNode, int, int], int] = {}

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        stream = (node, group, sender)
        last = self._last.get(stream, -1)
        self._last[stream] = sequence
        if sequence < last:
            self.fail(f"{node}: group {group}, sender {sender}: message {sequence} after {last}")
