"""What one node knows of the cluster: nodes, region views and group views.

The GMS sends differences; the directory applies each batch in one step, or not
at all. Views are immutable values, so whoever holds one (a sender that has
committed a message to a group view, a ring built for a region view) keeps it
while the directory moves on (dissertation 4.2.1 A).
"""

from __future__ import annotations

import ipaddress
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

import msgspec

from quicksilver.membership.names import is_attendance
from quicksilver.wire import gms
from quicksilver.wire.ids import GROUPS_MAX, GroupId, NodeId, RegionId, ViewNumber

Key = TypeVar("Key")
Value = TypeVar("Value")

# Up to this many new members are looked up one by one instead of in a set.
_FEW = 8


class RegionView(msgspec.Struct, frozen=True):
    """One numbered view of a region."""

    id: RegionId
    view: ViewNumber
    address: str
    """Multicast address of the region's traffic."""
    members: tuple[NodeId, ...]
    """Ascending, so that all members build the same rings."""
    senders: frozenset[NodeId]
    """Nodes that may send to the region. Only members are told: on a node that
    is not in ``members`` this is empty."""


class GroupView(msgspec.Struct, frozen=True):
    """One numbered view of a group and the region views that cover it."""

    id: GroupId
    name: str
    view: ViewNumber
    members: tuple[NodeId, ...]
    """Ascending."""
    regions: tuple[tuple[RegionId, ViewNumber], ...]
    """Ascending; disjoint, and together they contain all members."""
    hybrid: str
    """The group's own multicast address, at which members listen, or empty."""
    is_hybrid: bool = False
    """True: senders use it, one packet for all regions."""


class DirectoryChange(msgspec.Struct, frozen=True):
    """What an Update did to a directory."""

    regions: tuple[RegionView, ...] = ()
    groups: tuple[GroupView, ...] = ()
    regions_gone: tuple[RegionId, ...] = ()
    groups_gone: tuple[GroupId, ...] = ()
    nodes_failed: tuple[NodeId, ...] = ()


class Misfit(msgspec.Struct, frozen=True):
    """Why an Update could not be applied; the directory is as before."""

    reason: str


class _MisfitError(Exception):
    """Unwinds a staged update; never leaves this module."""


class _Stage(msgspec.Struct):
    """The entries an update replaces, until all of it is known to fit."""

    nodes: dict[NodeId, gms.NodeInfo] = msgspec.field(default_factory=dict)
    regions: dict[RegionId, RegionView] = msgspec.field(default_factory=dict)
    groups: dict[GroupId, GroupView] = msgspec.field(default_factory=dict)


