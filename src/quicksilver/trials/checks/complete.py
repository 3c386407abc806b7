"""Everybody in the view gets the message."""

from __future__ import annotations

from quicksilver.membership.directory import GroupView
from quicksilver.trials.checks.ledger import Ledger, lacking
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.watch import Watcher

FOREVER = 1 << 62


class Complete(Watcher):
    """Messages of a sender that stays up reach all of their view that stay in it.

    "Each message is committed to a group view when sent; all members of that
    view that stay up deliver it if the sender stays up" (DESIGN.md, semantics;
    dissertation 4.2.1). Staying up is never to crash and never to be counted
    out; a member that left the group since then is owed nothing.

    Which view a message was committed to is known from anybody who delivered
    it. Messages that nobody delivered were committed somewhere between their
    neighbours: they are owed to whoever was in every view that the sender had
    between those.
    """

    name = "complete"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._ledger = Ledger.of(cluster)

    def on_settled(self) -> None:
        for node in self.cluster.alive():
            for name in sorted(node.sent):
                sender = node.session.find_sender(name)
                if node.id and sender is not None and sender.id:
                    self._check(node.id, sender.id, sender.next_sequence)

    def _check(self, sender: int, group: int, count: int) -> None:
        batches = self._ledger.batches.get((sender, group), {})
        pieces = sorted((first, last, batch) for batch, (first, last) in batches.items())
        at, since = self._ledger.begins.get((sender, group), 0), 0
        for first, last, batch in pieces:
            self._check_lost(sender, group, at, first - 1, since, batch)
            members = self._ledger.members_at(sender, group, batch)
            self._check_members(sender, group, first, last, batch, members)
            at, since = last + 1, batch
        self._check_lost(sender, group, at, count - 1, since, FOREVER)

    def _check_lost(
        self, sender: int, group: int, first: int, last: int, since: int, until: int
    ) -> None:
        """Look for those to whom messages are owed that nobody delivered."""
        if first > last:
            return
        views: list[GroupView | None] = [
            view for batch, view in self._ledger.views_of(sender, group) if since < batch <= until
        ]
        if since:
            views.insert(0, self._ledger.view_at(sender, group, since))
        if not views or views[0] is None:
            # Nobody was there when it began; what was sent then is owed to nobody.
            return
        members = frozenset.intersection(*[frozenset(v.members) for v in views if v is not None])
        earliest = since or self._ledger.views_of(sender, group)[0][0]
        self._check_members(sender, group, first, last, earliest, members)

    def _check_members(
        self, sender: int, group: int, first: int, last: int, batch: int, members: frozenset[int]
    ) -> None:
        delivered = self._ledger.runs.get((sender, group), {})
        for member in sorted(members - {sender}):
            if not self._ledger.stayed_since(member, group, batch):
                continue
            hole = lacking(delivered.get(member, []), first, last)
            if hole is not None:
                self.fail(
                    f"{self._ledger.life_of[member]} (incarnation {member}) never got messages "
                    f"{hole[0]} to {hole[1]} of {sender} to group {group}, batch {batch}"
                )
