"""One batch: requests in, new views out.

"The GMS batches join and leave requests, and failure reports, and if it detects
changes, it periodically applies batches of requests to the current membership
views, thus producing new views for those of the groups that gained or lost
members" (dissertation 4.2.1 A).

The work is proportional to what changed: a batch touches the groups that its
requests name, the regions that the planner moved, and the groups and senders of
those regions.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from quicksilver.membership.bits import slots_of
from quicksilver.membership.hybrid import HybridMode, mode_of
from quicksilver.membership.names import is_attendance, is_private, shared_group
from quicksilver.membership.planning.model import PlanDelta, Planner
from quicksilver.membership.store import Commit, StoredPlacement
from quicksilver.membership.tables import (
    GroupRow,
    NodeRow,
    RegionRow,
    Tables,
    group_bytes,
    is_private_region,
    private_region,
)
from quicksilver.wire import gms
from quicksilver.wire.ids import GroupId, NodeId, RegionId


@dataclass(slots=True)
class BatchInput:
    """What came in since the last batch."""

    arrivals: list[NodeRow] = field(default_factory=list)
    requests: list[tuple[NodeId, int, gms.Subscribe]] = field(default_factory=list)
    """Who asked, on which connection, for what; in the order of arrival."""
    departures: set[NodeId] = field(default_factory=set)
    """Nodes of the tables whose incarnation is over."""
    is_adapted: bool = False
    """The planner has moved nodes by itself, for the sake of traffic."""
    hybrid: dict[GroupId, HybridMode] = field(default_factory=dict)
    """Groups that get or lose an address of their own."""
    groups_per_node_max: int = 1 << 30
    """Groups that a node may use; those that its patterns find on top are left out …"""
    group_bytes_per_node_max: int = 1 << 62
    """… as are those that take more memory than this …"""
    memberships_max: int = 1 << 62
    """… or that make more memberships, over all nodes."""


@dataclass(slots=True)
class RegionStep:
    """How a region changed: its row shows it afterwards."""

    row: RegionRow
    base: int
    """View before the batch; 0 for a new region."""
    members_before: int
    senders_before: int
    is_gone: bool = False

    @property
    def has_new_view(self) -> bool:
        """False if only the senders changed."""
        return not self.is_gone and self.row.view != self.base


@dataclass(slots=True)
class GroupStep:
    """How a group changed: its row shows it afterwards."""

    row: GroupRow
    base: int
    """View before the batch; 0 for a new group."""
    members_before: int
    users_before: int
    regions_before: tuple[RegionId, ...]
    reviewed: list[RegionId] = field(default_factory=list)
    """Regions of the group that have a new view, new ones of the list or not."""
    is_gone: bool = False

    @property
    def has_new_view(self) -> bool:
        """False if only who may send changed."""
        return not self.is_gone and self.row.view != self.base


@dataclass(slots=True)
class BatchOutcome:
    """What a batch did; to be committed first, then published."""

    batch: int
    regions: list[RegionStep]
    """By identifier, as ``groups``."""
    groups: list[GroupStep]
    departed: list[NodeRow]
    """Still in the tables, until ``Tables.remove_nodes``."""
    answers: list[tuple[GroupId, ...]]
    """One per request, in their order."""
    commit: Commit
    left_out: int = 0
    """Groups that patterns found and for which the limits leave no room."""


def run_batch(tables: Tables, planner: Planner, given: BatchInput, *, cluster: int) -> BatchOutcome:
    """Apply a batch to the tables and the plan."""
    return _Batch(tables, planner, given).run(cluster)


class _Batch:
    def __init__(self, tables: Tables, planner: Planner, given: BatchInput) -> None:
        self.tables = tables
        self.planner = planner
        self.given = given
        self.departed_mask = 0
        self.nodes_changed: dict[NodeId, NodeRow] = {}
        self.joined_changed: set[NodeId] = set()
        self.group_steps: dict[GroupId, GroupStep] = {}
        self.region_steps: dict[RegionId, RegionStep] = {}
        self.placements: dict[GroupId, StoredPlacement | None] = {}
        self.reviews: dict[int, tuple[NodeId, ...] | None] = {}
        self.left_out = 0

    def run(self, cluster: int) -> BatchOutcome:
        tables, given = self.tables, self.given
        for row in given.arrivals:
            tables.add_node(row)
            self.nodes_changed[row.id] = row
        answers = self._apply_requests()
        departed = self._apply_departures()
        self._apply_patterns()
        delta = self._add_private(self._plan())
        self._apply_plan(delta)
        self._move_hybrid()
        self._settle_senders()
        self._number_views()
        self._sweep()
        tables.batch += 1
        return BatchOutcome(
            tables.batch,
            [self.region_steps[key] for key in sorted(self.region_steps)],
            [self.group_steps[key] for key in sorted(self.group_steps)],
            departed,
            answers,
            self._commit(cluster, departed),
            self.left_out,
        )

    # -- 1. who is in which group

    def _apply_requests(self) -> list[tuple[GroupId, ...]]:
        tables = self.tables
        joined: dict[NodeId, set[GroupId]] = {}
        opened: dict[NodeId, set[GroupId]] = {}
        patterns: dict[NodeId, set[str]] = {}
        answers = []
        for node, _, request in self.given.requests:
            row = tables.nodes[node]
            if node not in joined:
                joined[node] = set(row.named)
                opened[node] = set(row.opened)
                patterns[node] = set(row.patterns)
            patterns[node].difference_update(request.unmatch)
            patterns[node].update(request.match)
            ids = tables.group_ids
            joined[node].difference_update(ids[name] for name in request.leave if name in ids)
            opened[node].difference_update(ids[name] for name in request.close if name in ids)
            join = [self._group_named(name) for name in request.join]
            open_ = [self._group_named(name) for name in request.open]
            joined[node].update(join)
            opened[node].update(open_)
            answers.append((*join, *open_))
        for node in sorted(joined):
            row = tables.nodes[node]
            named = frozenset(joined[node])
            self._set_patterns(row, frozenset(patterns[node]))
            matched = row.matched - named
            self._set_groups(row, named | matched, frozenset(opened[node]), matched)
        return answers

    def _apply_departures(self) -> list[NodeRow]:
        departed = [self.tables.nodes[node] for node in sorted(self.given.departures)]
        for row in departed:
            self._set_patterns(row, frozenset())
            self._set_groups(row, frozenset(), frozenset(), frozenset())
            self.nodes_changed.pop(row.id, None)
            self.departed_mask |= row.bit
            self.reviews.update(self.tables.drop_reviews(row))
        return departed

    def _apply_patterns(self) -> None:
        """Make nodes members of the groups that their patterns stand for, and of no others.

        First comes what each node finds and loses, then each node once: its sets may be large.
        """
        tables = self.tables
        if not tables.patterns:
            return
        asked = {node for node, _, _ in self.given.requests if tables.nodes[node].patterns}
        lost: dict[NodeId, set[GroupId]] = {}
        found: dict[NodeId, set[GroupId]] = {}
        for step in self.group_steps.values():
            group = step.row
            if not group.keepers:
                for slot in slots_of(group.matching):
                    lost.setdefault(tables.by_slot[slot].id, set()).add(group.id)
            elif not step.base:
                for node in tables.patterns.match(group.name) - asked:
                    if group.id not in tables.nodes[node].joined:
                        found.setdefault(node, set()).add(group.id)
        nobody: set[GroupId] = set()
        # Those who lose groups come first: they make room for the others.
        for node in sorted(asked | lost.keys() | found.keys(), key=lambda n: (n not in lost, n)):
            row = tables.nodes[node]
            if node in asked:
                matching = tables.groups_matching(row.patterns) - row.named
                self._match(row, {each for each in matching if tables.groups[each].keepers})
            else:
                self._match(row, row.matched - lost.get(node, nobody) | found.get(node, nobody))
        self._make_room()

    def _match(self, row: NodeRow, matched: AbstractSet[GroupId]) -> None:
        """Let a node be in groups that it did not name, as many as the limits leave room for."""
        kept = frozenset(matched) if self._fits(row, matched) else self._cut(row, matched)
        self.left_out += len(matched) - len(kept)
        self._set_groups(row, row.named | kept, row.opened, kept)

    def _fits(self, row: NodeRow, matched: AbstractSet[GroupId]) -> bool:
        """Whether a node may be in all of these groups; the work is that of the difference."""
        given, tables, named = self.given, self.tables, row.named
        come, go = matched - row.matched, row.matched - matched
        size = tables.bytes_of(come - row.opened) - tables.bytes_of(go - row.opened)
        return (
            len(named.union(row.opened, matched)) <= given.groups_per_node_max
            and row.group_bytes + size <= given.group_bytes_per_node_max
            and tables.memberships + len(come) - len(go) <= given.memberships_max
        )

    def _cut(self, row: NodeRow, matched: AbstractSet[GroupId]) -> frozenset[GroupId]:
        """Return those for which there is room: first where the node is already, then by age."""
        given, tables = self.given, self.tables
        used = row.named | row.opened
        groups = given.groups_per_node_max - len(used)
        size = given.group_bytes_per_node_max - tables.bytes_of(used)
        stay = row.matched & matched
        # Whether others need the room that the node has already is for ``_make_room`` to say.
        memberships = given.memberships_max - tables.memberships + len(row.matched)
        memberships = max(memberships, len(stay))
        kept: list[GroupId] = []
        for group in [*sorted(stay), *sorted(matched - stay)]:
            if len(kept) >= memberships:
                break
            if group not in row.opened:
                needed = group_bytes(tables.groups[group].name)
                if groups < 1 or size < needed:
                    continue
                groups -= 1
                size -= needed
            kept.append(group)
        return frozenset(kept)

    def _make_room(self) -> None:
        """Let patterns give way to memberships by name: whoever matches most loses first."""
        tables = self.tables
        if tables.memberships <= self.given.memberships_max:
            return
        rows = [row for row in tables.nodes.values() if row.matched]
        for row in sorted(rows, key=lambda each: (-len(each.matched), each.id)):
            excess = tables.memberships - self.given.memberships_max
            if excess <= 0:
                return
            kept = frozenset(sorted(row.matched)[: max(0, len(row.matched) - excess)])
            self.left_out += len(row.matched) - len(kept)
            self._set_groups(row, row.named | kept, row.opened, kept)

    def _set_patterns(self, row: NodeRow, patterns: frozenset[str]) -> None:
        if patterns == row.patterns:
            return
        for pattern in row.patterns - patterns:
            self.tables.patterns.discard(pattern, row.id)
        for pattern in patterns - row.patterns:
            self.tables.patterns.add(pattern, row.id)
        row.patterns = patterns
        self.nodes_changed[row.id] = row
        if not patterns:
            self._set_groups(row, row.named, row.opened, frozenset())

    def _group_named(self, name: str) -> GroupId:
        found = self.tables.group_ids.get(name)
        if found is not None:
            return found
        row = self.tables.make_group(name)
        # A group that is joined and left in one batch must be swept, too.
        self._group_step(row)
        return row.id

    def _set_groups(
        self,
        row: NodeRow,
        joined: frozenset[GroupId],
        opened: frozenset[GroupId],
        matched: frozenset[GroupId],
    ) -> None:
        bit, groups = row.bit, self.tables.groups
        for group in joined ^ row.joined:
            self._group_step(groups[group])
            groups[group].members ^= bit
        for group in opened ^ row.opened:
            self._group_step(groups[group])
            groups[group].openers ^= bit
        for group in matched ^ row.matched:
            self._group_step(groups[group])
            groups[group].matching ^= bit
        if joined != row.joined:
            self.joined_changed.add(row.id)
            batch = self.tables.batch + 1
            if row.joined_in[0] != batch and not joined <= row.joined:
                row.joined_in = (batch, row.joined_in[0])
        if joined != row.joined or opened != row.opened or matched != row.matched:
            self.nodes_changed[row.id] = row
            tables, used, before = self.tables, joined | opened, row.joined | row.opened
            row.group_bytes += tables.bytes_of(used - before) - tables.bytes_of(before - used)
            tables.memberships += len(joined) + len(opened) - len(row.joined) - len(row.opened)
            tables.matches += len(matched) - len(row.matched)
            row.joined = joined
            row.opened = opened
            row.matched = matched

    def _group_step(self, row: GroupRow) -> GroupStep:
        step = self.group_steps.get(row.id)
        if step is None:
            step = GroupStep(row, row.view, row.members, row.users, row.regions)
            self.group_steps[row.id] = step
        return step

    def _region_step(self, row: RegionRow) -> RegionStep:
        step = self.region_steps.get(row.id)
        if step is None:
            step = RegionStep(row, row.view, row.members, row.senders)
            self.region_steps[row.id] = step
        return step

    # -- 2. which regions cover the groups

    def _plan(self) -> PlanDelta:
        tables = self.tables
        if not tables.is_replanning:
            if not self.joined_changed and not self.given.is_adapted:
                return PlanDelta()
            return self.planner.apply(
                {node: tables.planned(tables.nodes[node]) for node in sorted(self.joined_changed)}
            )
        tables.is_replanning = False
        rows = [(node, tables.planned(row)) for node, row in sorted(tables.nodes.items())]
        delta = self.planner.apply({node: groups for node, groups in rows if groups})
        uncovered: Mapping[GroupId, tuple[RegionId, ...]] = {
            row.id: ()
            for row in tables.groups.values()
            if row.regions and row.id not in tables.aside
        }
        return replace(
            delta,
            regions_gone=tuple(
                r
                for r in sorted(tables.regions)
                if r not in delta.regions and not is_private_region(r)
            ),
            groups={**uncovered, **delta.groups},
        )

    def _add_private(self, delta: PlanDelta) -> PlanDelta:
        """Give private groups the region that each of them has for itself."""
        changed = [s.row for s in self.group_steps.values() if is_private(s.row.name)]
        if not changed:
            return delta
        members = {private_region(row.id): self.tables.ids_of(row.members) for row in changed}
        gone = [region for region, ids in members.items() if not ids]
        return replace(
            delta,
            regions={**delta.regions, **{r: ids for r, ids in members.items() if ids}},
            regions_gone=(
                *delta.regions_gone,
                *(r for r in sorted(gone) if r in self.tables.regions),
            ),
            groups={
                **delta.groups,
                **{row.id: (private_region(row.id),) if row.members else () for row in changed},
            },
        )

    def _apply_plan(self, delta: PlanDelta) -> None:
        tables = self.tables
        newest = tables.next_region
        for region, members in sorted(delta.regions.items()):
            row = tables.regions.get(region)
            if row is None:
                row = tables.make_region(region)
                if not is_private_region(region):
                    newest = max(newest, RegionId(region + 1))
            elif row.member_ids == members:
                continue
            self._region_step(row)
            row.member_ids = tuple(members)
            row.members = tables.mask_of(members)
        tables.next_region = newest
        for group, regions in sorted(delta.groups.items()):
            group_row = tables.groups[group]
            if group_row.regions == regions:
                continue
            self._group_step(group_row)
            self.placements[group] = tables.place(group_row, tuple(regions))
        for region in delta.regions_gone:
            step = self._region_step(tables.regions[region])
            step.is_gone = True
            tables.remove_region(step.row)

    def _move_hybrid(self) -> None:
        """Let groups get or lose an address; those over the same regions share one."""
        tables, moves = self.tables, self.given.hybrid
        shared = {
            row.regions: row.hybrid
            for row in [tables.groups[group] for group in sorted(tables.hybrid_groups)]
            if moves.get(row.id) is not HybridMode.ABSENT
        }
        for group, mode in sorted(moves.items()):
            row = tables.groups.get(group)
            if row is None or mode_of(row) is mode:
                continue
            self._group_step(row)
            tables.outdated_groups.add(group)
            if mode is HybridMode.ABSENT:
                tables.take_hybrid(row)
                continue
            if not row.hybrid:
                tables.give_hybrid(row, shared.get(row.regions, ""))
                shared[row.regions] = row.hybrid
            row.is_hybrid = mode is HybridMode.USED

    # -- 3. who may send to which region

    def _settle_senders(self) -> None:
        """Update the senders of regions from the differences of their groups."""
        gains: dict[RegionId, int] = {}
        losses: dict[RegionId, int] = {}
        for step in self.group_steps.values():
            users, before = step.row.users, step.users_before
            now, then = step.row.regions, step.regions_before
            stay, come, go = frozenset(now), frozenset[RegionId](), frozenset[RegionId]()
            if now != then:
                stay, come, go = stay.intersection(then), stay.difference(then), go.union(then)
                go = go.difference(now)
            if users != before:
                gained, lost = users & ~before, before & ~users
                for region in stay:
                    gains[region] = gains.get(region, 0) | gained
                    losses[region] = losses.get(region, 0) | lost
            for region in come:
                gains[region] = gains.get(region, 0) | users
            for region in go:
                losses[region] = losses.get(region, 0) | before
        for region in sorted(gains.keys() | losses.keys()):
            row = self.tables.regions.get(region)
            if row is not None:
                self._settle_region(row, gains.get(region, 0), losses.get(region, 0))

    def _settle_region(self, row: RegionRow, gained: int, lost: int) -> None:
        suspects = lost & ~gained & ~self.departed_mask
        # Whoever lost one way to the region may have another one: look until
        # nobody is left to be cleared. Popular groups clear most at once.
        groups = self.tables.groups
        if suspects:
            for group in row.groups:
                suspects &= ~groups[group].users
                if not suspects:
                    break
        senders = (row.senders | gained) & ~suspects & ~(lost & self.departed_mask)
        if senders != row.senders:
            self._region_step(row)
            row.senders = senders

    # -- 4. view numbers

    def _number_views(self) -> None:
        tables = self.tables
        outdated = tables.outdated_groups
        for step in list(self.group_steps.values()):
            if is_attendance(step.row.name) and step.row.members != step.members_before:
                shared = tables.group_ids.get(shared_group(step.row.name))
                if shared is not None:
                    # Senders must hear of the batch in which a queue changed.
                    outdated.add(shared)
        touched = 0
        for region_step in self.region_steps.values():
            row = region_step.row
            if region_step.is_gone:
                touched |= region_step.members_before
                continue
            if row.members == region_step.members_before:
                continue
            # The region of a private group may end and begin again under the same number.
            row.view = tables.batch + 1 if is_private_region(row.id) else row.view + 1
            touched |= row.members | region_step.members_before
            outdated |= row.groups
            for group in row.groups:
                self._group_step(tables.groups[group]).reviewed.append(row.id)
        for group in outdated:
            self._group_step(tables.groups[group])
        for step in self.group_steps.values():
            group_row = step.row
            if (
                step.base == 0
                or group_row.members != step.members_before
                or group_row.regions != step.regions_before
                or group_row.id in outdated
            ):
                # The members of an attendance group must agree since when each of them is in
                # it: its views are numbered by batches.
                is_dated = is_attendance(group_row.name)
                group_row.view = tables.batch + 1 if is_dated else group_row.view + 1
        outdated.clear()
        self.reviews.update(tables.review(touched & ~self.departed_mask))

    def _sweep(self) -> None:
        for step in self.group_steps.values():
            if not step.row.users:
                step.is_gone = True
                self.tables.remove_group(step.row)

    # -- 5. what must be durable before anybody hears of it

    def _commit(self, cluster: int, departed: list[NodeRow]) -> Commit:
        steps = self.group_steps.values()
        return Commit(
            cluster=cluster,
            planner=self.planner.name,
            counters=self.tables.counters(),
            nodes={
                **{row.id: row.stored() for row in self.nodes_changed.values()},
                **dict.fromkeys(row.id for row in departed),
            },
            groups={
                step.row.id: None if step.is_gone else step.row.stored()
                for step in steps
                if step.is_gone or step.has_new_view
            },
            placements={
                **self.placements,
                **dict.fromkeys(step.row.id for step in steps if step.is_gone),
            },
            regions={
                step.row.id: None if step.is_gone else step.row.stored()
                for step in self.region_steps.values()
                if step.is_gone or step.has_new_view
            },
            reviews=self.reviews,
        )
