"""Strict hierarchies of the largest groups of a component that no task can hold.

The same greedy rule as the GMS's (dissertation 4.1.2): the largest group first,
into the first hierarchy that admits it. What is decided for large groups does not
depend on smaller ones, so the answer for them is the GMS's. Pure Python on plain
rows; ``rounds`` goes on with the smaller groups, distributed.

A hierarchy is kept as one key for each class of nodes: equal keys, equal groups
in it. Keys are hashes, so that Spark can continue them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal, TypeAlias

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
