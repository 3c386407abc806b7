"""The seam carries a protocol that has nothing to do with packets."""

from __future__ import annotations

import pytest

from quicksilver.recovery.ring import CallingRoll, Circulating, Due, Following, Quiet
from tests.recovery.minimum import World


@pytest.mark.parametrize("members", [1, 2, 3, 7, 30, 100])
def test_every_member_learns_the_minimum(members: int) -> None:
    """Domains nest as deep as they must; the same agent speaks at every level."""
    values = [100 + 7 * n % 61 for n in range(members)]
    world = World(values)
    world.run(2.0)
    assert world.answers() == {min(values)}


def test_what_changes_is_agreed_on_anew() -> None:
    world = World([50 + n for n in range(12)])
    world.run(2.0)
    world.members[12].value = 3
    world.run(2.0)
    assert world.answers() == {3}
    world.members[12].value = 99
    world.run(2.0)
    assert world.answers() == {50}


def test_lost_tokens_cost_rounds_and_not_the_result() -> None:
    world = World([n + 10 for n in range(20)], loss=0.1)
    world.run(20.0)
    world.loss = 0.0
    world.run(2.0)
    assert world.answers() == {10}


@pytest.mark.parametrize("gone", [(1,), (2,), (1, 4), (1, 2, 3), (4, 5, 6, 9)])
def test_a_crash_takes_the_value_of_the_dead_out(gone: tuple[int, ...]) -> None:
    """Leaders, followers, whole domains: who is left agrees on what is left."""
    world = World(list(range(1, 13)))
    world.run(2.0)
    assert world.answers() == {1}
    for node in gone:
        world.members[node].is_down = True
    world.run(0.5)
    world.fail(*gone)
    world.run(3.0)
    assert world.answers() == {min(set(range(1, 13)) - set(gone))}


def test_a_silent_member_is_passed_over_and_its_word_still_counts() -> None:
    """Until the membership changes, nobody may agree without it."""
    world = World([5, 6, 1])
    world.run(2.0)
    world.members[3].is_down = True
    world.members[2].value = 2
    world.run(3.0)
    leader = world.members[1].stack.agents[0]
    assert leader.suspects == {3}
    assert world.answers() == {1}
    world.members[3].is_down = False
    world.members[3].value = 9
    world.run(3.0)
    assert leader.suspects == set()
    assert world.answers() == {2}


def test_a_follower_stands_in_for_a_silent_leader_until_it_is_back() -> None:
    world = World([5, 6, 7])
    world.run(1.0)
    world.members[1].is_down = True
    for node in (2, 3):
        world.members[node].stack.handle_news(world.now)
    world.run(3.0)
    acting = world.members[2].stack.agents[0]
    assert isinstance(acting.state, Quiet | Due | Circulating | CallingRoll)
    world.members[1].is_down = False
    world.run(3.0)
    assert isinstance(acting.state, Following)


def test_messages_follow_the_members_and_not_their_square() -> None:
    """Each round visits each member once; a level above adds a part of that."""
    counts = []
    for members in (27, 81):
        world = World(list(range(members)))
        world.run(2.0)
        world.messages = 0
        world.run(2.0)
        counts.append(world.messages / members)
    assert counts[1] < 1.3 * counts[0]
