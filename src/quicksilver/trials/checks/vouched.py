"""What a flush vouches for has arrived."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from quicksilver.multicast.events import FlushEnded, SessionEvent
from quicksilver.multicast.sending.unconfirmed import Unconfirmed
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trials.checks.ledger import Ledger, lacking
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.payloads import parse_payload
from quicksilver.trials.watch import Watcher

Groups = list[tuple[int, int]]
"""A group of one name as a life knew it: incarnations, and the group's number for each."""


class _Claim(NamedTuple):
    """Messages that a flush was the first to speak of, as their application counts them."""

    first: int
    stop: int
    reports: int
    """How many reports of its node were told by then: those messages are excepted."""
    at: float


class Vouched(Watcher):
    """All that was accepted before a flush began has arrived when it ends, or is reported.

    Arrived: at every member of the view that it was committed to that is up to the end.
    Reported: in what this flush, or an earlier one of the node, said of unconfirmed
    messages. And a flush of a node that lives ends once all faults have.
    """

    name = "vouched"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._ledger = Ledger.of(cluster)
        self._flushing: defaultdict[SimNode, dict[int, dict[str, int]]] = defaultdict(dict)
        """What had been accepted when each flush began, by number and group."""
        self._claims: defaultdict[tuple[SimNode, str], list[_Claim]] = defaultdict(list)
        self._reports: defaultdict[SimNode, list[Unconfirmed]] = defaultdict(list)
        self._bases: dict[tuple[int, int], int] = {}
        """By incarnation and group: what its application calls its message 0."""
        self.vouched = 0
        """How many messages flushes spoke of."""

    # What is told

    def on_flushing(self, node: SimNode, number: int) -> None:
        self._flushing[node][number] = dict(node.sent)

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        if not isinstance(event, FlushEnded):
            return
        self._reports[node] += [each for each in event.unconfirmed if each.reason.is_failure]
        accepted = self._flushing[node].pop(event.number)
        for group, count in accepted.items():
            claims = self._claims[node, group]
            first = claims[-1].stop if claims else 0
            if count > first:
                told = len(self._reports[node])
                claims.append(_Claim(first, count, told, self.cluster.now))
                self.vouched += count - first

    def on_delivered(
        self, node: SimNode, group: int, sender: int, sequence: int, payload: bytes, batch: int
    ) -> None:
        if (sender, group) not in self._bases:
            mark = parse_payload(payload)
            if mark is not None:
                self._bases[sender, group] = mark.number - sequence

    # What is judged

    def on_settled(self) -> None:
        for node, flushes in self._flushing.items():
            # Whoever sent to a group that nobody is in waits for members, as it should.
            waits = node.session.engine.outgoing.waiting.count
            if flushes and not node.is_dead and not waits:
                self.fail(f"{node} waits for {len(flushes)} flushes that never end")
        groups = self._ledger.groups_by_life()
        for (node, name), claims in self._claims.items():
            for claim in claims:
                self._check(node, name, groups.get((node, name), []), claim)

    def _check(self, node: SimNode, name: str, groups: Groups, claim: _Claim) -> None:
        reports = [r for r in self._reports[node][: claim.reports] if r.group in (name, "")]
        excepted = self._excepted(groups, reports)
        if excepted is None:
            return
        owed = RangeSet([(claim.first, claim.stop)]).difference(excepted)
        found = RangeSet()
        for incarnation, group in groups:
            base = self._bases.get((incarnation, group), 0)
            for batch, (first, last) in self._ledger.batches[incarnation, group].items():
                part = owed.intersection(RangeSet([(first + base, last + 1 + base)]))
                found = found.union(part)
                for start, stop in part:
                    numbers = (start - base, stop - 1 - base)
                    self._check_members(claim, incarnation, group, numbers, batch)
        lost = owed.difference(found)
        if lost:
            self._check_lost(node, name, groups, claim, lost)

    def _excepted(self, groups: Groups, reports: Iterable[Unconfirmed]) -> RangeSet | None:
        """Return what was reported, as the application counts it; None where that is unknown."""
        bases = {
            incarnation: self._bases[incarnation, group]
            for incarnation, group in groups
            if (incarnation, group) in self._bases
        }
        found = RangeSet()
        for report in reports:
            base = bases.get(report.node)
            if base is None or not report.ranges:
                return None
            for first, last in report.ranges:
                found.add(max(0, first + base), max(0, last + 1 + base))
        return found

    def _check_members(
        self, claim: _Claim, sender: int, group: int, numbers: tuple[int, int], batch: int
    ) -> None:
        delivered = self._ledger.runs.get((sender, group), {})
        for member in sorted(self._ledger.members_at(sender, group, batch) - {sender}):
            if not self._ledger.stayed_since(member, group, batch):
                continue
            hole = lacking(delivered.get(member, []), *numbers)
            if hole is not None:
                self.fail(
                    f"{self._ledger.life_of[member]} (incarnation {member}) never got messages "
                    f"{hole[0]} to {hole[1]} of {sender} to group {group}, batch {batch}, which "
                    f"a flush vouched for at {claim.at:.3f} s"
                )

    def _check_lost(
        self, node: SimNode, name: str, groups: Groups, claim: _Claim, lost: RangeSet
    ) -> None:
        """Nobody delivered these: look for a member that was in every view they may be of."""
        views = [
            (batch, view)
            for incarnation, group in groups
            for batch, view in self._ledger.views_of(incarnation, group)
        ]
        known = [(batch, view) for batch, view in views if view is not None]
        if not known or len(known) < len(views):
            return
        own = {incarnation for incarnation, _ in groups}
        members = frozenset.intersection(*[frozenset(view.members) for _, view in known])
        earliest, group = min((batch, view.id) for batch, view in known)
        for member in sorted(members - own):
            if self._ledger.stayed_since(member, group, earliest):
                self.fail(
                    f"{self._ledger.life_of[member]} never got messages {lost.first()} to "
                    f"{lost.last()} of {node} to {name!r}, as it counts them, which a flush "
                    f"vouched for at {claim.at:.3f} s"
                )
