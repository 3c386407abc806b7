"""What runs inside one Spark task, on a part of the problem.

The GMS's own planners, the clustering of a block, and strict hierarchies of the
largest groups of a component that no task can hold. Pure Python on plain rows, so
that it is tested without Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, TypeAlias

from quicksilver.membership.planning import make_planner
from quicksilver.membership.planning.model import PlanLimits, PlanState
from quicksilver.membership.planning.optimise import Classes, Optimiser
from quicksilver.wire.ids import GroupId, NodeId

Strategy: TypeAlias = Literal["exact", "perfect", "regular", "merged"]
PlanRow: TypeAlias = tuple[str, str, int, int | None]
"""A row of ``schemas.PLAN_ROWS``."""

GROUP, NODE = "group", "node"


def plan_part(
    pairs: Iterable[tuple[str, str]],
    weights: dict[str, int],
    copies: dict[str, int],
    strategy: Strategy,
    limits: PlanLimits,
    rates: dict[str, float] | None = None,
) -> Iterator[PlanRow]:
    """Plan classes of nodes and bundles of groups with the planner of the GMS.

    A class of many nodes is given to the planner as that many nodes, and a bundle
    as that many groups, which share its rate: their numbers decide what fits and
    what it costs.
    """
    wants: dict[str, set[str]] = {}
    for node, group in pairs:
        wants.setdefault(node, set()).add(group)
    groups: dict[GroupId, str] = {}
    numbers: dict[str, list[GroupId]] = {}
    free = 1
    for group in sorted({group for wanted in wants.values() for group in wanted}):
        own = [GroupId(free + at) for at in range(copies.get(group, 1))]
        numbers[group] = own
        groups[own[0]] = group
        free += len(own)
    members: dict[NodeId, frozenset[GroupId]] = {}
    names: dict[NodeId, str] = {}
    following = 1
    for node in sorted(wants):
        wanted = frozenset(number for group in wants[node] for number in numbers[group])
        names[NodeId(following)] = node
        for _ in range(weights.get(node, 1)):
            members[NodeId(following)] = wanted
            following += 1
    traffic: dict[GroupId, float] | None = None
    if rates is not None:
        traffic = {
            number: rates.get(group, 0.0) / len(own)
            for group, own in numbers.items()
            for number in own
        }
    planner = make_planner(strategy, limits, traffic)
    planner.apply(members)
    yield from _rows(planner.state(), names, groups)


def _rows(
    state: PlanState, names: dict[NodeId, str], groups: dict[GroupId, str]
) -> Iterator[PlanRow]:
    levels: dict[int, int] = {}
    for number, regions in state.groups.items():
        level = state.hierarchies.get(number, 0)
        if number in groups:
            yield GROUP, groups[number], level, None
        levels.update((region, level) for region in regions)
    for region, nodes in state.regions.items():
        for node in nodes:
            if node in names:
                yield NODE, names[node], levels[region], region


def cluster_block(
    pairs: Iterable[tuple[str, str]],
    weights: dict[str, int],
    copies: dict[str, int],
    packet_cost: float,
    level: int,
    rates: dict[str, float] | None = None,
) -> Iterator[PlanRow]:
    """Divide the classes of one block among regions, for the groups of one hierarchy."""
    wants: dict[str, set[str]] = {}
    for node, group in pairs:
        wants.setdefault(node, set()).add(group)
    nodes = sorted(wants)
    numbers: dict[str, range] = {}
    following = 0
    for group in sorted({g for wanted in wants.values() for g in wanted}):
        numbers[group] = range(following, following + copies.get(group, 1))
        following = numbers[group].stop
    classes = Classes(
        weights=[weights.get(node, 1) for node in nodes],
        interests=[sorted(n for g in wants[node] for n in numbers[g]) for node in nodes],
        groups=following,
        rates=None if rates is None else _spread(numbers, rates),
    )
    (band,) = Optimiser(classes, packet_cost).plan(1)
    for number, part in enumerate(band.parts):
        for at in part:
            yield NODE, nodes[at], level, number


def _spread(numbers: dict[str, range], rates: dict[str, float]) -> list[float]:
    return [rates.get(group, 0.0) / len(own) for group, own in numbers.items() for _ in own]


Rule: TypeAlias = Literal["perfect", "regular"]


@dataclass(slots=True)
class Fitted:
    """Hierarchies as far as they are decided."""

    levels: dict[str, int] = field(default_factory=dict)
    """The hierarchy of each bundle that fits one."""
    keys: list[dict[str, int]] = field(default_factory=list)
    """For each hierarchy, the key of each class in it."""
    rest: list[str] = field(default_factory=list)
    """Bundles that fit none."""


def next_key(key: int, bundle: str) -> int:
    """Return the key of classes that had ``key`` and are in ``bundle`` too; never 0."""
    digest = blake2b(f"{key}/{bundle}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) or 1


def fit_bundles(
    pairs: Iterable[tuple[str, str]],
    weights: dict[str, int],
    rule: Rule,
    hierarchies: int,
    smallest: int,
) -> Fitted:
    """Put bundles into hierarchies, largest first; ``pairs`` are class and bundle."""
    members: dict[str, set[str]] = {}
    for node, bundle in pairs:
        members.setdefault(bundle, set()).add(node)
    sizes = {b: sum(weights.get(c, 1) for c in own) for b, own in members.items()}
    fitted = Fitted(keys=[{} for _ in range(hierarchies)])
    parts: list[dict[int, int]] = [{} for _ in range(hierarchies)]
    for bundle in sorted(members, key=lambda b: (-sizes[b], b)):
        for level in range(hierarchies):
            inside = _divide(members[bundle], fitted.keys[level], weights)
            if does_fit(rule, inside, parts[level], smallest):
                _put_in(bundle, members[bundle], fitted.keys[level])
                for key, count in inside.items():
                    parts[level][key] = parts[level].get(key, 0) - count
                    parts[level][next_key(key, bundle)] = count
                fitted.levels[bundle] = level
                break
        else:
            fitted.rest.append(bundle)
    return fitted


def does_fit(rule: Rule, inside: dict[int, int], parts: dict[int, int], smallest: int) -> bool:
    """Whether a group may join a hierarchy, none of whose groups is smaller.

    ``inside`` is how many of its nodes have each key (0: they are not in the
    hierarchy yet); ``parts`` how many nodes have each key in all.
    """
    if rule == "perfect":
        return len(inside) == 1
    for key, count in inside.items():
        left = parts[key] - count if key else 0
        if (left or not key) and count < smallest:
            return False
        if 0 < left < smallest:
            return False
    return True


def _divide(members: set[str], keys: dict[str, int], weights: dict[str, int]) -> dict[int, int]:
    inside: dict[int, int] = {}
    for node in members:
        key = keys.get(node, 0)
        inside[key] = inside.get(key, 0) + weights.get(node, 1)
    return inside


def _put_in(bundle: str, members: set[str], keys: dict[str, int]) -> None:
    made: dict[int, int] = {}
    for node in members:
        key = keys.get(node, 0)
        if key not in made:
            made[key] = next_key(key, bundle)
        keys[node] = made[key]
