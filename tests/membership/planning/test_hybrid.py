"""Which groups are worth an address of their own: against trying all choices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import pytest

from quicksilver.membership.bits import slots_of
from quicksilver.membership.planning.hybrid import STICKY, Candidate, choose_hybrid
from quicksilver.stdx.rand import Rng

PRICE = 1.0
CAP = 3
NODES = 6
PLENTY = 1000


def draw(rng: Rng, count: int, *, members: int | None = None) -> list[Candidate]:
    found = []
    for _ in range(count):
        nodes = rng.sample(range(NODES), 2 + rng.below(NODES - 2)) if members is None else []
        mask = sum(1 << node for node in nodes) if members is None else members
        found.append(Candidate(1 + rng.below(4), mask, round(12 * rng.uniform(), 3)))
    return found


def fits(chosen: Sequence[Candidate], memberships: dict[int, int], cap: int) -> bool:
    loads = dict(memberships)
    for one in chosen:
        for slot in slots_of(one.members):
            loads[slot] = loads.get(slot, 0) + 1
    return all(load <= cap for load in loads.values())


def value(chosen: Sequence[Candidate]) -> float:
    """Packets saved a second, less what the memberships must be worth."""
    return sum(one.members.bit_count() * (one.gain - PRICE) for one in chosen)


def best_value(candidates: list[Candidate], memberships: dict[int, int], cap: int) -> float:
    """Try every choice."""
    return max(
        value(some)
        for count in range(len(candidates) + 1)
        for some in combinations(candidates, count)
        if fits(some, memberships, cap) and all(one.regions > 1 for one in some)
    )


def choose(
    candidates: list[Candidate], memberships: dict[int, int], cap: int, addresses: int = PLENTY
) -> list[Candidate]:
    picked = choose_hybrid(
        candidates,
        memberships=memberships,
        memberships_max=cap,
        gain_min=PRICE,
        addresses_max=addresses,
    )
    assert picked == sorted(set(picked))
    return [candidates[at] for at in picked]


@pytest.mark.parametrize("seed", range(40))
def test_with_memberships_to_spare_no_choice_is_better(seed: int) -> None:
    """Whatever saves more packets than its memberships must be worth gets an address."""
    candidates = draw(Rng(seed), 8)
    chosen = choose(candidates, {}, PLENTY)
    assert value(chosen) == pytest.approx(best_value(candidates, {}, PLENTY))


@pytest.mark.parametrize("seed", range(40))
def test_where_all_compete_for_the_same_nodes_no_choice_is_better(seed: int) -> None:
    """The largest gains win the few memberships that are left."""
    candidates = draw(Rng(seed), 8, members=0b11011)
    memberships = {0: 1, 3: seed % 4}
    chosen = choose(candidates, memberships, CAP)
    assert value(chosen) == pytest.approx(best_value(candidates, memberships, CAP))


def test_a_node_never_has_more_memberships_than_it_may() -> None:
    """And nothing that pays is left out while there is room; the rest is near the best."""
    shares = []
    for seed in range(200):
        rng = Rng(seed)
        candidates = draw(rng, 8)
        memberships = {node: rng.below(CAP + 1) for node in range(NODES)}
        chosen = choose(candidates, memberships, CAP)
        assert fits(chosen, memberships, CAP)
        for one in candidates:
            if one not in chosen and one.regions > 1 and one.gain >= PRICE:
                assert not fits([*chosen, one], memberships, CAP)
        best = best_value(candidates, memberships, CAP)
        if best:
            shares.append(value(chosen) / best)
    assert len(shares) > 50
    assert sum(shares) / len(shares) > 0.95


def test_there_are_no_more_addresses_than_the_pool_has() -> None:
    """Shared addresses would bring everybody what only some want."""
    candidates = [Candidate(4, 0b11, 10.0 + place) for place in range(8)]
    assert choose(candidates, {}, PLENTY, addresses=2) == candidates[-2:]


def test_an_address_that_exists_is_kept_for_half_the_gain() -> None:
    """Traffic around the limit must not move everybody to and fro."""
    rate = 1.2 * PRICE * 2 / STICKY
    before, after = Candidate(2, 0b11, rate), Candidate(2, 0b11, rate, is_hybrid=True)
    assert choose([before], {}, CAP) == []
    assert choose([after], {}, CAP) == [after]
    assert choose([Candidate(2, 0b11, rate / 2, is_hybrid=True)], {}, CAP) == []


def test_who_comes_waits_for_who_goes() -> None:
    """An address that is given up is listened at for a while, and counts for so long."""
    old = Candidate(2, 0b11, 4.0, is_hybrid=True)
    busy = Candidate(2, 0b11, 40.0)
    memberships = {0: CAP - 1}
    assert choose([old, busy], memberships, CAP) == []
    assert choose([busy], memberships, CAP) == [busy]
