"""What is called stable is everywhere, and stays so."""

from __future__ import annotations

from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.trials.scopes.cluster import NodeLife, ScopeCluster
from quicksilver.trials.scopes.watch import ScopeWatcher


class Stability(ScopeWatcher):
    """ "Message k is stable everywhere" is true of all who were there all the time, and a mark
    never goes back (3.2.15: monotonicity).

    Nodes that a fault befell may have been counted out, and be behind. In sessions without repair
    nobody is waited for.
    """

    name = "stability"

    def __init__(self, cluster: ScopeCluster) -> None:
        super().__init__(cluster)
        self._marks: dict[tuple[NodeLife, int, str, Sender], int] = {}

    def on_stable(self, node: NodeLife, topic: str, sender: Sender, mark: int) -> None:
        stream = node, node.stays.get(topic, 0), topic, sender
        before = self._marks.get(stream, 0)
        if mark < before:
            self.fail(f"{node}: {topic} of {sender.node} was stable below {before}, now {mark}")
        self._marks[stream] = mark
        sent = self.cluster.sent.get((topic, sender), [])
        if mark > len(sent):
            self.fail(f"{node}: {topic} of {sender.node} is stable below {mark}: {len(sent)} sent")
            return
        for other in self.cluster.undisturbed():
            if topic not in other.joined or other.sender == sender:
                continue
            low = other.low(topic, sender)
            since = other.settled_at.get(topic, float("inf"))
            if any(
                sent[number].at >= since and self.cluster.is_repaired(topic, sender, number)
                for number in range(low, mark)
            ):
                self.fail(
                    f"{node} takes {topic} of {sender.node} for stable below {mark}, "
                    f"and {other} has all below {low}"
                )
