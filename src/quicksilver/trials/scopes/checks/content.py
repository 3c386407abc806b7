"""Messages arrive as they were sent."""

from __future__ import annotations

from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.trials.scopes.cluster import NodeLife
from quicksilver.trials.scopes.watch import ScopeWatcher


class Content(ScopeWatcher):
    """What a node is given is what the sender named sent under that number."""

    name = "content"

    def on_delivered(
        self, node: NodeLife, topic: str, sender: Sender, number: int, message: bytes
    ) -> None:
        sent = self.cluster.sent.get((topic, sender), [])
        if number >= len(sent) or sent[number].message != message:
            self.fail(f"{node} got a message {number} of {topic} that {sender.node} never sent")
