"""One partition of nodes: each in the part where it adds the least to the cost.

The cost is that of ``optimise``. What counts is the number of bits that interests
have in common, so an interest that weighs more is given as more bits.
"""

from __future__ import annotations

Parts = list[list[int]]
"""A partition: for each part, the classes in it."""

_PAIRS_PARTS_MAX = 400
"""Parts up to which all pairs are tried for merging."""

_UNION_PARTS_MAX = 64
"""Parts up to this size are recounted exactly when a class leaves them."""


class Clustering:
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
