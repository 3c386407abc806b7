"""Each message once, in its sender's order, with gaps told."""

from __future__ import annotations

from quicksilver.scopes.dissemination.packets import Gap, Sender
from quicksilver.trials.scopes.cluster import NodeLife, ScopeCluster
from quicksilver.trials.scopes.watch import ScopeWatcher


class Order(ScopeWatcher):
    """Of each sender a node gets one message after the other; what is left out is told.

    Holds for one life of the receiver and one stay in the topic.
    """

    name = "order"

    def __init__(self, cluster: ScopeCluster) -> None:
        super().__init__(cluster)
        self._next: dict[tuple[NodeLife, int, str, Sender], int] = {}

    def on_delivered(
        self, node: NodeLife, topic: str, sender: Sender, number: int, message: bytes
    ) -> None:
        if topic not in node.joined:
            self.fail(f"{node} got message {number} of {topic}, which it has not joined")
        stream = node, node.stays[topic], topic, sender
        due = self._next.get(stream, number)
        if number != due:
            what = "again" if number < due else "untold gap before it"
            self.fail(f"{node}: {topic} of {sender.node}: message {number}, {due} was due: {what}")
        self._next[stream] = number + 1

    def on_gap(self, node: NodeLife, gap: Gap) -> None:
        stream = node, node.stays.get(gap.topic, 0), gap.topic, gap.sender
        due = self._next.get(stream, gap.first)
        if gap.first != due or gap.last < gap.first:
            self.fail(
                f"{node}: {gap.topic}: told of a gap {gap.first} to {gap.last}, {due} was due"
            )
        self._next[stream] = gap.last + 1
