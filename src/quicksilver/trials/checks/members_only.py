"""Messages go to the view that they were committed to, and to nobody else."""

from __future__ import annotations

from quicksilver.trials.checks.ledger import Ledger
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher


class MembersOnly(Watcher):
    """Only members of the view that a message was committed to deliver it.

    "Each message is committed to a group view when sent" (DESIGN.md, semantics;
    dissertation 4.2.1 A). The batch of a message names the view: the one that its
    sender had in that batch. A receiver that is not in that view must not
    deliver, even if it is in the region, or has joined since.
    """

    name = "members-only"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._ledger = Ledger.of(cluster)
        self._fine: set[tuple[int, int, int, int]] = set()
        """(receiver, sender, group, batch) looked at already."""

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        name = (node.engine.node, sender, group, batch)
        if name in self._fine:
            return
        members = self._ledger.members_at(sender, group, batch)
        if node.engine.node in members:
            self._fine.add(name)
        elif not members:
            self.fail(
                f"{node}: message {sequence} of {sender} names batch {batch}, in which "
                f"{sender} had no view of group {group}"
            )
        else:
            self.fail(
                f"{node} is not in the view of group {group} that message {sequence} of "
                f"{sender} was committed to in batch {batch}"
            )
