"""The hierarchy of recovery domains of one region view.

Region, partitions of about five nodes, nodes (dissertation 4.2.1 C); as a
region grows, leaders of partitions form rings of the same size, and so on, so
that the time to aggregate grows with the logarithm of its size, which the
papers asked for. Everything here is a function of the ordered member list and
of who has failed since: nodes agree on it without a word.

A failed node leaves its ring but does not change who is in which partition,
because that decides who keeps which packet.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Ring:
    """One peer group: the nodes that host its agents, leader first."""

    level: int
    index: int
    members: tuple[int, ...]

    @property
    def leader(self) -> int:
        return self.members[0]

    def next_of(self, node: int, skipped: frozenset[int] | set[int]) -> int:
        """Return who gets the token after ``node``, passing over ``skipped``."""
        members = self.members
        place = members.index(node)
        for step in range(1, len(members) + 1):
            candidate = members[(place + step) % len(members)]
            if candidate == node or candidate not in skipped:
                return candidate
        return node


def _chunks(count: int, size: int) -> list[range]:
    """Cut ``count`` things into runs of at most ``size``, as even as can be."""
    parts = max(1, -(-count // size))
    bounds = [count * part // parts for part in range(parts + 1)]
    return [range(a, b) for a, b in pairwise(bounds)]


class Hierarchy:
    """Rings of a region view, from partitions up to the region's leader."""

    def __init__(
        self, members: tuple[int, ...], ring_size: int, failed: frozenset[int] = frozenset()
    ) -> None:
        assert members
        ring_size = max(2, ring_size)
        self.partitions: tuple[tuple[int, ...], ...] = tuple(
            tuple(members[i] for i in chunk) for chunk in _chunks(len(members), ring_size)
        )
        self._partition_of = {
            node: index for index, part in enumerate(self.partitions) for node in part
        }
        alive = [tuple(node for node in part if node not in failed) for part in self.partitions]
        levels: list[tuple[Ring, ...]] = [
            tuple(Ring(0, index, part) for index, part in enumerate(alive) if part)
        ]
        # leaders[i] is the node that speaks for the i-th domain of the level below.
        leaders = [part[0] if part else None for part in alive]
        while len(leaders) > 1:
            level = len(levels)
            chunks = _chunks(len(leaders), ring_size)
            groups = [
                tuple(leader for i in chunk if (leader := leaders[i]) is not None)
                for chunk in chunks
            ]
            levels.append(
                tuple(Ring(level, index, group) for index, group in enumerate(groups) if group)
            )
            leaders = [group[0] if group else None for group in groups]
        self.levels = tuple(levels)
        self.leader = leaders[0]
        """The region's leader; None when every member has failed."""

    def rings_of(self, node: int) -> list[Ring]:
        """Return the rings a node takes part in, lowest first."""
        return [ring for level in self.levels for ring in level if node in ring.members]

    def partition_of(self, node: int) -> int:
        return self._partition_of[node]

    def caching_partition(self, sequence: int) -> int:
        """Each packet is kept by one partition, in turn."""
        return sequence % len(self.partitions)

    def cachers(self, sequence: int, replication: int) -> tuple[int, ...]:
        """Return the nodes that keep a packet until the region has it."""
        count = len(self.partitions)
        part = self.partitions[sequence % count]
        if replication >= len(part):
            return part
        first = sequence // count
        return tuple(part[(first + i) % len(part)] for i in range(replication))

    def is_cacher(self, node: int, sequence: int, replication: int) -> bool:
        count = len(self.partitions)
        part = self.partitions[sequence % count]
        if self._partition_of.get(node) != sequence % count:
            return False
        size = len(part)
        if replication >= size:
            return True
        return (part.index(node) - sequence // count) % size < replication
