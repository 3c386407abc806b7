"""What a region has said: the furthest of what grows, the earliest end of the dead."""

from __future__ import annotations

from quicksilver.multicast.words import CUT_VOTES, NOTHING_SAID, RegionWords


def test_nothing_is_known_of_a_sender_before_somebody_spoke() -> None:
    assert RegionWords(2).of(7) == NOTHING_SAID


def test_older_news_does_not_take_back_what_is_known() -> None:
    words = RegionWords(2)
    words.learn(7, 10, (0, 8, 1, 9), -1, end=100)
    words.learn(7, 4, (0, 3, 1, 12), -1, end=100)
    assert words.of(7) == (10, (0, 8, 1, 12), -1)


def test_nothing_is_stable_past_what_this_node_has() -> None:
    words = RegionWords(1)
    assert words.learn(7, 50, (), -1, end=20).stable == 20


def test_partitions_that_do_not_exist_are_not_remembered() -> None:
    words = RegionWords(2)
    assert words.conclude(7, 1, (0, 5, 2, 9)).kept == (0, 5)


def test_a_dead_senders_packet_that_nobody_held_in_three_rounds_is_gone() -> None:
    words = RegionWords(1)
    rounds = [words.vote_cut(7, 30) for _ in range(CUT_VOTES)]
    assert rounds == [False, False, True]
    assert words.of(7).cut == 30


def test_votes_for_another_packet_begin_anew() -> None:
    words = RegionWords(1)
    words.vote_cut(7, 30)
    words.vote_cut(7, 30)
    assert not words.vote_cut(7, 31)
    words.forget_votes(7)
    assert not words.vote_cut(7, 31)


def test_the_earliest_end_stays() -> None:
    words = RegionWords(1)
    words.learn(7, 0, (), 12, end=100)
    words.learn(7, 0, (), 20, end=100)
    assert words.of(7).cut == 12
