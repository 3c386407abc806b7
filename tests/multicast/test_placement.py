"""Who keeps which packet: a function of the members, the same everywhere."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from quicksilver.multicast.receiving.placement import placement_of

sizes = st.integers(1, 300)
ring_sizes = st.integers(2, 9)


def members(count: int) -> tuple[int, ...]:
    return tuple(range(10, 10 + 3 * count, 3))


class TestCaching:
    """Each packet is kept by one partition, in turn (4.2.1 C, Figure 4.12)."""

    @given(sizes, ring_sizes, st.integers(1, 9), st.integers(0, 1 << 62))
    def test_every_packet_has_its_keepers(
        self, count: int, size: int, replication: int, sequence: int
    ) -> None:
        """``replication`` distinct nodes of one partition, or all of a smaller one."""
        placement = placement_of(members(count), size, replication)
        keepers = placement.keepers(sequence)
        part = placement.partitions[placement.keeping_partition(sequence)]
        assert len(set(keepers)) == len(keepers) == min(replication, len(part))
        assert set(keepers) <= set(part)
        for node in members(count):
            assert placement.is_keeper(node, sequence) == (node in keepers)

    @given(st.integers(5, 60), ring_sizes, st.integers(1, 9))
    def test_the_burden_is_spread(self, count: int, size: int, replication: int) -> None:
        """ "Caching overhead is spread" evenly: within a partition nobody keeps more."""
        placement = placement_of(members(count), size, replication)
        parts = len(placement.partitions)
        for index, part in enumerate(placement.partitions):
            cycle = range(index, index + parts * len(part), parts)
            kept = Counter(node for s in cycle for node in placement.keepers(s))
            assert set(kept) == set(part)
            assert len(set(kept.values())) == 1

    def test_partitions_take_turns(self) -> None:
        """A burst of losses at one node is repaired by all of them in parallel."""
        placement = placement_of(members(20), 5, 5)
        assert [placement.keeping_partition(s) for s in range(8)] == [0, 1, 2, 3, 0, 1, 2, 3]

    def test_a_stranger_keeps_nothing(self) -> None:
        """Asking about a node of another region is not an error."""
        assert not placement_of((1, 2, 3), 5, 5).is_keeper(99, 0)
