"""No message twice."""

from __future__ import annotations

from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher

HOLES_MAX = 100_000
"""Numbers passed over that one stream remembers."""


class _Seen:
    __slots__ = ("holes", "next")

    def __init__(self, first: int) -> None:
        self.next = first
        self.holes: set[int] = set()


class Duplicates(Watcher):
    """A node delivers no message twice.

    A packet may arrive any number of times, from its sender and in repairs
    (DESIGN.md, "Recovery must not amplify"); the application sees it once, in
    one life of the receiver, excluded meanwhile or not.
    """

    name = "duplicates"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._seen: dict[tuple[SimNode, int, int], _Seen] = {}

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        stream = (node, group, sender)
        seen = self._seen.get(stream)
        if seen is None:
            seen = self._seen[stream] = _Seen(0)
            seen.holes.update(range(max(0, sequence - HOLES_MAX), sequence))
            seen.next = sequence + 1
        elif sequence == seen.next:
            seen.next = sequence + 1
        elif sequence > seen.next:
            seen.holes.update(range(max(seen.next, sequence - HOLES_MAX), sequence))
            seen.next = sequence + 1
        elif sequence in seen.holes:
            seen.holes.discard(sequence)
        else:
            self.fail(f"{node}: group {group}, sender {sender}: message {sequence} again")
