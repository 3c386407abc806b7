"""The truth that the GMS publishes: nodes, groups, regions and their views.

Rows hold sets of nodes as bit masks (see ``bits``). Between batches the tables
are exactly what has been published; ``batch`` moves them from one batch to the
next, and nothing else writes to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from quicksilver.membership.addresses import AddressPool
from quicksilver.membership.bits import SlotAllocator, slots_of
from quicksilver.membership.names import is_attendance, is_private
from quicksilver.membership.patterns import NameIndex, PatternIndex
from quicksilver.membership.planning.model import Planner, PlanState
from quicksilver.membership.store import (
    Counters,
    Image,
    StoredGroup,
    StoredNode,
    StoredPlacement,
    StoredRegion,
)
from quicksilver.wire import gms
from quicksilver.wire.ids import GroupId, NodeId, RegionId
from quicksilver.wire.packets import HYBRID_ENTRIES_MAX

GROUP_BYTES = 2048
"""Memory that a group takes here, besides its name: rows, indexes, its place in the plan
and what is kept encoded. Measured: 1,580 bytes and 2.4 times the name."""

GROUP_NAME_COPIES = 3

_PRIVATE_REGIONS = 1 << 31
"""Regions of private groups have numbers from here on, so that the planner may count its own."""


def private_region(group: GroupId) -> RegionId:
    """Return the region of a private group."""
    return RegionId(_PRIVATE_REGIONS | group)


def is_private_region(region: int) -> bool:
    return region >= _PRIVATE_REGIONS


def group_bytes(name: str) -> int:
    """Return about how much memory a group of this name takes."""
    # Cheaper than encoding, and never less than what the string itself takes.
    width = 1 if name.isascii() else 4
    return GROUP_BYTES + GROUP_NAME_COPIES * width * len(name)


@dataclass(slots=True)
class NodeRow:
    """A node and what it subscribed to."""

    id: NodeId
    slot: int
    name: str
    ip: str
    port: int
    receive_buffer_bytes: int
    secret: bytes = b""
    """Known to the node alone."""
    joined: frozenset[GroupId] = frozenset()
    opened: frozenset[GroupId] = frozenset()
    reviewed: tuple[int, int] = (0, 0)
    """The last two batches that gave a region of the node a new view or took it out of one,
    newest first. A view that came and went since a batch did so in two later ones."""
    joined_in: tuple[int, int] = (0, 0)
    """The last two batches in which the node came into groups, newest first."""
    multicast: bool = True
    """Whether it can send and receive IP multicast."""
    patterns: frozenset[str] = frozenset()
    matched: frozenset[GroupId] = frozenset()
    """Those of ``joined`` that it did not name: its patterns stand for them."""
    group_bytes: int = 0
    """Memory that the groups take which it joined or opened, by ``group_bytes``."""

    @property
    def named(self) -> frozenset[GroupId]:
        """The groups that it joined by name."""
        return self.joined - self.matched if self.matched else self.joined

    @property
    def bit(self) -> int:
        """The node as a set of one."""
        return 1 << self.slot

    def info(self) -> gms.NodeInfo:
        """Return what other nodes are told."""
        return gms.NodeInfo(self.id, self.name, self.ip, self.port, self.multicast)

    def stored(self) -> StoredNode:
        """Return what is kept."""
        return StoredNode(
            self.name,
            self.ip,
            self.port,
            self.receive_buffer_bytes,
            self.secret,
            tuple(sorted(self.joined)),
            tuple(sorted(self.opened)),
            self.multicast,
            tuple(sorted(self.patterns)),
            tuple(sorted(self.matched)),
            self.joined_in,
        )


@dataclass(slots=True)
class GroupRow:
    """A group and its current view."""

    id: GroupId
    name: str
    hybrid: str
    """The group's own multicast address, at which members listen; empty: it has none."""
    is_hybrid: bool = False
    """True: senders use it, where ``Tables.fits_hybrid``."""
    view: int = 0
    """0 until the batch that creates the group is done."""
    members: int = 0
    matching: int = 0
    """Those of the members that did not name the group: a pattern stands for it."""
    openers: int = 0
    """Nodes that opened the group for sending, members or not."""
    regions: tuple[RegionId, ...] = ()
    """Ascending."""

    @property
    def users(self) -> int:
        """Everybody who may send, and therefore needs the group's view."""
        return self.members | self.openers

    @property
    def keepers(self) -> int:
        """Those who named the group; it ends with the last of them."""
        return self.members & ~self.matching | self.openers

    def stored(self) -> StoredGroup:
        """Return what is kept."""
        return StoredGroup(self.name, self.view, self.hybrid, self.is_hybrid)


