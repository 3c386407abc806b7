"""What a node answers to requests: once in a while, and to all when many ask."""

from __future__ import annotations

from quicksilver.multicast import answers
from quicksilver.multicast.answers import ANSWERED_S, Answers, many_of
from quicksilver.multicast.receiving.region import RETRY_S_MIN
from quicksilver.stdx.ranges import RangeSet

ONE = RangeSet([(7, 8)])


def chosen(
    made: Answers, peer: int, now: float, ranges: RangeSet = ONE
) -> tuple[list[int], list[int]]:
    alone, for_all = made.choose(peer, ranges, now)
    return alone.values(100), for_all.values(100)


def test_a_packet_just_sent_to_a_node_is_not_sent_to_it_again() -> None:
    """The repair is under way: a request that was repeated meanwhile asks for the same."""
    made = Answers(100, has_multicast=True)
    assert chosen(made, 1, 5.0) == ([7], [])
    assert chosen(made, 1, 5.0 + 0.9 * ANSWERED_S) == ([], [])
    assert chosen(made, 2, 5.0 + 0.9 * ANSWERED_S) == ([7], [])
    assert chosen(made, 1, 5.0 + ANSWERED_S) == ([7], [])


def test_whoever_asks_again_in_due_time_is_answered() -> None:
    """A repair may be lost: nobody waits in vain for what was sent once."""
    assert ANSWERED_S < RETRY_S_MIN


def test_what_many_ask_for_goes_to_all_once() -> None:
    made = Answers(100, has_multicast=True)
    many = many_of(100)
    got = [chosen(made, peer, 5.0) for peer in range(60)]
    assert got[: many - 1] == [([7], [])] * (many - 1)
    assert got[many - 1] == ([], [7])
    assert got[many:] == [([], [])] * (60 - many)


def test_independent_loss_is_not_what_many_ask_for() -> None:
    """A repair for all costs everybody as much as the packet did: five of a hundred that
    lost it are better off each by itself."""
    assert many_of(100) > 10
    assert many_of(4) <= 3


def test_without_multicast_each_is_answered_by_itself() -> None:
    made = Answers(10, has_multicast=False)
    assert [chosen(made, peer, 5.0) for peer in range(10)] == [([7], [])] * 10


def test_what_went_to_all_for_another_reason_is_not_sent_again() -> None:
    made = Answers(10, has_multicast=True)
    made.note_sent_to_all(ONE, 5.0)
    assert chosen(made, 1, 5.001) == ([], [])
    assert chosen(made, 1, 5.0 + ANSWERED_S) == ([7], [])


def test_no_more_is_remembered_than_matters() -> None:
    """Nobody can make it remember more than its bound, or for longer than it says."""
    made = Answers(10, has_multicast=True)
    for start in range(0, 10 * answers.REMEMBERED_MAX, 1000):
        made.choose(1, RangeSet([(start, start + 1000)]), 5.0)
    assert len(made._answers) <= answers.REMEMBERED_MAX
    made.choose(1, ONE, 5.0 + ANSWERED_S)
    assert len(made._answers) == 1
