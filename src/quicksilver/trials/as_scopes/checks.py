"""What the engine's checks ask of a GMS or of the engine's inside, asked of scopes."""

from __future__ import annotations

from quicksilver.trials.as_scopes.plan import topic_of
from quicksilver.trials.scopes.checks import ALL
from quicksilver.trials.scopes.cluster import NodeLife, ScopeCluster
from quicksilver.trials.scopes.watch import ScopeWatcher


class Flushed(ScopeWatcher):
    """When a flush ends, all that was sent before it has arrived, and every flush ends.

    Arrived: at everybody who was in the topic when it was sent, and whom no fault has befallen.
    The others get it as well, as far as there is room to keep it for them (``Complete``).
    """

    name = "flushed"

    def __init__(self, cluster: ScopeCluster) -> None:
        super().__init__(cluster)
        self.ended = 0

    def on_flushed(self, node: NodeLife, goals: dict[str, int]) -> None:
        """A flush of messages below a number of each group has ended."""
        self.ended += 1
        for group, goal in goals.items():
            topic = topic_of(group)
            sent = self.cluster.sent.get((topic, node.sender), [])
            for other in self.cluster.undisturbed():
                if topic not in other.joined or other is node:
                    continue
                low = other.low(topic, node.sender)
                since = other.settled_at.get(topic, float("inf"))
                if any(each.at >= since for each in sent[low:goal]):
                    self.fail(
                        f"{node} flushed {topic} below {goal}, and {other} has all below {low}"
                    )


SCOPES_CHECKS: tuple[type[ScopeWatcher], ...] = (
    *(check for check in ALL if check.name != "quiescence"),
    Flushed,
)
"""The checks of the trials of scopes; silence is judged by the engine's."""
