"""Mishaps are the same for a seed, spare who must be spared, and all kinds come."""

from __future__ import annotations

from quicksilver.lab.soak.acts import ACTS, ENDS_PROCESS, draw_act, draw_memberships
from quicksilver.stdx.rand import Rng

STEADY = frozenset({0, 1})


def draw(seed: int, count: int = 300) -> list[object]:
    rng = Rng(seed)
    return [draw_act(rng, ACTS, range(6), STEADY, is_gms_whole=True) for _ in range(count)]


def test_a_seed_gives_the_same_mishaps() -> None:
    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_every_kind_comes() -> None:
    rng = Rng(1)
    names = set()
    for _ in range(300):
        act = draw_act(rng, ACTS, range(6), STEADY, is_gms_whole=True)
        assert act is not None
        names.add(act.name)
        assert (act.place is None) == (act.name == "gms")
        if act.name in ENDS_PROCESS:
            assert act.place not in STEADY
        assert 0 < act.for_s <= 10
    assert names == set(ACTS)


def test_nothing_happens_where_nobody_is_left_for_it() -> None:
    rng = Rng(1)
    assert draw_act(rng, ("kill",), [0, 1], STEADY, is_gms_whole=True) is None
    assert draw_act(rng, ("gms",), range(6), STEADY, is_gms_whole=False) is None


def test_groups_have_members_and_differ() -> None:
    memberships = draw_memberships(Rng(1), 7, 1000)
    sizes = [sum(group in mine for mine in memberships) for group in range(16)]
    assert min(sizes) >= 2
    assert max(sizes) == 7
    assert len(set(sizes)) > 1
