"""What a region has said: the furthest of what grows, the earliest end of the dead."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quicksilver.multicast.repair.region_state import CUT_VOTES, UNKNOWN, RegionState
from quicksilver.multicast.repair.reports import NOTHING_KEPT, Kept
from quicksilver.stdx.ranges import RangeSet


def kept(limit: int, *lacking: int) -> Kept:
    return Kept(limit, RangeSet((s, s + 1) for s in lacking))


def test_nothing_is_known_of_a_sender_before_somebody_spoke() -> None:
    assert RegionState().of(7) == UNKNOWN


def test_older_news_does_not_take_back_what_is_known() -> None:
    words = RegionState()
    words.learn(7, 10, 10, kept(20, 12, 15), -1, end=100)
    words.learn(7, 4, 4, kept(18, 11, 12), -1, end=100)
    assert words.of(7) == (10, 10, kept(20, 12), -1)


def test_nothing_is_stable_past_what_this_node_has() -> None:
    words = RegionState()
    assert words.learn(7, 50, 50, NOTHING_KEPT, -1, end=20).stable == 20


def test_what_is_stable_is_no_longer_told_as_lacking() -> None:
    words = RegionState()
    assert words.conclude(7, 10, 10, kept(30, 4, 12)).kept == kept(30, 12)


@given(st.lists(st.tuples(st.integers(0, 40), st.sets(st.integers(0, 40))), min_size=1, max_size=5))
def test_what_anybody_knew_to_be_kept_stays_known(news: list[tuple[int, set[int]]]) -> None:
    """The plain model: a set of packets that only grows."""
    known, model = NOTHING_KEPT, set[int]()
    for limit, lacking in news:
        known = known.joined(kept(limit, *(s for s in lacking if s < limit)))
        model |= set(range(limit)) - lacking
    assert {s for s in range(50) if known.has(s)} == model


def test_a_dead_senders_packet_that_nobody_held_in_three_rounds_is_gone() -> None:
    words = RegionState()
    rounds = [words.vote_cut(7, 30) for _ in range(CUT_VOTES)]
    assert rounds == [False, False, True]
    assert words.of(7).cut == 30


def test_votes_for_another_packet_begin_anew() -> None:
    words = RegionState()
    words.vote_cut(7, 30)
    words.vote_cut(7, 30)
    assert not words.vote_cut(7, 31)
    words.forget_votes(7)
    assert not words.vote_cut(7, 31)


def test_the_earliest_end_stays() -> None:
    words = RegionState()
    words.learn(7, 0, 0, NOTHING_KEPT, 12, end=100)
    words.learn(7, 0, 0, NOTHING_KEPT, 20, end=100)
    assert words.of(7).cut == 12
