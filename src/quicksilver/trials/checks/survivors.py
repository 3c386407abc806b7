"""Agreement on what a dead sender left behind."""

from __future__ import annotations

from quicksilver.recovery.domains import Hierarchy
from quicksilver.trials.checks.ledger import Ledger, lacking
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.watch import Watcher


class Survivors(Watcher):
    """What one surviving member of a region has of a dead sender, all of them get.

    "… or if a surviving member of their region has it" (DESIGN.md, semantics;
    dissertation 4.2.1). To have a packet is to keep a copy: in a region of
    several partitions, or with fewer copies than a partition has nodes, that
    is the nodes whose turn it is, and a member that delivered without keeping
    helps nobody. Which packet a message was in is not known here, so a message
    counts as held when someone delivered it in every set of nodes whose turn it
    could have been.

    A member that lost an older stream of the sender for good takes nothing newer
    ("A broken stream is not continued after its gap"): it is owed a stream only
    if it was the first, or if the member had begun with it.
    """

    name = "survivors"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._ledger = Ledger.of(cluster)

    def on_settled(self) -> None:
        if any(node.engine.counters.cache_refused for node in self.cluster.lives):
            return
        for sender, group in sorted(self._ledger.batches):
            if self._ledger.is_up(sender):
                continue
            for batch, (first, last) in sorted(self._ledger.batches[sender, group].items()):
                self._check(sender, group, batch, first, last)

    def _check(self, sender: int, group: int, batch: int, first: int, last: int) -> None:
        ledger = self._ledger
        view = ledger.view_at(sender, group, batch)
        if view is None:
            return
        delivered = ledger.runs[sender, group]
        for region in view.regions:
            ends = {}
            for member in ledger.regions.get(region, ()):
                if member in view.members and ledger.stayed_since(member, group, batch):
                    hole = lacking(delivered.get(member, []), first, last)
                    ends[member] = last if hole is None else hole[0] - 1
            held = self._held_until(region, ends, first)
            for member in sorted(ends):
                if ends[member] < held and self._is_owed(sender, member, region, batch):
                    self.fail(
                        f"{ledger.life_of[member]} (incarnation {member}) never got messages "
                        f"{ends[member] + 1} to {held} of {sender}, now dead, to group {group}, "
                        f"batch {batch}, which others of region view {region} have"
                    )

    def _held_until(self, region: tuple[int, int], ends: dict[int, int], first: int) -> int:
        """Return up to which message somebody who keeps copies must have one."""
        settings = self.cluster.gms.settings
        members = self._ledger.regions.get(region, ())
        if not members or not ends:
            return first - 1
        held = []
        for part in Hierarchy(members, settings.partition_size).parts:
            count = min(settings.replication, len(part))
            for start in range(len(part)):
                keepers = [part[(start + step) % len(part)] for step in range(count)]
                held.append(max(ends.get(keeper, first - 1) for keeper in keepers))
        return min(held)

    def _is_owed(self, sender: int, member: int, region: tuple[int, int], batch: int) -> bool:
        """Whether the member lost no older stream that would keep it from taking this one."""
        ledger = self._ledger
        is_first = True
        for group in ledger.groups_of(sender):
            for since, view in ledger.views_of(sender, group):
                name = None if view is None else ledger.region_of(view, member)
                if name is not None and name != region and since <= batch:
                    is_first = False
        if is_first:
            return True
        for group in ledger.groups_of(sender):
            runs = ledger.runs.get((sender, group), {}).get(member, [])
            for number, (first, last) in ledger.batches.get((sender, group), {}).items():
                view = ledger.view_at(sender, group, number)
                has_some = any(start <= last and first <= stop for start, stop in runs)
                if has_some and view is not None and ledger.region_of(view, member) == region:
                    return True
        return False
