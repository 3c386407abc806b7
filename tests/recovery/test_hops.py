"""Tokens are confirmed member by member while something is wrong, and then only."""

from __future__ import annotations

from quicksilver.recovery.hops import (
    HOP_S_INITIAL,
    SEEN_MAX,
    SEEN_S,
    TRIES_MAX,
    UNDER_WAY_MAX,
    Hops,
)
from quicksilver.recovery.rounds import Receipt, Token
from tests.recovery.minimum import World


def make_token(number: int = 1) -> Token[int]:
    return Token((0, 0), number, 1, 1, (), 0, is_confirmed=True)


def test_a_token_is_repeated_until_it_is_confirmed() -> None:
    hops = Hops[int]()
    token = make_token()
    hops.handle_sent(2, token, 0.0)
    assert hops.take_due(0.5 * HOP_S_INITIAL) == []
    assert hops.take_due(HOP_S_INITIAL) == [(2, token)]
    hops.handle_receipt(1, 1, 3, HOP_S_INITIAL)
    assert hops.has_any(), "a receipt of somebody else confirms nothing"
    hops.handle_receipt(1, 1, 2, HOP_S_INITIAL)
    assert not hops.has_any()
    assert hops.next_timeout() is None


def test_a_member_that_never_confirms_is_given_up() -> None:
    """Whether it is gone is for the leader to find out."""
    hops = Hops[int]()
    hops.handle_sent(2, make_token(), 0.0)
    copies = sum(len(hops.take_due(at / 10)) for at in range(1, 100))
    assert copies == TRIES_MAX - 1
    assert not hops.has_any()


def test_a_round_that_is_back_ends_all_older_ones() -> None:
    hops = Hops[int]()
    for number in (1, 2, 3):
        hops.handle_sent(2, make_token(number), 0.0)
    hops.handle_back(1, 2)
    assert hops.take_due(1.0) == [(2, make_token(3))]


def test_a_copy_is_known_for_a_while() -> None:
    hops = Hops[int]()
    assert not hops.is_copy(make_token(), 0.0)
    assert hops.is_copy(make_token(), 0.9 * SEEN_S)
    assert not hops.is_copy(make_token(2), 0.0)
    assert not hops.is_copy(make_token(), SEEN_S)


def test_no_more_is_remembered_than_there_is_room_for() -> None:
    hops = Hops[int]()
    for number in range(4 * SEEN_MAX):
        hops.handle_sent(2, make_token(number), 0.0)
        hops.is_copy(make_token(number), 0.0)
    assert len(hops._hops) == UNDER_WAY_MAX
    assert len(hops._seen) == SEEN_MAX


def test_where_nothing_is_lost_nothing_is_confirmed() -> None:
    """Receipts would double what tokens cost."""
    world = World(list(range(20)))
    seen = []
    arrive = world.arrive

    def watch(to: int, message: object) -> None:
        seen.append(type(message))
        arrive(to, message)  # type: ignore[arg-type]  # whatever it is

    world.arrive = watch  # type: ignore[method-assign]
    world.run(3.0)
    assert Token in seen
    assert Receipt not in seen


def test_lost_tokens_are_no_reason_to_call_the_roll() -> None:
    """A fifth of all messages is lost. A ring of three would lose half of its rounds, each
    for the length of a timeout; members that confirm tokens lose hardly any."""
    world = World([n + 10 for n in range(9)], loss=0.2)
    world.run(20.0)
    assert sum(member.roll_calls for member in world.members.values()) <= 20
    assert min(member.announced[0] for member in world.members.values()) > 200
