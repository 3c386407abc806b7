"""Finding few, fitting regions for memberships that overlap irregularly.

A message to a group is sent once to each region that the group maps to, and
received by every node in it. A plan therefore costs, summed over all groups,

    (packets sent) * packet_cost + (packets received, wanted or not)

where ``packet_cost`` says how many nodes may have to drop a packet before a
packet of its own is cheaper. This module looks for bands of groups, and for each
band a partition of the nodes, that make the sum small.

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

Parts = list[list[int]]
"""A partition: for each part, the classes in it."""

_ROUNDS_MAX = 3
"""Passes in which every class may change its part; later ones move very few."""

_PAIRS_PARTS_MAX = 400
"""Parts up to which all pairs are tried for merging."""

_UNION_PARTS_MAX = 64
"""Parts up to this size are recounted exactly when a class leaves them."""

WORK_MAX = 15_000_000
"""Comparisons that one optimisation may spend: some ten seconds."""

_MEMBERSHIP_COST = 0.5
"""What one more region costs a node, in received packets: some ring traffic."""

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

    def plan(self, bands_max: int) -> list[Band]:
        """Return at most ``bands_max`` bands that hold every wanted group."""
        groups = [g for g, fans in enumerate(self._fans) if fans]
        if not groups:
            return []
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
        worst = max(band.groups, key=lambda g: (prices[g] - self._sizes[g], -g))
        core = set(self._fans[worst])
        along: list[int] = []
        across: list[int] = []
        for group in band.groups:
            shared = sum(self._weights[c] for c in self._fans[group] if c in core)
            left, right = self._sizes[group] - shared, self._sizes[worst] - shared
            (across if min(shared, left, right) * 4 > shared else along).append(group)
        yield along, across
        ranked = sorted(band.groups, key=lambda g: (-self._sizes[g], g))
        half, seen = sum(self._sizes[g] for g in ranked) / 2, 0
        for at, group in enumerate(ranked):
            seen += self._sizes[group]
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
        if len(parts) == 1:
            return [price[0]] * len(groups)
        where = part_of.__getitem__
        return [sum(map(price.__getitem__, set(map(where, self._fans[group])))) for group in groups]

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
        width = (len(groups) + 7) // 8
        for at, group in enumerate(groups):
            byte, bit = at >> 3, 1 << (at & 7)
            for c in self._fans[group]:
                if c not in rows:
                    rows[c] = bytearray(width)
                rows[c][byte] |= bit
        return {c: int.from_bytes(rows[c], "little") for c in sorted(rows)}

    def _cluster(self, interests: list[int], weights: list[int]) -> Parts:
        search = _Clustering(interests, weights, self._packet_cost)
        for turn in range(_ROUNDS_MAX):
            moved = search.sweep()
            if turn == 0:
                search.merge_pairs()
            if moved * 50 < len(interests) or self._work + search.work > self._work_max:
                break
        search.merge_pairs()
        self._work += search.work
        return search.parts()


class _Clustering:
    """Local search: every item moves to the part where it adds the least cost."""

    def __init__(self, interests: list[int], weights: list[int], packet_cost: float) -> None:
        self._interests = interests
        self._counts = [bits.bit_count() for bits in interests]
        self._weights = weights
        self._packet_cost = packet_cost
        self._where = [-1] * len(interests)
        # Parallel lists, one entry a part: the inner loop below is the hot path.
        self._members: list[set[int]] = []
        self._heard: list[int] = []
        self._heard_counts: list[int] = []
        self._sizes: list[int] = []
        self.work = 0

    def parts(self) -> Parts:
        """Return the partition, parts and items ascending."""
        return sorted(sorted(members) for members in self._members if members)

    def sweep(self) -> int:
        """Let every item choose again; return how many moved."""
        moved = 0
        for item, bits in enumerate(self._interests):
            home = self._where[item]
            if home >= 0:
                self._take_out(item, home)
            best, best_cost = -1, self._counts[item] * (self._weights[item] + self._packet_cost)
            count, weight = self._counts[item], self._weights[item]
            extra = weight + self._packet_cost
            at = 0
            for heard, known, size in zip(
                self._heard, self._heard_counts, self._sizes, strict=True
            ):
                floor = known * weight
                if floor < best_cost and size:
                    added = floor + (count - (heard & bits).bit_count()) * (size + extra)
                    if added < best_cost:
                        best, best_cost = at, added
                at += 1
            self.work += at
            if best < 0:
                best = home if home >= 0 and not self._members[home] else self._open()
            self._put_in(item, best)
            moved += best != home
        self._compact()
        return moved

    def merge_pairs(self) -> None:
        """Merge parts, best pair first, as long as that saves anything."""
        if not 1 < len(self._members) <= _PAIRS_PARTS_MAX:
            return
        best = [self._best_partner(a) for a in range(len(self._members))]
        while True:
            saving, a, b = min(
                (found[0], a, found[1]) for a, found in enumerate(best) if self._members[a]
            )
            if saving >= 0:
                break
            self._members[a] |= self._members[b]
            self._heard[a] |= self._heard[b]
            self._heard_counts[a] = self._heard[a].bit_count()
            self._sizes[a] += self._sizes[b]
            self._members[b] = set()
            best[b] = (0.0, b)
            best[a] = self._best_partner(a)
            for c, found in enumerate(best):
                if self._members[c] and c != a:
                    if found[1] in (a, b):
                        best[c] = self._best_partner(c)
                    else:
                        best[c] = min(found, (self._merge_cost(c, a), a))
        self._compact()

    def _best_partner(self, a: int) -> tuple[float, int]:
        self.work += len(self._members)
        options = [
            (self._merge_cost(a, b), b)
            for b, members in enumerate(self._members)
            if members and b != a
        ]
        return min(options, default=(0.0, a))

    def _merge_cost(self, a: int, b: int) -> float:
        both = (self._heard[a] | self._heard[b]).bit_count()
        size_a, size_b = self._sizes[a], self._sizes[b]
        return (
            both * (size_a + size_b + self._packet_cost)
            - self._heard_counts[a] * (size_a + self._packet_cost)
            - self._heard_counts[b] * (size_b + self._packet_cost)
        )

    def _open(self) -> int:
        self._members.append(set())
        self._heard.append(0)
        self._heard_counts.append(0)
        self._sizes.append(0)
        return len(self._members) - 1

    def _put_in(self, item: int, part: int) -> None:
        self._members[part].add(item)
        self._heard[part] |= self._interests[item]
        self._heard_counts[part] = self._heard[part].bit_count()
        self._sizes[part] += self._weights[item]
        self._where[item] = part

    def _take_out(self, item: int, part: int) -> None:
        members = self._members[part]
        members.discard(item)
        self._sizes[part] -= self._weights[item]
        # In a large part, one item is hardly ever the only one to want a group.
        if len(members) <= _UNION_PARTS_MAX:
            self._recount(part)

    def _recount(self, part: int) -> None:
        heard = 0
        for item in self._members[part]:
            heard |= self._interests[item]
        self._heard[part] = heard
        self._heard_counts[part] = heard.bit_count()

    def _compact(self) -> None:
        kept = [members for members in self._members if members]
        self._members = kept
        self._heard = [0] * len(kept)
        self._heard_counts = [0] * len(kept)
        self._sizes = [sum(self._weights[i] for i in part) for part in kept]
        for number, members in enumerate(kept):
            self._recount(number)
            for item in members:
                self._where[item] = number
