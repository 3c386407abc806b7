"""Nothing but what was sent."""

from __future__ import annotations

from collections import defaultdict

from quicksilver.membership.events import Welcomed
from quicksilver.multicast.events import SessionEvent
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.payloads import parse_payload
from quicksilver.trials.watch import Watcher


class Content(Watcher):
    """Whatever is delivered was sent: the same bytes, group, sender and number.

    The first half of reliable multicast (dissertation 4.2.1: messages are
    delivered as they were submitted, no message is made up). A message carries
    its own origin, which must be what the engine says of it: the group it was
    sent to, the life that sent it, and its place among that life's messages. The
    places may differ from the sequence numbers by a constant, because numbers
    begin again when a sender comes back under a new identifier with messages
    still queued.
    """

    name = "content"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._sent: defaultdict[tuple[str, int, int], list[bytes]] = defaultdict(list)
        """By (group, node, life)."""
        self._life_of: dict[int, tuple[int, int]] = {}
        self._offset: dict[tuple[int, int], int] = {}

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        if isinstance(event, Welcomed):
            self._life_of[event.node] = (node.index, node.life)

    def on_sent(self, node: SimNode, group: str, first: int, payloads: tuple[bytes, ...]) -> None:
        self._sent[group, node.index, node.life] += payloads

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        mark = parse_payload(payload)
        if mark is None:
            self.fail(f"{node}: {payload[:40]!r} is no message of this trial")
            return
        sent = self._sent.get((mark.group, mark.node, mark.life), ())
        if not 0 <= mark.number < len(sent):
            self.fail(f"{node}: {payload[:40]!r} was not sent")
        elif sent[mark.number] != payload:
            self.fail(f"{node}: {payload[:40]!r} was altered on the way")
        if self.cluster.group_name(group) != mark.group:
            where = self.cluster.group_name(group)
            self.fail(f"{node}: {payload[:40]!r} was delivered in group {where}")
        if self._life_of.get(sender) != (mark.node, mark.life):
            self.fail(f"{node}: {payload[:40]!r} is said to be from {sender}")
            return
        offset = self._offset.setdefault((sender, group), mark.number - sequence)
        if mark.number - sequence != offset:
            self.fail(f"{node}: {payload[:40]!r} has the number {sequence}")
