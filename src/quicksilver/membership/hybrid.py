"""Moving groups in and out of hybrid mode.

A group takes an address in two steps and gives it up in two: members listen before
anybody sends to it, and are still there when the last has stopped. Each look at the
traffic moves a group by one step, so one that pays for a moment never gets there.

    ABSENT ──▶ LISTENING ──▶ USED
       ◀──────────  ◀──────────

What is sent to an address where a member does not listen yet is repaired like
anything else that is lost.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from quicksilver.membership.bits import slots_of
from quicksilver.membership.config import ServiceConfig
from quicksilver.membership.planning.hybrid import Candidate, choose_hybrid
from quicksilver.membership.tables import GroupRow, Tables
from quicksilver.wire.ids import GroupId, RegionId

REGIONS_MAX = 40
"""Headers of so many regions fit into half a packet of 1,400 bytes. Senders whose packets
have less room send to each region."""


class HybridMode(enum.Enum):
    """What a group's own address is to it."""

    ABSENT = enum.auto()
    LISTENING = enum.auto()
    """Members listen at it, and nobody sends to it."""
    USED = enum.auto()


def mode_of(row: GroupRow) -> HybridMode:
    """Return the mode that a group is in."""
    if not row.hybrid:
        return HybridMode.ABSENT
    return HybridMode.USED if row.is_hybrid else HybridMode.LISTENING


def find_named_moves(tables: Tables) -> dict[GroupId, HybridMode]:
    """Return how groups must move that an operator wants to be hybrid, or no longer."""
    moves: dict[GroupId, HybridMode] = {}
    for row in tables.groups.values():
        is_named = row.name in tables.hybrid_names
        wanted = HybridMode.USED if is_named else HybridMode.ABSENT
        if mode_of(row) is not wanted:
            moves[row.id] = wanted
    return moves


def find_moves(
    tables: Tables, rates: Mapping[GroupId, float], config: ServiceConfig
) -> dict[GroupId, HybridMode]:
    """Return the next step of every group that is to move, for this traffic.

    ``rates``: messages a second. Only groups that are named there or have an address
    are looked at, however many there are.
    """
    bundles: dict[tuple[RegionId, ...], list[GroupRow]] = {}
    unfit: list[GroupRow] = []
    for group in sorted(rates.keys() | tables.hybrid_groups):
        row = tables.groups.get(group)
        if row is None:
            continue
        if len(row.regions) <= REGIONS_MAX and tables.fits_hybrid(row):
            bundles.setdefault(row.regions, []).append(row)
        elif row.hybrid:
            unfit.append(row)
    chosen = _choose(tables, list(bundles.values()), unfit, rates, config) if bundles else set()
    moves: dict[GroupId, HybridMode] = {}
    for group in sorted(chosen | tables.hybrid_groups):
        mode = mode_of(tables.groups[group])
        wanted = _next_step(mode, is_chosen=group in chosen)
        if wanted is not mode:
            moves[group] = wanted
    return moves


def _next_step(mode: HybridMode, *, is_chosen: bool) -> HybridMode:
    if is_chosen:
        return HybridMode.LISTENING if mode is HybridMode.ABSENT else HybridMode.USED
    return HybridMode.LISTENING if mode is HybridMode.USED else HybridMode.ABSENT


def _choose(
    tables: Tables,
    bundles: list[list[GroupRow]],
    unfit: list[GroupRow],
    rates: Mapping[GroupId, float],
    config: ServiceConfig,
) -> set[GroupId]:
    """Return the groups that are to have an address; those of a bundle share it."""
    found = [
        Candidate(
            len(rows[0].regions),
            rows[0].members,
            sum(rates.get(row.id, 0.0) for row in rows),
            any(row.hybrid for row in rows),
        )
        for rows in bundles
    ]
    memberships: dict[int, int] = {}
    listening = {row.hybrid: row.members for row in unfit}
    for mask in [*(region.members for region in tables.regions.values()), *listening.values()]:
        for slot in slots_of(mask):
            memberships[slot] = memberships.get(slot, 0) + 1
    picked = choose_hybrid(
        found,
        memberships=memberships,
        memberships_max=config.memberships_per_node_max,
        gain_min=config.hybrid_gain_min,
        addresses_max=max(0, tables.pool.size - len(tables.regions)),
    )
    chosen: set[GroupId] = set()
    taken = set(listening)
    for at in sorted(picked, key=lambda at: (-found[at].gain, at)):
        # Groups that had the same members and no longer do part, and such that now have
        # come together: whoever has the wrong address gives it up first.
        addresses = [row.hybrid for row in bundles[at] if row.hybrid and row.hybrid not in taken]
        kept = ("", *addresses[:1])
        taken.update(addresses)
        chosen.update(row.id for row in bundles[at] if row.hybrid in kept)
    return chosen