@dataclass(slots=True)
class RegionRow:
    """A region and its current view."""

    id: RegionId
    address: str
    view: int = 0
    member_ids: tuple[NodeId, ...] = ()
    """Ascending."""
    members: int = 0
    """The same as a mask."""
    senders: int = 0
    """The users of all groups in ``groups``."""
    groups: set[GroupId] = field(default_factory=set)
    """Groups that map to the region."""

    def stored(self) -> StoredRegion:
        """Return what is kept."""
        return StoredRegion(self.view, self.address, self.member_ids)


class Tables:
    """Rows, the indexes between them, and the counters."""

    def __init__(
        self, *, pool: AddressPool, hybrid_names: frozenset[str], has_multicast: bool = True
    ) -> None:
        """``hybrid_names``: groups that have an address of their own from the beginning;
        ``has_multicast``: False if nothing in the cluster is to use it."""
        self.pool = pool
        self.has_multicast = has_multicast
        self.without_multicast = 0
        """The nodes, as bits, that can neither send nor receive it."""
        self.hybrid_names = hybrid_names
        self.hybrid_groups: set[GroupId] = set()
        """Groups that have an address of their own."""
        self.nodes: dict[NodeId, NodeRow] = {}
        self.groups: dict[GroupId, GroupRow] = {}
        self.group_ids: dict[str, GroupId] = {}
        self.aside: set[GroupId] = set()
        """Groups that the planner is not told of: attendance and private ones."""
        self.patterns: PatternIndex[NodeId] = PatternIndex()
        """Who subscribed to which patterns."""
        self._names: NameIndex[GroupId] | None = None
        """Groups by the levels of their names; made when the first pattern needs it."""
        self.group_bytes = 0
        """Memory that all groups take, by ``group_bytes``."""
        self.memberships = 0
        """Groups joined or opened, over all nodes, …"""
        self.matches = 0
        """… and those of them that patterns found."""
        self.regions: dict[RegionId, RegionRow] = {}
        self.by_slot: dict[int, NodeRow] = {}
        self.batch = 0
        """The last batch that was published."""
        self.next_node = 1
        self.next_group = 1
        self.next_region = 1
        self.outdated_groups: set[GroupId] = set()
        """Groups that need a new view although neither their members nor their
        list of regions changed."""
        self.hierarchies: dict[GroupId, int] = {}
        """What the planner last said of groups that are in a hierarchy."""
        self.moved_groups: set[GroupId] = set()
        """Groups placed since then."""
        self.is_replanning = False
        """The stored plan is another planner's: the next batch makes a new one."""
        self.reviews: dict[int, int] = {}
        """Batches that some node has in ``reviewed``, and how many nodes do."""
        self._slots = SlotAllocator()

    @property
    def needs_batch(self) -> bool:
        """True after a restore that left something to be changed."""
        return self.is_replanning or bool(self.outdated_groups)

    def counters(self) -> Counters:
        """Return the counters as they are stored."""
        return Counters(
            batch=self.batch,
            node=self.next_node,
            group=self.next_group,
            region=self.next_region,
            address=self.pool.cursor,
        )

    def address_of(self, row: RegionRow) -> str:
        """Return where packets for a region go, or nothing if a member has no multicast."""
        return row.address if self._takes_multicast(row.members) else ""

    def hybrid_of(self, row: GroupRow) -> tuple[str, bool]:
        """Return a group's own address, if all can listen there, and whether senders use it."""
        if not row.hybrid or not self._takes_multicast(row.members):
            return "", False
        return row.hybrid, row.is_hybrid and self.fits_hybrid(row)

    def fits_hybrid(self, row: GroupRow) -> bool:
        """Whether one packet at an address of the group's own can do for all of its regions.

        Members alone listen there. If a region has other nodes they miss every packet,
        and all would have to be repaired.
        """
        if not 1 < len(row.regions) <= HYBRID_ENTRIES_MAX:
            return False
        nodes = sum(len(self.regions[region].member_ids) for region in row.regions)
        return nodes == row.members.bit_count() and self._takes_multicast(row.members)

    def _takes_multicast(self, members: int) -> bool:
        return self.has_multicast and not members & self.without_multicast

    # -- rows

    def make_node(self, hello: gms.Hello, secret: bytes) -> NodeRow:
        """Create a node that is part of the tables from its first batch on."""
        row = NodeRow(
            NodeId(self.next_node),
            self._slots.acquire(),
            hello.name,
            hello.ip,
            hello.port,
            hello.receive_buffer_bytes,
            secret,
            multicast=hello.multicast,
        )
        self.next_node += 1
        return row

    def drop_unborn(self, row: NodeRow) -> None:
        """Forget a node that no batch has seen; its identifier stays unused."""
        assert row.id not in self.nodes
        self._slots.release(row.slot)

    def add_node(self, row: NodeRow) -> None:
        """Make a node part of the tables."""
        self.nodes[row.id] = row
        self.by_slot[row.slot] = row
        if not row.multicast:
            self.without_multicast |= row.bit

    def remove_nodes(self, rows: Iterable[NodeRow]) -> None:
        """Forget nodes that no mask mentions any more."""
        for row in rows:
            del self.nodes[row.id]
            del self.by_slot[row.slot]
            self.without_multicast &= ~row.bit
            self._slots.release(row.slot)

    def make_group(self, name: str) -> GroupRow:
        """Create an empty group."""
        row = GroupRow(GroupId(self.next_group), name, "")
        self.next_group += 1
        self.groups[row.id] = row
        self._add_name(row)
        if name in self.hybrid_names:
            self.give_hybrid(row)
            row.is_hybrid = True
        self.group_bytes += group_bytes(name)
        return row

    def remove_group(self, row: GroupRow) -> None:
        """Forget a group without users; the name may come back as a new group."""
        assert not row.users
        assert not row.regions
        del self.groups[row.id]
        del self.group_ids[row.name]
        self.aside.discard(row.id)
        if self._names is not None:
            self._names.discard(row.name, row.id)
        self.group_bytes -= group_bytes(row.name)
        self.hierarchies.pop(row.id, None)
        self.moved_groups.discard(row.id)
        self.take_hybrid(row)

    def give_hybrid(self, row: GroupRow, address: str = "") -> None:
        """Give a group an address, ``address`` if another one has it already."""
        assert not row.hybrid
        owner = ("group", row.id)
        if address:
            self.pool.restore(owner, address)
        row.hybrid = address or self.pool.acquire(owner)
        self.hybrid_groups.add(row.id)

    def take_hybrid(self, row: GroupRow) -> None:
        """Take back a group's address, if it has one."""
        if row.hybrid:
            self.pool.release(("group", row.id))
            row.hybrid, row.is_hybrid = "", False
            self.hybrid_groups.discard(row.id)

    def _add_name(self, row: GroupRow) -> None:
        self.group_ids[row.name] = row.id
        if is_attendance(row.name) or is_private(row.name):
            self.aside.add(row.id)
        if self._names is not None:
            self._names.add(row.name, row.id)

    def groups_matching(self, patterns: Iterable[str]) -> set[GroupId]:
        """Return the groups that any of the patterns stands for."""
        if self._names is None:
            self._names = NameIndex()
            for name, group in self.group_ids.items():
                self._names.add(name, group)
        return {group for pattern in patterns for group in self._names.match(pattern)}

    def bytes_of(self, groups: Iterable[GroupId]) -> int:
        """Return about how much memory these groups take."""
        return sum(group_bytes(self.groups[group].name) for group in groups)

    def planned(self, row: NodeRow) -> frozenset[GroupId]:
        """Return the groups of a node that the planner is told of."""
        return row.joined if row.joined.isdisjoint(self.aside) else row.joined - self.aside

    def make_region(self, region: RegionId) -> RegionRow:
        """Create an empty region under the identifier that the planner gave it."""
        assert region >= self.next_region
        address = "" if is_private_region(region) else self.pool.acquire(("region", region))
        row = RegionRow(region, address)
        self.regions[region] = row
        return row

    def remove_region(self, row: RegionRow) -> None:
        """Forget a region."""
        assert not row.groups
        del self.regions[row.id]
        if row.address:
            self.pool.release(("region", row.id))

    # -- who was given which view

    def review(self, mask: int) -> dict[int, tuple[NodeId, ...] | None]:
        """The next batch gives regions of these nodes a new view, or takes them out of one;
        return what is kept.

        A node that comes back after a restart must still be told from one that was
        in a view without hearing of it.
        """
        if not mask:
            return {}
        batch = self.batch + 1
        changes: dict[int, tuple[NodeId, ...] | None] = {}
        slots = slots_of(mask)
        for slot in slots:
            node = self.by_slot[slot]
            newest, before = node.reviewed
            node.reviewed = (batch, newest)
            self._unref_review(before, changes)
        self.reviews[batch] = len(slots)
        changes[batch] = self.ids_of(mask)
        return changes

    def drop_reviews(self, row: NodeRow) -> dict[int, tuple[NodeId, ...] | None]:
        """A node departs: return what need no longer be kept."""
        changes: dict[int, tuple[NodeId, ...] | None] = {}
        for batch in row.reviewed:
            self._unref_review(batch, changes)
        row.reviewed = (0, 0)
        return changes

    def _unref_review(self, batch: int, changes: dict[int, tuple[NodeId, ...] | None]) -> None:
        if not batch:
            return
        self.reviews[batch] -= 1
        if not self.reviews[batch]:
            del self.reviews[batch]
            changes[batch] = None

    # -- sets of nodes

    def ids_of(self, mask: int) -> tuple[NodeId, ...]:
        """Return the nodes of a set, ascending."""
        if not mask:
            return ()
        by_slot = self.by_slot
        return tuple(sorted([by_slot[slot].id for slot in slots_of(mask)]))

    def mask_of(self, ids: Iterable[NodeId]) -> int:
        """Return nodes as a set."""
        bits = bytearray((len(self.by_slot) >> 3) + 8)
        for node in ids:
            slot = self.nodes[node].slot
            at = slot >> 3
            if at >= len(bits):
                bits.extend(bytes(at + 1 - len(bits)))
            bits[at] |= 1 << (slot & 7)
        return int.from_bytes(bits, "little")

    # -- the plan

    def place(self, row: GroupRow, regions: tuple[RegionId, ...]) -> StoredPlacement:
        """Let a group be covered by ``regions``; return what is kept."""
        then, now = frozenset(row.regions), frozenset(regions)
        for region in then - now:
            self.regions[region].groups.discard(row.id)
        for region in now - then:
            self.regions[region].groups.add(row.id)
        row.regions = regions
        self.moved_groups.add(row.id)
        return StoredPlacement(regions, self.hierarchies.get(row.id))

    def note_hierarchies(
        self, hierarchies: Mapping[GroupId, int]
    ) -> dict[GroupId, StoredPlacement | None]:
        """Take the hierarchies of the groups that moved; return those to be stored."""
        changed: dict[GroupId, StoredPlacement | None] = {}
        for group in sorted(self.moved_groups):
            level = hierarchies.get(group)
            if level == self.hierarchies.get(group):
                continue
            if level is None:
                del self.hierarchies[group]
            else:
                self.hierarchies[group] = level
            changed[group] = StoredPlacement(self.groups[group].regions, level)
        self.moved_groups.clear()
        return changed

    # -- restart

    def restore(self, image: Image, planner: Planner) -> None:
        """Continue from what a store holds, on empty tables."""
        assert not self.nodes
        self.batch = image.counters.batch
        self.next_node = image.counters.node
        self.next_group = image.counters.group
        self.next_region = image.counters.region
        self.pool.cursor = image.counters.address % self.pool.size
        for node_id, node in image.nodes.items():
            self.add_node(
                NodeRow(
                    node_id,
                    self._slots.acquire(),
                    node.name,
                    node.ip,
                    node.port,
                    node.receive_buffer_bytes,
                    node.secret,
                    frozenset(node.joined),
                    frozenset(node.opened),
                    multicast=node.multicast,
                    patterns=frozenset(node.patterns),
                    matched=frozenset(node.matched),
                    joined_in=node.joined_in,
                )
            )
            for pattern in node.patterns:
                self.patterns.add(pattern, node_id)
        self._restore_reviews(image)
        self._restore_regions(image)
        self._restore_groups(image)
        self._restore_plan(image, planner)

    def _restore_reviews(self, image: Image) -> None:
        for batch in sorted(image.reviews):
            for node in image.reviews[batch]:
                row = self.nodes.get(node)
                if row is not None:
                    row.reviewed = (batch, row.reviewed[0])
        for row in self.nodes.values():
            for batch in row.reviewed:
                if batch:
                    self.reviews[batch] = self.reviews.get(batch, 0) + 1

    def _restore_regions(self, image: Image) -> None:
        for region_id, region in image.regions.items():
            if region.address:
                self.pool.restore(("region", region_id), region.address)
            self.regions[region_id] = RegionRow(
                region_id,
                region.address,
                region.view,
                region.members,
                self.mask_of(region.members),
            )

    def _restore_groups(self, image: Image) -> None:
        for group_id, group in image.groups.items():
            row = GroupRow(group_id, group.name, "", group.is_hybrid, group.view)
            if group.hybrid:
                self.give_hybrid(row, group.hybrid)
            placement = image.placements.get(group_id)
            if placement is not None:
                row.regions = placement.regions
                if placement.hierarchy is not None:
                    self.hierarchies[group_id] = placement.hierarchy
            self.groups[group_id] = row
            self._add_name(row)
            self.group_bytes += group_bytes(group.name)
        for node in self.nodes.values():
            for group_id in node.joined:
                self.groups[group_id].members |= node.bit
            for group_id in node.matched:
                self.groups[group_id].matching |= node.bit
            for group_id in node.opened:
                self.groups[group_id].openers |= node.bit
            node.group_bytes = self.bytes_of(node.joined | node.opened)
            self.memberships += len(node.joined) + len(node.opened)
            self.matches += len(node.matched)
        for row in self.groups.values():
            for region_id in row.regions:
                region = self.regions[region_id]
                region.groups.add(row.id)
                region.senders |= row.users

    def _restore_plan(self, image: Image, planner: Planner) -> None:
        if planner.name == image.planner:
            regions = image.regions.items()
            placements = image.placements.items()
            state = PlanState(
                {r: region.members for r, region in regions if not is_private_region(r)},
                {g: p.regions for g, p in placements if g not in self.aside},
                dict(self.hierarchies),
                self.next_region,
            )
            rows = [(row.id, self.planned(row)) for row in self.nodes.values()]
            members = [(node, groups) for node, groups in rows if groups]
        else:
            state = PlanState({}, {}, {}, self.next_region)
            members = []
            self.hierarchies.clear()
            self.is_replanning = bool(self.nodes)
        planner.restore(members, state)
