"""Seeded memberships to plan for: who joins which groups.

``zipf_memberships`` is the experiment of the papers: every node independently
joins a fraction of the groups, drawn without repetition by Zipf popularity
(dissertation 4.1.2, Figures 4.5 and 4.6). The others are as regular as the
papers expect real systems to be: communities with shared interests, and the
replicated components of a data center (Figure 4.4).

Nodes and groups are numbered from 1; group 1 is the most popular.
"""

from __future__ import annotations

from math import exp, log, log1p, sqrt

from quicksilver.stdx.rand import Rng
from quicksilver.wire.ids import GroupId, NodeId

Memberships = dict[NodeId, frozenset[GroupId]]

_HEAD_RANKS = 64
"""Ranks that are tried one by one; rarer groups are reached by skipping."""

_BLOCK_GROWTH = 1.25
"""Within a block of ranks, popularity differs by little, so few skips miss."""


def zipf_memberships(
    nodes: int, groups: int, fraction: float, alpha: float, seed: int
) -> Memberships:
    """Let every node join ``fraction`` of the groups, by Zipf(``alpha``)."""
    draw = ZipfDraw(groups, max(1, round(groups * fraction)), alpha)
    rng = Rng(seed)
    return {NodeId(n): draw.sample(rng) for n in range(1, nodes + 1)}


def community_memberships(
    nodes: int,
    groups: int,
    communities: int,
    per_node: int,
    stray: float,
    seed: int,
) -> Memberships:
    """Let nodes of a community share their interests, with a share of strays.

    Each community owns a slice of the groups and has a favourite ``per_node``
    of them; a node takes those, replacing each with probability ``stray`` by
    any group at all.
    """
    rng = Rng(seed)
    everything = [GroupId(g) for g in range(1, groups + 1)]
    size = max(1, groups // communities)
    favourites = []
    for c in range(communities):
        own = everything[c * size : (c + 1) * size] or everything[-size:]
        favourites.append(sorted(rng.sample(own, min(per_node, len(own)))))
    made: Memberships = {}
    for n in range(1, nodes + 1):
        wanted = favourites[rng.below(communities)]
        made[NodeId(n)] = frozenset(
            rng.choice(everything) if rng.chance(stray) else g for g in wanted
        )
    return made


def nested_memberships(nodes: int, fanout: int, levels: int, seed: int) -> Memberships:
    """Components inside components: every two groups are nested or disjoint.

    The root group holds every node; each group is divided among ``fanout``
    smaller ones, ``levels`` deep. Which machine runs what is random.
    """
    order = Rng(seed).shuffled([NodeId(n) for n in range(1, nodes + 1)])
    joined: dict[NodeId, set[GroupId]] = {n: set() for n in order}
    parts, next_group = [order], 1
    for _ in range(levels):
        smaller: list[list[NodeId]] = []
        for part in parts:
            for n in part:
                joined[n].add(GroupId(next_group))
            next_group += 1
            cuts = [len(part) * i // fanout for i in range(fanout + 1)]
            smaller += [part[cuts[i] : cuts[i + 1]] for i in range(fanout)]
        parts = [part for part in smaller if part]
    return {n: frozenset(joined[n]) for n in sorted(joined)}


class ZipfDraw:
    """Draws ``count`` distinct groups of ``groups``, each by its popularity.

    Drawing one group after the other without repetition is a race: group ``i``
    arrives after an exponential time with rate ``i ** -alpha``, and the first
    ``count`` to arrive are taken. Only arrivals before a deadline that lets in
    slightly more than ``count`` are generated; within a block of ranks the next
    one is found by a geometric skip, so a draw costs about ``count`` steps
    rather than ``groups``.
    """

    __slots__ = ("_blocks", "_deadline", "_weights", "count")

    def __init__(self, groups: int, count: int, alpha: float) -> None:
        if not 1 <= count <= groups:
            raise ValueError(f"cannot draw {count} of {groups} groups")
        self.count = count
        self._weights = [rank**-alpha for rank in range(1, groups + 1)]
        self._deadline = self._find_deadline(min(count + 4 * sqrt(count) + 4, groups))
        self._blocks: list[tuple[int, int, float, float]] = []
        """First and last rank index, best chance in the block, its skip factor."""
        low = min(_HEAD_RANKS, groups)
        while low < groups:
            high = min(groups, int(low * _BLOCK_GROWTH) + 1)
            best = -_expm1_negative(self._weights[low] * self._deadline)
            skip = 1.0 / log1p(-best) if best < 1.0 - 1e-9 else 0.0
            self._blocks.append((low, high, best, skip))
            low = high

    def sample(self, rng: Rng) -> frozenset[GroupId]:
        """Return one node's groups."""
        deadline = self._deadline
        arrivals = self._arrivals(rng, deadline)
        while len(arrivals) < self.count:
            # The few groups still missing come from those that were late.
            taken = {index for _, index in arrivals}
            for index, weight in enumerate(self._weights):
                if index not in taken:
                    arrivals.append((deadline + rng.exponential(1 / weight), index))
        arrivals.sort()
        return frozenset(GroupId(index + 1) for _, index in arrivals[: self.count])

    def _arrivals(self, rng: Rng, deadline: float) -> list[tuple[float, int]]:
        weights, uniform = self._weights, rng.uniform
        found: list[tuple[float, int]] = []
        for index in range(min(_HEAD_RANKS, len(weights))):
            time = rng.exponential(1 / weights[index])
            if time <= deadline:
                found.append((time, index))
        for low, high, best, skip in self._blocks:
            index = low
            while True:
                if skip:
                    index += int(log(1.0 - uniform()) * skip)
                if index >= high:
                    break
                # Uniform below `best`: both the acceptance of this rank and,
                # if it is accepted, its arrival time.
                share = uniform() * best
                time = -log1p(-share) / weights[index]
                if time <= deadline:
                    found.append((time, index))
                index += 1
        return found

    def _find_deadline(self, expected: float) -> float:
        low, high = 0.0, 1.0
        while self._count_by(high) < expected and high < 1e18:
            low, high = high, high * 2
        for _ in range(40):
            middle = (low + high) / 2
            if self._count_by(middle) < expected:
                low = middle
            else:
                high = middle
        return high

    def _count_by(self, deadline: float) -> float:
        return sum(1.0 - exp(-weight * deadline) for weight in self._weights)


def _expm1_negative(x: float) -> float:
    return exp(-x) - 1.0
