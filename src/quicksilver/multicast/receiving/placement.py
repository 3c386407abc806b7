"""Who keeps which packets of a region view, and how its members are cut into domains.

Region, partitions of about five nodes, nodes (dissertation 4.2.1 C); as a region grows,
leaders of partitions form domains of the same size, and so on. A failed node leaves its
ring, and yet stays in its partition, because that decides who keeps which packet.
"""

from __future__ import annotations

from functools import lru_cache

from quicksilver.recovery.domains import Hierarchy

HIERARCHIES_SHARED = 64
"""Hierarchies cached for the whole process: the nodes of a simulation share them."""


class Placement:
    """Each packet is kept by one partition, in turn, on some of its nodes."""

    def __init__(self, partitions: tuple[tuple[int, ...], ...], replication: int) -> None:
        self.partitions = partitions
        self._replication = replication
        self._partition_of = {node: index for index, part in enumerate(partitions) for node in part}

    def partition_of(self, node: int) -> int:
        return self._partition_of[node]

    def keeping_partition(self, sequence: int) -> int:
        return sequence % len(self.partitions)

    def keepers(self, sequence: int) -> tuple[int, ...]:
        """Return the nodes that keep a packet until the region has it."""
        count = len(self.partitions)
        part = self.partitions[sequence % count]
        if self._replication >= len(part):
            return part
        first = sequence // count
        return tuple(part[(first + i) % len(part)] for i in range(self._replication))

    def is_keeper(self, node: int, sequence: int) -> bool:
        count = len(self.partitions)
        part = self.partitions[sequence % count]
        if self._partition_of.get(node) != sequence % count:
            return False
        size = len(part)
        if self._replication >= size:
            return True
        return (part.index(node) - sequence // count) % size < self._replication

    def keeps_whole_partition(self, node: int) -> bool:
        """Return whether every member of a node's partition keeps all its packets."""
        return self._replication >= len(self.partitions[self._partition_of[node]])


@lru_cache(maxsize=HIERARCHIES_SHARED)
def hierarchy_of(members: tuple[int, ...], size: int, failed: frozenset[int]) -> Hierarchy:
    """Return the domains of a region view; the same for all who ask."""
    return Hierarchy(members, size, failed)


@lru_cache(maxsize=HIERARCHIES_SHARED)
def placement_of(members: tuple[int, ...], size: int, replication: int) -> Placement:
    """Return who keeps what in a region view; the same for all who ask."""
    return Placement(hierarchy_of(members, size, frozenset()).parts, replication)
