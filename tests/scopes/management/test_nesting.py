"""Domains of many members are divided into nested ones of the same protocol."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quicksilver.scopes.management.domains import Domain
from quicksilver.scopes.management.handing import find_leader
from quicksilver.scopes.management.nesting import Group, divide, members_max
from quicksilver.scopes.posts import Seat, parse_part
from tests.scopes.management.test_domains import Scope

names = st.sets(st.integers(0, 9999).map(str), max_size=200)
sizes = st.integers(2, 9)


def seats_of(found: list[Seat | Group] | tuple[Seat | Group, ...]) -> list[Seat]:
    return [s for each in found for s in ([each] if isinstance(each, Seat) else seats_of(each[1]))]


def groups_of(found: list[Seat | Group] | tuple[Seat | Group, ...]) -> list[Group]:
    groups = [each for each in found if isinstance(each, Group)]
    return groups + [inside for each in groups for inside in groups_of(each.seats)]


@given(names, sizes)
def test_everybody_is_in_one_place_and_no_domain_is_too_large(each: set[str], most: int) -> None:
    seats = [Seat(name, 0, name) for name in sorted(each)]
    found = divide(seats, most)
    assert sorted(seat.member for seat in seats_of(found)) == sorted(each)
    groups = groups_of(found)
    assert len(found) <= most
    assert all(2 <= len(group.seats) <= most for group in groups)
    assert len({group.name for group in groups}) == len(groups)


@given(names, st.integers(10_000, 99_999).map(str), sizes)
def test_who_comes_moves_nobody_but_members_of_its_own_group(
    each: set[str], comer: str, most: int
) -> None:
    """Others stay with whom they were, in a domain of the same name."""
    seats = [Seat(name, 0, name) for name in sorted(each)]

    def lowest(seats: list[Seat]) -> set[tuple[str, tuple[Seat | Group, ...]]]:
        groups = groups_of(divide(seats, most))
        return {(g.name, g.seats) for g in groups if g.name.startswith("0:")}

    before, after = lowest(seats), lowest([*seats, Seat(comer, 0, comer)])
    if len(seats) > most:
        assert len(before - after) <= 1


def test_who_cannot_be_dialled_stays_above_where_there_is_somebody_to_talk_to() -> None:
    seats = [Seat(str(n), 0, str(n) if n < 20 else "") for n in range(24)]
    found = divide(seats, 5)
    assert [each for each in found if isinstance(each, Seat) and not each.address] == seats[20:]
    assert not any(not seat.address for group in groups_of(found) for seat in seats_of([group]))


def test_a_ring_says_how_large_its_groups_are() -> None:
    assert members_max("ring:5") == 7
    assert members_max("ring") == members_max("tree:3") == members_max("requests") == 100


class TestDomains:
    def test_a_region_has_partitions_of_about_five_and_they_have_nodes(self) -> None:
        """4.2.1, and rings of about so many: the numbers of domains lead down to every node."""
        scope = Scope()
        nodes = [f"n{place}" for place in range(60)]
        for node in nodes:
            scope.want(node, "L/x", "L/y", protocol="ring:5")
        scope.update()
        number = scope.domains.number_for("L/x")
        (region,) = [d for d in scope.domains.by_id.values() if d.id.number == number]
        assert region.is_top
        assert sorted(leaves(scope, region)) == sorted(nodes)
        everybody = list(scope.domains.by_id.values())
        assert all(d.topics == ("L/x", "L/y") and d.protocol == "ring:5" for d in everybody)
        assert [d for d in everybody if d.is_top] == [region]
        assert max(len(d.seats) for d in everybody) <= 7
        partitions = [d for d in everybody if parse_part(d.seats[0].member) is None]
        assert 3 < sum(len(d.seats) for d in partitions) / len(partitions) < 7

    def test_the_leader_of_a_partition_speaks_for_it_and_a_new_one_is_told(self) -> None:
        scope = Scope()
        for place in range(20):
            scope.want(f"n{place}", "L/x", protocol="ring:5")
        scope.update()
        region = next(d for d in scope.domains.by_id.values() if d.is_top)
        partition = scope.domains.by_id[parse_part(region.seats[0].member)]  # type: ignore[index]  # a part
        leader = partition.seats[0].member
        assert find_leader(scope.domains, region.id) == leader
        scope.leave(leader, "L/x")
        changed = scope.update()
        assert {partition.id, region.id} <= set(changed)
        assert find_leader(scope.domains, region.id) == partition.seats[0].member != leader

    def test_who_comes_to_a_partition_changes_no_view_above_it(self) -> None:
        scope = Scope()
        for place in range(20):
            scope.want(f"n{place}", "L/x", protocol="ring:5")
        scope.update()
        before = {d.id: d.view for d in scope.domains.by_id.values()}
        small = min(
            (d for d in scope.domains.by_id.values() if parse_part(d.seats[0].member) is None),
            key=lambda domain: len(domain.seats),
        )
        for place in range(20, 200):
            scope.want(f"n{place}", "L/x", protocol="ring:5")
            scope.update()
            if len(small.seats) > len(seats_before(before, small)):
                break
            scope.leave(f"n{place}", "L/x")
            scope.update()
            before = {d.id: d.view for d in scope.domains.by_id.values()}
        after = {d.id: d.view for d in scope.domains.by_id.values()}
        assert {each for each in after if after[each] != before.get(each)} == {small.id}

    def test_when_few_are_left_nothing_is_nested_and_the_number_stays(self) -> None:
        """What is above need not be told."""
        scope = Scope()
        for place in range(20):
            scope.want(f"n{place}", "L/x", protocol="ring:5")
        scope.update()
        number = scope.domains.number_for("L/x")
        for place in range(4, 20):
            scope.leave(f"n{place}", "L/x")
        scope.update()
        (left,) = scope.domains.by_id.values()
        assert left.id.number == number
        assert {seat.member for seat in left.seats} == {"n0", "n1", "n2", "n3"}
        assert len([name for name in scope.records if name.startswith("domain/")]) == 1

    def test_the_parts_of_a_topic_are_divided_as_well(self) -> None:
        scope = Scope()
        for place in range(30):
            scope.want(f"n{place}", "L/x", f"L/own{place}", protocol="ring:5")
        scope.update()
        shared = [d for d in scope.domains.by_id.values() if not d.is_part]
        assert max(len(d.seats) for d in shared) <= 7
        (top,) = [d for d in shared if d.is_top]
        assert sorted(leaves(scope, top)) == sorted(f"n{place}" for place in range(30))


def seats_before(before: dict[object, int], domain: Domain) -> tuple[Seat, ...]:
    """Return the seats of a domain without those that have just come."""
    known = domain.view == before.get(domain.id)
    return domain.seats if known else domain.seats[:-1]


def leaves(scope: Scope, domain: Domain) -> list[str]:
    """Return all nodes that agents lead down to."""
    found = []
    for seat in domain.seats:
        part = parse_part(seat.member)
        found += [seat.member] if part is None else leaves(scope, scope.domains.by_id[part])
    return found
