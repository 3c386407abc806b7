"""Of the members that share a queue, one takes each message."""

from __future__ import annotations

from collections import defaultdict

from quicksilver.trials.checks.ledger import Ledger
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher

Name = tuple[int, int, int]
"""Group, sender and number of a message."""


class Queues(Watcher):
    """No message is taken twice; one that nobody's end kept from being taken is taken.

    Members of a queued group join it with the queue, unless they join by pattern. A message that
    every member of its view was given, all of which are still in the group in the end, was taken
    by one of those in the queue, if there are any.
    """

    name = "queues"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._ledger = Ledger.of(cluster)
        self._taker: dict[Name, int] = {}
        self._given: defaultdict[Name, set[int]] = defaultdict(set)
        self._batch: dict[Name, int] = {}

    def on_taken(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes
    ) -> None:
        name = (group, sender, sequence)
        if name in self._taker:
            other = self._taker[name]
            self.fail(f"{node}: message {sequence} of {sender} to {group} was taken by {other}")
        self._taker[name] = node.id

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        if self.cluster.group_name(group) in self.cluster.features.queued:
            name = (group, sender, sequence)
            self._given[name].add(node.id)
            self._batch[name] = batch

    def on_settled(self) -> None:
        alive = self.cluster.alive()
        staying = {node.id: node.member_since for node in alive if not node.queue_unsure()}
        by_pattern = self.cluster.features.by_pattern
        queued = {node.id for node in alive if node.index not in by_pattern}
        for name, given in self._given.items():
            group, sender, sequence = name
            batch = self._batch[name]
            members = self._ledger.members_at(sender, group, batch)
            is_whole = members & queued and members <= given and name not in self._taker
            if is_whole and all(
                member in staying and staying[member].get(group, batch + 1) <= batch
                for member in members
            ):
                self.fail(
                    f"message {sequence} of {sender} to {group} reached {sorted(members)}, "
                    "and none of them took it"
                )