class Directory:
    """The current views that a node needs: as a member or as a sender."""

    def __init__(self) -> None:
        self.nodes: dict[NodeId, gms.NodeInfo] = {}
        self.regions: dict[RegionId, RegionView] = {}
        self.groups: dict[GroupId, GroupView] = {}
        self.batch = 0
        """Number of the last batch applied."""
        self.joined_batch = 0
        """The batch in which the node came into groups that the last update brought it into."""

    def clear(self) -> None:
        """Forget everything: the node's incarnation is over."""
        self.nodes.clear()
        self.regions.clear()
        self.groups.clear()
        self.batch = self.joined_batch = 0

    def apply(self, update: gms.Update) -> DirectoryChange | Misfit:
        """Apply a batch in one step, or leave everything as it was."""
        try:
            if update.alive:
                return self._replace(update)
            return self._advance(update)
        except _MisfitError as misfit:
            return Misfit(str(misfit))

    def _advance(self, update: gms.Update) -> DirectoryChange:
        _check(update.batch > self.batch, f"batch {update.batch} after {self.batch}")
        regions_gone = tuple(RegionId(r) for r in update.regions_gone)
        groups_gone = tuple(GroupId(g) for g in update.groups_gone)
        failed = tuple(NodeId(n) for n in update.nodes_failed if NodeId(n) in self.nodes)
        for region in regions_gone:
            _check(region in self.regions, f"region {region} was not known, yet is gone")
        for group in groups_gone:
            _check(group in self.groups, f"group {group} was not known, yet is gone")
        stage = self._stage(update, self.nodes, self.regions, self.groups)
        for gone in regions_gone:
            _check(gone not in stage.regions, f"region {gone} is gone and changed")
        for gone_group in groups_gone:
            _check(gone_group not in stage.groups, f"group {gone_group} is gone and changed")
        if failed:
            self._check_absent(frozenset(failed), stage, frozenset(regions_gone))

        self.nodes.update(stage.nodes)
        self.regions.update(stage.regions)
        self.groups.update(stage.groups)
        for region in regions_gone:
            self.regions.pop(region, None)
        for group in groups_gone:
            self.groups.pop(group, None)
        for node in failed:
            del self.nodes[node]
        self.batch = self.joined_batch = update.batch
        return DirectoryChange(
            tuple(stage.regions.values()),
            tuple(stage.groups.values()),
            regions_gone,
            groups_gone,
            failed,
        )

    def _replace(self, update: gms.Update) -> DirectoryChange:
        _check(update.batch >= self.batch, f"batch {update.batch} after {self.batch}")
        for region in update.regions:
            _check(region.base == 0, f"region {region.id}: a complete update has base 0")
        for group in update.groups:
            _check(group.base == 0, f"group {group.id}: a complete update has base 0")
        # Views already known are looked up so that numbers never go back.
        stage = self._stage(update, {}, self.regions, self.groups)
        alive = frozenset(update.alive)
        change = DirectoryChange(
            tuple(v for v in stage.regions.values() if self.regions.get(v.id) != v),
            tuple(v for v in stage.groups.values() if self.groups.get(v.id) != v),
            tuple(sorted(self.regions.keys() - stage.regions.keys())),
            tuple(sorted(self.groups.keys() - stage.groups.keys())),
            tuple(sorted(n for n in self.nodes if n not in alive)),
        )
        # A known node that is alive but no longer mentioned is still known to
        # the application through older views, so its address is kept.
        known = {n: info for n, info in self.nodes.items() if n in alive}
        known.update(stage.nodes)
        _refill(self.nodes, known)
        _refill(self.regions, stage.regions)
        _refill(self.groups, stage.groups)
        self.batch = update.batch
        # Other batches may have come since it joined, which senders need not have heard of.
        self.joined_batch = min(update.joined_in or update.batch, update.batch)
        return change

    def _stage(
        self,
        update: gms.Update,
        nodes: Mapping[NodeId, gms.NodeInfo],
        regions: Mapping[RegionId, RegionView],
        groups: Mapping[GroupId, GroupView],
    ) -> _Stage:
        stage = _Stage()
        for info in update.nodes:
            _check(
                _is_unicast(info.ip) and 0 < info.port < 65536,
                f"node {info.id} has the address {info.ip[:40]!r}:{info.port}",
            )
            stage.nodes[NodeId(info.id)] = info
        for region in update.regions:
            view = _advance_region(region, regions.get(RegionId(region.id)))
            for node in (*region.joined, *region.senders):
                _check(
                    NodeId(node) in stage.nodes or NodeId(node) in nodes,
                    f"region {region.id} mentions node {node}, of which nothing is known",
                )
            _check(view.id not in stage.regions, f"region {region.id} is there twice")
            stage.regions[view.id] = view
        # A complete update stands on its own; another one on what was there, too.
        current = {} if update.alive else regions
        for group in update.groups:
            after = _advance_group(group, groups.get(GroupId(group.id)), stage.regions, current)
            _check(after.id not in stage.groups, f"group {group.id} is there twice")
            stage.groups[after.id] = after
        return stage

    def _check_absent(
        self, failed: frozenset[NodeId], stage: _Stage, gone: frozenset[RegionId]
    ) -> None:
        for region in (self.regions | stage.regions).values():
            if region.id in gone:
                continue
            _check(
                failed.isdisjoint(region.members) and failed.isdisjoint(region.senders),
                f"region {region.id} still has a failed node",
            )


def _advance_region(change: gms.RegionChange, before: RegionView | None) -> RegionView:
    where = f"region {change.id}"
    _check(change.id > 0 and change.view > 0, f"{where} has a number that is not positive")
    _check(not change.address or _is_multicast(change.address), f"{where}: bad address")
    if change.base == 0:
        if before is not None:
            _check(change.view >= before.view, f"{where} goes back to view {change.view}")
        members = _merge((), change.joined, change.left, where)
        senders = _replaced(frozenset(), change.senders, change.senders_gone, where)
    else:
        if before is None or before.view != change.base:
            have = 0 if before is None else before.view
            raise _MisfitError(f"{where}: update from view {change.base}, have {have}")
        if change.view == change.base:
            _check(not change.joined and not change.left, f"{where} changes without a new view")
        _check(change.view >= change.base, f"{where} goes back to view {change.view}")
        members = _merge(before.members, change.joined, change.left, where)
        senders = _replaced(before.senders, change.senders, change.senders_gone, where)
    return RegionView(
        RegionId(change.id), ViewNumber(change.view), change.address, members, senders
    )


