"""Hierarchies of recovery domains: a function of the members, the same everywhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.recovery.domains import Domain, Hierarchy

sizes = st.integers(1, 300)
ring_sizes = st.integers(2, 9)


def members(count: int) -> tuple[int, ...]:
    return tuple(range(10, 10 + 3 * count, 3))


class TestDomain:
    """Who gets the token next."""

    def test_the_token_goes_round_in_order(self) -> None:
        """The last member hands it back to the leader."""
        ring = Domain((0, 0), (1, 4, 7))
        assert [ring.next_of(node, frozenset()) for node in (1, 4, 7)] == [4, 7, 1]

    def test_skipped_members_are_passed_over(self) -> None:
        """A crashed member costs one round, not the ring."""
        ring = Domain((0, 0), (1, 4, 7, 9))
        assert ring.next_of(1, {4, 7}) == 9
        assert ring.next_of(9, {1}) == 4

    def test_a_node_alone_is_its_own_next(self) -> None:
        """With all others skipped, a round is over at once."""
        assert Domain((0, 0), (1, 4)).next_of(1, {4}) == 1
        assert Domain((0, 0), (1,)).next_of(1, frozenset()) == 1


class TestShape:
    """Partitions, rings and their nesting."""

    @given(sizes, ring_sizes)
    def test_partitions_cut_the_members_evenly_and_in_order(self, count: int, size: int) -> None:
        """ "Partitions of a constant size" (4.2.1 C): as even as can be, none too large."""
        nodes = members(count)
        parts = Hierarchy(nodes, size).parts
        assert tuple(node for part in parts for node in part) == nodes
        lengths = {len(part) for part in parts}
        assert max(lengths) <= size
        assert max(lengths) - min(lengths) <= 1

    @given(sizes, ring_sizes)
    def test_every_ring_is_small_and_led_by_its_first_member(self, count: int, size: int) -> None:
        """Leaders of one level are the members of the next, up to one."""
        hierarchy = Hierarchy(members(count), size)
        for lower, upper in zip(hierarchy.levels, hierarchy.levels[1:], strict=False):
            leaders = [ring.leader for ring in lower]
            assert [node for ring in upper for node in ring.members] == leaders
        for level, rings in enumerate(hierarchy.levels):
            for ring in rings:
                assert ring.name[0] == level
                assert len(ring.members) <= size
        assert len(hierarchy.levels[-1]) == 1
        assert hierarchy.leader == hierarchy.levels[-1][0].leader == members(count)[0]

    @pytest.mark.parametrize(
        ("count", "levels"), [(1, 1), (5, 1), (6, 2), (25, 2), (26, 3), (125, 3), (126, 4)]
    )
    def test_depth_grows_with_the_logarithm_of_the_size(self, count: int, levels: int) -> None:
        """The papers measured linear growth of aggregation and asked for nesting."""
        assert len(Hierarchy(members(count), 5).levels) == levels

    def test_a_leader_takes_part_in_every_ring_above_it(self) -> None:
        """Its agents stack: node, partition, region."""
        hierarchy = Hierarchy(members(30), 5)
        assert [ring.name[0] for ring in hierarchy.domains_of(10)] == [0, 1, 2]
        assert [ring.name[0] for ring in hierarchy.domains_of(13)] == [0]


class TestFailures:
    """A failed node leaves its ring and nothing else changes hands."""

    @given(st.data(), st.integers(2, 60), ring_sizes)
    def test_rings_close_over_the_failed(self, data: st.DataObject, count: int, size: int) -> None:
        """Survivors agree on rings and leaders without a word."""
        nodes = members(count)
        failed = frozenset(data.draw(st.sets(st.sampled_from(nodes), max_size=count - 1)))
        hierarchy = Hierarchy(nodes, size, failed)
        alive = [node for node in nodes if node not in failed]
        assert sorted(n for ring in hierarchy.levels[0] for n in ring.members) == alive
        assert hierarchy.leader in alive
        for rings in hierarchy.levels:
            for ring in rings:
                assert ring.members
                assert not failed & set(ring.members)
        for node in alive:
            assert hierarchy.domains_of(node)[0].name[0] == 0

    @given(st.data(), st.integers(2, 60), ring_sizes)
    def test_nobody_else_moves(self, data: st.DataObject, count: int, size: int) -> None:
        """Copies stay where they are when somebody else fails."""
        nodes = members(count)
        failed = frozenset(data.draw(st.sets(st.sampled_from(nodes), max_size=count - 1)))
        assert Hierarchy(nodes, size).parts == Hierarchy(nodes, size, failed).parts

    def test_nobody_is_left(self) -> None:
        """A region whose members all failed has no leader."""
        assert Hierarchy((1, 2), 5, frozenset((1, 2))).leader is None
