"""Finding few, fitting regions for memberships that overlap irregularly.

A message to a group is sent once to each region that the group maps to, and
received by every node in it. A plan therefore costs, summed over all groups,

    (packets sent) * packet_cost + (packets received, wanted or not)

where ``packet_cost`` says how many nodes may have to drop a packet before a
packet of its own is cheaper; groups weigh by their traffic, if it is known. This
module looks for bands of groups, and for each band a partition of the nodes, that
make the sum small.

What to expect: where interests are shared, parts that share them emerge, and
bands whose groups do not cross each other. Small systems gain even from chance.
Large ones in which every node chooses independently do not: with 2,000 nodes
drawing 1,000 of 10,000 groups by Zipf, clustering twenty bands costs half a
percent less than the best two, which are bimodal. Groups that more than one node in
``packet_cost + 1`` wants go to everybody, all others to each member by itself.

Everything here is a function of its arguments: ties are broken by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quicksilver.membership.planning.busy import find_busy
from quicksilver.membership.planning.clustering import Clustering, Parts

_ROUNDS_MAX = 3
"""Passes in which every class may change its part; later ones move very few."""

WORK_MAX = 15_000_000
"""Comparisons that one optimisation may spend: some ten seconds."""

_MEMBERSHIP_COST = 0.5
"""What one more region costs a node, in received packets: some ring traffic."""

_RATE_BITS_MAX = 31
"""What a busy group may outweigh others by in a search; the busiest are planned apart."""

_SPLIT_GAIN_MIN = 0.005
"""A further band must save this share of what the band cost before."""


@dataclass(frozen=True, slots=True)
class Classes:
    """Nodes with equal interests, which no plan has a reason to separate."""

    weights: Sequence[int]
    """How many nodes are in each class."""

    interests: Sequence[Sequence[int]]
    """The groups of each class, numbered from 0."""

    groups: int

    rates: Sequence[float] | None = None
    """The traffic of each group; none: the same in all."""

    def relative_rates(self) -> list[float] | None:
        """Return rates whose mean is 1, or None if all are the same."""
        if self.rates is None or len(set(self.rates)) < 2:
            return None
        mean = sum(self.rates) / len(self.rates)
        return [rate / mean for rate in self.rates]


@dataclass(frozen=True, slots=True)
class Band:
    """Some groups, and the parts that the nodes wanting them are divided into."""

    groups: list[int]
    parts: Parts
    cost: float


class Optimiser:
    """One search; ``packet_cost`` as in the module's formula."""

    def __init__(self, classes: Classes, packet_cost: float, work_max: int = WORK_MAX) -> None:
        self._work_max = work_max
        self._weights = classes.weights
        self._packet_cost = packet_cost
        self._work = 0
        self._fans: list[list[int]] = [[] for _ in range(classes.groups)]
        """The classes that want each group, ascending."""
        for index, interests in enumerate(classes.interests):
            for group in interests:
                self._fans[group].append(index)
        self._sizes = [sum(self._weights[c] for c in fans) for fans in self._fans]
        self._rates = classes.relative_rates()
        self._bits = [1] * classes.groups
        """How many bits of a packed interest stand for a group: what it weighs in a search."""
        if self._rates is not None:
            self._bits = [1 + min(_RATE_BITS_MAX, round(rate)) for rate in self._rates]

    def plan(self, bands_max: int) -> list[Band]:
        """Return at most ``bands_max`` bands that hold every wanted group."""
        groups = [g for g, fans in enumerate(self._fans) if fans]
        if not groups:
            return []
        plain = self._plan_rest(groups, bands_max)
        if self._rates is None:
            return plain
        busy = self._plan_busy(self._rates, bands_max)
        taken = {group for band in busy for group in band.groups}
        rest = [g for g in groups if g not in taken]
        apart = busy + (self._plan_rest(rest, bands_max - len(busy)) if rest else [])
        return min(plain, apart, key=self._cost)

    def _cost(self, bands: list[Band]) -> float:
        """Return what bands cost, with the memberships that they ask of nodes."""
        places = sum(self._weights[c] for band in bands for part in band.parts for c in part)
        return sum(band.cost for band in bands) + _MEMBERSHIP_COST * places

    def _plan_busy(self, rates: list[float], bands_max: int) -> list[Band]:
        """Return exact bands for the groups that carry most of the traffic."""
        slots: list[int] = []
        free = 0
        for weight in self._weights:
            slots.append(((1 << weight) - 1) << free)
            free += weight
        members = [sum(slots[c] for c in fans) for fans in self._fans]
        found = find_busy(
            members,
            rates,
            free,
            bands_max,
            packet_cost=self._packet_cost,
            membership_cost=_MEMBERSHIP_COST,
        )
        bands: list[Band] = []
        for groups in found:
            same: dict[int, list[int]] = {}
            for c, bits in self._pack(groups).items():
                same.setdefault(bits, []).append(c)
            parts = list(same.values())
            bands.append(Band(groups, parts, sum(self._prices(groups, parts))))
        return bands

    def _plan_rest(self, groups: list[int], bands_max: int) -> list[Band]:
        shapes = self._shapes(groups)
        prices = [self._prices(groups, parts) for parts in shapes]
        chosen = self._choose(prices, bands_max)
        shares: dict[int, list[int]] = {shape: [] for shape in chosen}
        for at, group in enumerate(groups):
            shares[min(chosen, key=lambda s: (prices[s][at], s))].append(group)
        bands = [self._fit(share, shapes[s]) for s, share in shares.items() if share]
        return self._split(bands, bands_max)

    def _choose(self, prices: list[list[float]], bands_max: int) -> list[int]:
        """Add shapes as long as one more membership a node pays for itself."""
        toll = _MEMBERSHIP_COST * sum(self._weights)
        best = min(range(len(prices)), key=lambda s: (sum(prices[s]), s))
        chosen, lowest = [best], prices[best]
        while len(chosen) < min(bands_max, len(prices)):
            trials = [
                (sum(map(min, lowest, price)), s)
                for s, price in enumerate(prices)
                if s not in chosen
            ]
            total, shape = min(trials)
            if total + toll >= sum(lowest):
                break
            chosen.append(shape)
            lowest = list(map(min, lowest, prices[shape]))
        return sorted(chosen)

    def _split(self, bands: list[Band], bands_max: int) -> list[Band]:
        """Divide bands further while that pays and there is work left."""
        toll = _MEMBERSHIP_COST * sum(self._weights)
        waiting = sorted(bands, key=lambda band: (-band.cost, band.groups[0]))
        done: list[Band] = []
        while waiting:
            band = waiting.pop(0)
            best: list[Band] = []
            best_cost = band.cost * (1 - _SPLIT_GAIN_MIN) - toll
            if len(done) + len(waiting) + 2 <= bands_max and len(band.groups) > 1:
                for halves in self._halves(band):
                    if all(halves) and self._work < self._work_max:
                        made = [self._fit(half, band.parts) for half in halves]
                        cost = sum(half.cost for half in made)
                        if cost < best_cost:
                            best, best_cost = made, cost
            if best:
                waiting = sorted(waiting + best, key=lambda some: (-some.cost, some.groups[0]))
            else:
                done.append(band)
        return done

    def _halves(self, band: Band) -> Iterable[tuple[list[int], list[int]]]:
        """Yield ways to divide a band's groups: by conflict, by popularity."""
        prices = dict(zip(band.groups, self._prices(band.groups, band.parts), strict=True))
        worst = max(band.groups, key=lambda g: (prices[g] - self._worth(g), -g))
        core = set(self._fans[worst])
        along: list[int] = []
        across: list[int] = []
        for group in band.groups:
            shared = sum(self._weights[c] for c in self._fans[group] if c in core)
            left, right = self._sizes[group] - shared, self._sizes[worst] - shared
            (across if min(shared, left, right) * 4 > shared else along).append(group)
        yield along, across
        ranked = sorted(band.groups, key=lambda g: (-self._sizes[g], g))
        half, seen = sum(self._worth(g) for g in ranked) / 2, 0.0
        for at, group in enumerate(ranked):
            seen += self._worth(group)
            if seen >= half:
                yield sorted(ranked[: at + 1]), sorted(ranked[at + 1 :])
                return

    def _fit(self, groups: list[int], known: Parts) -> Band:
        """Return the band of these groups with the best parts that we find."""
        concerned = {c for group in groups for c in self._fans[group]}
        reduced = [[c for c in part if c in concerned] for part in known]
        shapes = self._shapes(groups)
        shapes.append([part for part in reduced if part])
        costs = [sum(self._prices(groups, parts)) for parts in shapes]
        best = min(range(len(shapes)), key=lambda s: (costs[s], len(shapes[s]), s))
        return Band(groups, shapes[best], costs[best])

    def _prices(self, groups: list[int], parts: Parts) -> list[float]:
        """Return what each group costs if the nodes are divided so."""
        part_of: dict[int, int] = {}
        price: list[float] = []
        for number, part in enumerate(parts):
            price.append(sum(self._weights[c] for c in part) + self._packet_cost)
            part_of.update((c, number) for c in part)
        rates = self._rates
        if len(parts) == 1:
            return [price[0] if rates is None else price[0] * rates[g] for g in groups]
        where = part_of.__getitem__
        costs = [sum(map(price.__getitem__, set(map(where, self._fans[g])))) for g in groups]
        if rates is None:
            return costs
        return [cost * rates[g] for g, cost in zip(groups, costs, strict=True)]

    def _worth(self, group: int) -> float:
        """Return the wanted traffic of a group, which no plan can save."""
        return self._sizes[group] * (1 if self._rates is None else self._rates[group])

    def _shapes(self, groups: list[int]) -> list[Parts]:
        """Return partitions worth comparing: finest, clustered, coarsest."""
        interests = self._pack(groups)
        same: dict[int, list[int]] = {}
        for c, bits in interests.items():
            same.setdefault(bits, []).append(c)
        exact = list(same.values())
        shapes = [exact]
        if len(exact) > 1:
            if self._work < self._work_max:
                weights = [sum(self._weights[c] for c in part) for part in exact]
                merged = self._cluster(list(same), weights)
                shapes.append([[c for i in part for c in exact[i]] for part in merged])
            shapes.append([list(interests)])
        return shapes

    def _pack(self, groups: list[int]) -> dict[int, int]:
        """Return the interests of each class among ``groups``, as bits."""
        rows: dict[int, bytearray] = {}
        places = [group for group in groups for _ in range(self._bits[group])]
        width = (len(places) + 7) // 8
        for at, group in enumerate(places):
            byte, bit = at >> 3, 1 << (at & 7)
            for c in self._fans[group]:
                if c not in rows:
                    rows[c] = bytearray(width)
                rows[c][byte] |= bit
        return {c: int.from_bytes(rows[c], "little") for c in sorted(rows)}

    def _cluster(self, interests: list[int], weights: list[int]) -> Parts:
        search = Clustering(interests, weights, self._packet_cost)
        for turn in range(_ROUNDS_MAX):
            moved = search.sweep()
            if turn == 0:
                search.merge_pairs()
            if moved * 50 < len(interests) or self._work + search.work > self._work_max:
                break
        search.merge_pairs()
        self._work += search.work
        return search.parts()
