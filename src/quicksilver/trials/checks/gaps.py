"""No message left out."""

from __future__ import annotations

from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher


class Gaps(Watcher):
    """While a node is in a group, it skips no message of any sender.

    "Messages of one sender to one group are delivered in order, without gaps, to
    every member of the view they were committed to that stays up" (ARCHITECTURE.md,
    invariants; dissertation 4.2.1). So the numbers of one sender's incarnation
    are consecutive for as long as the node stays: from one join to the next leave
    or exclusion. A sender that died may leave its stream unfinished, never with a
    hole in it: after what is lost for good, nothing of that incarnation follows.
    """

    name = "gaps"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._last: dict[tuple[SimNode, int, int], tuple[int, int]] = {}
        """Last number, and since which batch the receiver had been in the group."""

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        stream = (node, group, sender)
        since = node.member_since.get(group, -1)
        before = self._last.get(stream)
        self._last[stream] = (sequence, since)
        if before is not None and before[1] == since and sequence > before[0] + 1:
            self.fail(
                f"{node}: group {group}, sender {sender}: message {sequence} after {before[0]}"
            )
