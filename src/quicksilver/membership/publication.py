"""Who hears what of a batch.

A node needs the views of the groups that it uses (as a member or to send), of
the regions of those groups, and of the regions that it is in. Members of a
region also hear who may send to it. Most nodes get the same parts of a batch,
so each part is encoded once and an Update is put together from encoded parts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from quicksilver.membership.batch import BatchOutcome, GroupStep, RegionStep
from quicksilver.membership.bits import slots_of
from quicksilver.membership.tables import GroupRow, NodeRow, RegionRow, Tables
from quicksilver.wire import gms
from quicksilver.wire.ids import GroupId, NodeId, RegionId

_NUMBER_BYTES = 9
"""The longest integer in MessagePack."""

_HEAD_BYTES = 64
"""More than the tag, the batch number and the lengths of the lists take."""


@dataclass(frozen=True, slots=True)
class PreparedUpdate:
    """An Update that is encoded when its connection can take it.

    Until then it is a list of parts that it shares with others: when thousands
    of nodes join at once, their updates take gigabytes, their parts megabytes.
    """

    update: gms.EncodedUpdate
    size: int
    """Bytes of the encoded update, at most."""

    def encode(self) -> bytes:
        """Return the frame."""
        return gms.encode(self.update)


@dataclass(slots=True)
class _Parcel:
    """The parts of an Update that one node gets."""

    regions: list[msgspec.Raw] = field(default_factory=list)
    groups: list[msgspec.Raw] = field(default_factory=list)
    regions_gone: list[int] = field(default_factory=list)
    groups_gone: list[int] = field(default_factory=list)
    nodes_failed: list[int] = field(default_factory=list)
    mentioned: int = 0
    """Nodes whose addresses the receiver needs."""
    size: int = 0
    """Bytes of the regions and groups."""


class Publisher:
    """Cuts batches to what each node needs, and remembers which nodes it knows."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._known: dict[int, int] = {}
        """Slot of a node that is served, to the set of nodes it has been told of."""
        self._remembered: dict[int, int] = {}
        """Slot of a node that resumed, to the nodes that it may still know from
        before; it must hear of their end, too."""
        self._infos: dict[int, msgspec.Raw] = {}
        """Slot to the node's encoded NodeInfo."""
        self._alive: tuple[int, msgspec.Raw] | None = None
        """Batch, and the encoded list of all nodes in it."""
        self._groups: dict[GroupId, msgspec.Raw] = {}
        """Whole groups, encoded: when the GMS restarts, every node needs them."""
        self._regions: dict[tuple[RegionId, bool], msgspec.Raw] = {}
        """Whole regions, with and without their senders."""

    # -- one batch

    def publish(
        self, outcome: BatchOutcome, served: int, awaited: int = 0
    ) -> list[tuple[NodeId, PreparedUpdate]]:
        """Return the Update of every served node that needs one; the awaited are to confirm it."""
        parcels: dict[int, _Parcel] = {}
        for region in outcome.regions:
            self._add_region(parcels, region, served)
        for group in outcome.groups:
            self._add_group(parcels, group, served)
        self._add_failures(parcels, outcome.departed, served)
        by_slot = self._tables.by_slot
        return [
            (
                by_slot[slot].id,
                self._finish(outcome.batch, slot, parcels[slot], is_awaited=awaited >> slot & 1),
            )
            for slot in sorted(parcels)
        ]

    def _add_region(self, parcels: dict[int, _Parcel], step: RegionStep, served: int) -> None:
        row, region = step.row, step.row.id
        self._regions.pop((region, True), None)
        self._regions.pop((region, False), None)
        then, then_senders = step.members_before, step.senders_before
        now, now_senders = (0, 0) if step.is_gone else (row.members, row.senders)
        for slot in slots_of((then | then_senders) & ~(now | now_senders) & served):
            _parcel(parcels, slot).regions_gone.append(region)

        newcomers = now & ~then & served
        if newcomers:
            part = self._whole_region(row, told_senders=True)
            _hand_out(parcels, newcomers, part, now | now_senders)
        watchers, watchers_before = now_senders & ~now, then_senders & ~then
        new_watchers = watchers & ~watchers_before & served
        if new_watchers:
            part = self._whole_region(row, told_senders=False)
            _hand_out(parcels, new_watchers, part, now)

        stayed = now & then & served
        if stayed and (step.has_new_view or now_senders != then_senders):
            part = msgspec.Raw(gms.encode(self._region_change(step, told_senders=True)))
            _hand_out(parcels, stayed, part, now & ~then | now_senders & ~then_senders)
        still_watching = watchers & watchers_before & served
        if still_watching and step.has_new_view:
            part = msgspec.Raw(gms.encode(self._region_change(step, told_senders=False)))
            _hand_out(parcels, still_watching, part, now & ~then)

    def _add_group(self, parcels: dict[int, _Parcel], step: GroupStep, served: int) -> None:
        row, then = step.row, step.users_before
        self._groups.pop(row.id, None)
        now = 0 if step.is_gone else row.users
        for slot in slots_of(then & ~now & served):
            _parcel(parcels, slot).groups_gone.append(row.id)
        newcomers = now & ~then & served
        if newcomers:
            part = self._whole_group(row)
            _hand_out_group(parcels, newcomers, part)
        stayed = now & then & served
        if stayed and step.has_new_view:
            part = msgspec.Raw(gms.encode(self._group_change(step)))
            _hand_out_group(parcels, stayed, part)

    def _add_failures(
        self, parcels: dict[int, _Parcel], departed: list[NodeRow], served: int
    ) -> None:
        if not departed:
            return
        gone = 0
        for row in departed:
            gone |= row.bit
            self.forget(row)
            self._infos.pop(row.slot, None)
        for slot in slots_of(served & ~gone):
            known, remembered = self._known.get(slot, 0), self._remembered.get(slot, 0)
            heard = (known | remembered) & gone
            if heard:
                self._known[slot] = known & ~gone
                if remembered:
                    self._remembered[slot] = remembered & ~gone
                _parcel(parcels, slot).nodes_failed += self._tables.ids_of(heard)

    def _finish(self, batch: int, slot: int, parcel: _Parcel, *, is_awaited: int) -> PreparedUpdate:
        known = self._known.get(slot, 0)
        news = parcel.mentioned & ~known
        self._known[slot] = known | news
        return self._prepare(batch, parcel, news, [], is_awaited=bool(is_awaited))

    def _prepare(
        self,
        batch: int,
        parcel: _Parcel,
        news: int,
        alive: list[int] | msgspec.Raw,
        *,
        is_awaited: bool,
        joined_in: int = 0,
    ) -> PreparedUpdate:
        infos = [self._info(other) for other in slots_of(news)] if news else []
        numbers = len(parcel.regions_gone) + len(parcel.groups_gone) + len(parcel.nodes_failed)
        size = parcel.size + sum(map(_size, infos)) + _NUMBER_BYTES * numbers + _HEAD_BYTES
        if isinstance(alive, msgspec.Raw):
            size += _size(alive)
        update = gms.EncodedUpdate(
            batch,
            infos,
            parcel.regions,
            parcel.groups,
            parcel.regions_gone,
            parcel.groups_gone,
            parcel.nodes_failed,
            alive,
            is_awaited,
            joined_in,
        )
        return PreparedUpdate(update, size)

    # -- everything

    def publish_whole(self, node: NodeRow) -> PreparedUpdate:
        """Return the complete Update of a node, which is to confirm it."""
        tables = self._tables
        groups = sorted(node.joined | node.opened)
        regions: set[RegionId] = set()
        for group in groups:
            regions.update(tables.groups[group].regions)
        # A merged region may hold the node without any of its groups.
        parcel = _Parcel()
        mentioned = node.bit
        for region in sorted(regions | self._regions_of(node)):
            row = tables.regions[region]
            is_member = bool(row.members & node.bit)
            parcel.regions.append(self._whole_region(row, told_senders=is_member))
            mentioned |= row.members | (row.senders if is_member else 0)
        parcel.groups += [self._whole_group(tables.groups[group]) for group in groups]
        self._known[node.slot] = mentioned
        self._remembered[node.slot] = tables.mask_of(tables.nodes) & ~mentioned
        parcel.size = sum(map(_size, parcel.regions)) + sum(map(_size, parcel.groups))
        alive = self._encoded_alive()
        joined_in = node.joined_in[0]
        return self._prepare(
            tables.batch, parcel, mentioned, alive, is_awaited=True, joined_in=joined_in
        )

    def forget(self, node: NodeRow) -> None:
        """Stop tracking what a node knows: it is not served any more."""
        self._known.pop(node.slot, None)
        self._remembered.pop(node.slot, None)

    def _regions_of(self, node: NodeRow) -> set[RegionId]:
        bit = node.bit
        return {row.id for row in self._tables.regions.values() if row.members & bit}

    def _encoded_alive(self) -> msgspec.Raw:
        batch = self._tables.batch
        if self._alive is None or self._alive[0] != batch:
            self._alive = (batch, msgspec.Raw(gms.encode(sorted(self._tables.nodes))))
        return self._alive[1]

    # -- parts

    def _info(self, slot: int) -> msgspec.Raw:
        info = self._infos.get(slot)
        if info is None:
            info = msgspec.Raw(gms.encode(self._tables.by_slot[slot].info()))
            self._infos[slot] = info
        return info

    def _whole_region(self, row: RegionRow, *, told_senders: bool) -> msgspec.Raw:
        part = self._regions.get((row.id, told_senders))
        if part is None:
            senders = self._tables.ids_of(row.senders) if told_senders else ()
            address = self._tables.address_of(row)
            change = gms.RegionChange(row.id, row.view, 0, address, row.member_ids, (), senders)
            part = msgspec.Raw(gms.encode(change))
            self._regions[row.id, told_senders] = part
        return part

    def _region_change(self, step: RegionStep, *, told_senders: bool) -> gms.RegionChange:
        row, ids_of = step.row, self._tables.ids_of
        now, then = row.members, step.members_before
        now_senders, then_senders = row.senders, step.senders_before
        return gms.RegionChange(
            row.id,
            row.view,
            step.base,
            self._tables.address_of(row),
            ids_of(now & ~then),
            ids_of(then & ~now),
            ids_of(now_senders & ~then_senders) if told_senders else (),
            ids_of(then_senders & ~now_senders) if told_senders else (),
        )

    def _whole_group(self, row: GroupRow) -> msgspec.Raw:
        part = self._groups.get(row.id)
        if part is None:
            members = self._tables.ids_of(row.members)
            hybrid, is_used = self._tables.hybrid_of(row)
            covering = self._covering(row)
            change = gms.GroupChange(
                row.id, row.name, row.view, 0, covering, members, (), hybrid, (), is_used
            )
            part = msgspec.Raw(gms.encode(change))
            self._groups[row.id] = part
        return part

    def _group_change(self, step: GroupStep) -> gms.GroupChange:
        row, ids_of, regions = step.row, self._tables.ids_of, self._tables.regions
        now, then = row.members, step.members_before
        changed = set(step.reviewed)
        gone: frozenset[RegionId] = frozenset()
        if row.regions != step.regions_before:
            listed, listed_before = frozenset(row.regions), frozenset(step.regions_before)
            changed |= listed - listed_before
            gone = listed_before - listed
        hybrid, is_used = self._tables.hybrid_of(row)
        return gms.GroupChange(
            row.id,
            "",
            row.view,
            step.base,
            tuple((region, regions[region].view) for region in sorted(changed)),
            ids_of(now & ~then),
            ids_of(then & ~now),
            hybrid,
            tuple(sorted(gone)),
            is_used,
        )

    def _covering(self, row: GroupRow) -> tuple[tuple[int, int], ...]:
        regions = self._tables.regions
        return tuple([(region, regions[region].view) for region in row.regions])


def senders_to_ask(outcome: BatchOutcome, served: int) -> int:
    """Return the served nodes that may send to groups which have got members.

    Without those that may since this batch: they cannot send before they have applied it.
    """
    asked = 0
    for step in outcome.groups:
        if not step.is_gone and step.row.members & ~step.members_before:
            asked |= step.row.users & step.users_before
    return asked & served


def _parcel(parcels: dict[int, _Parcel], slot: int) -> _Parcel:
    parcel = parcels.get(slot)
    if parcel is None:
        parcel = parcels[slot] = _Parcel()
    return parcel


def _hand_out(
    parcels: dict[int, _Parcel], receivers: int, part: msgspec.Raw, mentioned: int
) -> None:
    size = _size(part)
    for slot in slots_of(receivers):
        parcel = _parcel(parcels, slot)
        parcel.regions.append(part)
        parcel.size += size
        parcel.mentioned |= mentioned


def _hand_out_group(parcels: dict[int, _Parcel], receivers: int, part: msgspec.Raw) -> None:
    size = _size(part)
    for slot in slots_of(receivers):
        parcel = _parcel(parcels, slot)
        parcel.groups.append(part)
        parcel.size += size


def _size(part: msgspec.Raw) -> int:
    return memoryview(part).nbytes
