"""Whoever comes late knows the last values."""

from __future__ import annotations

from collections import defaultdict

from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.payloads import parse_payload
from quicksilver.trials.values import GROUP, KEYS
from quicksilver.trials.watch import Watcher


class Retained(Watcher):
    """A member has the last values of every sender, whenever it came, and in order.

    Of senders that were never excluded: what one had sent when it was excluded may be lost. A
    retained value never comes after a newer one of the same sender.
    """

    name = "retained"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._given: defaultdict[tuple[int, int, int], set[int]] = defaultdict(set)
        """Numbers of values, by the member's incarnation and the sender's index and life."""
        self._newest: dict[tuple[int, int], int] = {}
        """The newest value that came when it was sent, by incarnations of member and sender."""

    def on_value(self, node: SimNode, sender: int, payload: bytes, *, is_retained: bool) -> None:
        mark = parse_payload(payload)
        if mark is None or mark.group != GROUP:
            self.fail(f"{node}: value {payload[:40]!r} makes no sense")
            return
        self._given[node.id, mark.node, mark.life].add(mark.number)
        newest = self._newest.get((node.id, sender), -1)
        if is_retained and mark.number < newest:
            self.fail(f"{node}: retained value {mark.number} of {sender} came after {newest}")
        if not is_retained:
            self._newest[node.id, sender] = max(newest, mark.number)

    def on_settled(self) -> None:
        alive = self.cluster.alive()
        senders = [node for node in alive if node.values.is_sender and not node.exclusions]
        count = KEYS * self.cluster.features.retain
        for node in alive:
            for sender in senders if node.values.is_member else ():
                wanted = set(range(max(0, sender.values.sent - count), sender.values.sent))
                lacking = wanted - self._given[node.id, sender.index, sender.life]
                if lacking and sender is not node:
                    self.fail(f"{node} lacks values {sorted(lacking)[:5]} of {sender}")
