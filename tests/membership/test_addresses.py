"""Addresses are handed out in a circle, and shared only when they run out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.membership.addresses import AddressPool, BadAddressPoolError


def test_an_address_is_reused_as_late_as_possible() -> None:
    """Late packets of the last owner must not reach the next one."""
    pool = AddressPool("239.192.0.0/30")
    assert [pool.acquire(n) for n in range(3)] == ["239.192.0.0", "239.192.0.1", "239.192.0.2"]
    pool.release(0)
    assert pool.acquire(3) == "239.192.0.3"
    assert pool.acquire(4) == "239.192.0.0"


def test_owners_share_evenly_when_the_pool_is_exhausted() -> None:
    """Packets carry region identifiers, so sharing is allowed, and counted."""
    pool = AddressPool("239.192.0.0/31")
    taken = [pool.acquire(n) for n in range(5)]
    assert sorted(map(taken.count, set(taken))) == [2, 3]
    assert pool.shared == 3
    for owner in range(5):
        pool.release(owner)
    assert pool.shared == 0
    assert len(pool) == 0


def test_a_restored_address_is_not_given_to_another() -> None:
    """After a restart live regions keep what they have."""
    pool = AddressPool("239.192.0.0/30")
    pool.restore("old", "239.192.0.0")
    pool.restore("foreign", "239.1.2.3")
    assert pool.acquire("new") == "239.192.0.1"
    pool.release("foreign")
    pool.release("old")
    assert len(pool) == 1


def test_addresses_that_switches_flood_are_skipped() -> None:
    """239.128.0.x has the Ethernet addresses of 224.0.0.x."""
    assert AddressPool("239.128.0.0/16").acquire(1) == "239.128.1.0"
    with pytest.raises(BadAddressPoolError, match="flood"):
        AddressPool("239.0.0.0/24")


@pytest.mark.parametrize("text", ["10.0.0.0/8", "nonsense", "239.192.0.1/16", "ff02::/16", ""])
def test_a_bad_pool_is_explained_in_one_line(text: str) -> None:
    """The user wrote it; the user must see what is wrong."""
    with pytest.raises(BadAddressPoolError) as caught:
        AddressPool(text)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9))))
def test_load_is_balanced_whatever_the_order(steps: list[tuple[bool, int]]) -> None:
    """Nobody shares while an address is free."""
    pool = AddressPool("239.192.0.0/30")
    held: dict[int, str] = {}
    for acquire, owner in steps:
        if acquire and owner not in held:
            free = {"239.192.0.0", "239.192.0.1", "239.192.0.2", "239.192.0.3"} - {*held.values()}
            held[owner] = pool.acquire(owner)
            assert not free or held[owner] in free
        elif not acquire and owner in held:
            pool.release(owner)
            del held[owner]
        assert pool.shared == len(held) - len(set(held.values()))