def _advance_group(
    change: gms.GroupChange,
    before: GroupView | None,
    staged: Mapping[RegionId, RegionView],
    current: Mapping[RegionId, RegionView],
) -> GroupView:
    where = f"group {change.id}"
    _check(change.id > 0 and change.view > 0, f"{where} has a number that is not positive")
    _check(change.id < GROUPS_MAX, f"{where} has a number that no group has")
    _check(not change.hybrid or _is_multicast(change.hybrid), f"{where}: bad address")
    _check(bool(change.hybrid) or not change.is_hybrid, f"{where}: hybrid without an address")
    if change.base == 0:
        if before is not None:
            _check(change.view >= before.view, f"{where} goes back to view {change.view}")
        _check(bool(change.name), f"{where} has no name")
        name = change.name
        members = _merge((), change.joined, change.left, where)
        covering: dict[RegionId, ViewNumber] = {}
    else:
        if before is None or before.view != change.base:
            have = 0 if before is None else before.view
            raise _MisfitError(f"{where}: update from view {change.base}, have {have}")
        _check(change.view > change.base, f"{where} goes back to view {change.view}")
        name = before.name
        members = _merge(before.members, change.joined, change.left, where)
        covering = dict(before.regions)
    for gone in change.regions_gone:
        _check(RegionId(gone) in covering, f"{where} never was in region {gone}")
        del covering[RegionId(gone)]
    for region, view in change.regions:
        covering[RegionId(region)] = ViewNumber(view)
    views = []
    for key, number in covering.items():
        found = staged.get(key) or current.get(key)
        if found is None or found.view != number:
            raise _MisfitError(f"{where} needs view {number} of region {key}")
        views.append(found)
    if not is_attendance(name):
        _check_covered(change.joined, views, where)
    return GroupView(
        GroupId(change.id),
        name,
        ViewNumber(change.view),
        members,
        tuple(sorted(covering.items())),
        change.hybrid,
        change.is_hybrid,
    )


def _refill(current: dict[Key, Value], replacement: Mapping[Key, Value]) -> None:
    """Replace the contents: others hold on to the dict itself."""
    current.clear()
    current.update(replacement)


def _check_covered(joined: tuple[int, ...], covering: list[RegionView], where: str) -> None:
    """Check that every node in ``joined`` is in one of the regions."""
    if len(joined) <= _FEW:
        for node in joined:
            found = sum(_has(region.members, node) for region in covering)
            _check(found == 1, f"{where}: node {node} is in {found} of its regions")
        return
    union: set[int] = set()
    size = 0
    for region in covering:
        union.update(region.members)
        size += len(region.members)
    _check(size == len(union), f"{where} has regions that overlap")
    _check(union.issuperset(joined), f"{where} has members outside of its regions")


def _has(members: tuple[NodeId, ...], node: int) -> bool:
    at = bisect_left(members, node)
    return at < len(members) and members[at] == node


def _merge(
    before: tuple[NodeId, ...], joined: tuple[int, ...], left: tuple[int, ...], where: str
) -> tuple[NodeId, ...]:
    if not joined and not left:
        return before
    return tuple(sorted(_replaced(frozenset(before), joined, left, where)))


def _replaced(
    before: frozenset[NodeId], added: Iterable[int], removed: Iterable[int], where: str
) -> frozenset[NodeId]:
    come = frozenset(NodeId(n) for n in added)
    gone = frozenset(NodeId(n) for n in removed)
    if not come and not gone:
        return before
    _check(come.isdisjoint(before), f"{where}: a node came that was there")
    _check(gone <= before, f"{where}: a node left that was not there")
    return (before | come) - gone


@lru_cache(maxsize=8192)
def _is_unicast(ip: str) -> bool:
    try:
        return not ipaddress.IPv4Address(ip).is_multicast
    except ValueError:
        return False


@lru_cache(maxsize=8192)
def _is_multicast(ip: str) -> bool:
    try:
        return ipaddress.IPv4Address(ip).is_multicast
    except ValueError:
        return False


def _check(fits: bool, reason: str) -> None:
    if not fits:
        raise _MisfitError(reason)
