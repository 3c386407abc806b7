"""The seam carries a protocol that has nothing to do with packets."""

from __future__ import annotations

import pytest

from quicksilver.recovery.domains import Domain
from quicksilver.recovery.pacing import Due, Following, Quiet
from quicksilver.recovery.ring import PASSING_MAX, CallingRoll, Circulating, RingAgent
from quicksilver.recovery.rounds import Pace, RoundEnd, Rounds, Token, Wake
from tests.recovery.minimum import TIMING, World


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
    assert isinstance(leader, RingAgent)
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
    assert isinstance(acting, RingAgent)
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


class Silent(Rounds[int]):
    """A protocol with something to say only while it is told so."""

    def __init__(self) -> None:
        self.news = False

    def has_news(self) -> bool:
        return self.news

    def open_round(self, now: float) -> int:
        return 0

    def visit(self, content: int, previous: int, now: float) -> int:
        return content + 1

    def close_round(self, content: int, end: RoundEnd, now: float) -> Pace:
        return Pace.STEADY if self.news else Pace.QUIET


class Counts:
    tokens_released = 0
    roll_calls = 0


def leader(rounds: Silent) -> RingAgent[int]:
    domain = Domain((0, 0), (1, 2, 3))
    return RingAgent(node=1, domain=domain, rounds=rounds, timing=TIMING, counters=Counts())


def test_a_ring_falls_silent_and_wakes() -> None:
    rounds = Silent()
    agent = leader(rounds)
    assert agent.next_timeout() is None
    rounds.news = True
    agent.handle_news(1.0, urgent=False)
    agent.handle_timeout(1.05)
    sent = agent.poll_message(1.05)
    assert sent is not None
    rounds.news = False
    assert isinstance(sent[1], Token)
    agent.handle_token(sent[1], 1.06)
    assert isinstance(agent.state, Quiet)
    assert agent.next_timeout() is None
    agent.handle_wake(Wake((0, 0), 3), 2.0)
    agent.handle_timeout(2.0)
    assert agent.poll_message(2.0) is not None


def test_a_socket_that_is_full_costs_no_burst_of_tokens_afterwards() -> None:
    """News each millisecond, and nothing can leave: one token leaves when it can."""
    rounds = Silent()
    agent = leader(rounds)
    rounds.news = True
    for step in range(100):
        now = 1.0 + step / 1000
        agent.handle_news(now, urgent=True)
        agent.handle_timeout(now)
    assert agent.poll_message(1.1) is not None
    assert agent.poll_message(1.1) is None


def test_a_wake_is_not_forgotten_when_the_last_token_returns_first() -> None:
    """The socket is full as the wake comes; the token that is back says that all is quiet."""
    rounds = Silent()
    agent = leader(rounds)
    rounds.news = True
    agent.handle_news(1.0, urgent=True)
    agent.handle_timeout(1.0)
    sent = agent.poll_message(1.0)
    assert sent is not None
    agent.handle_wake(Wake((0, 0), 2), 1.01)
    agent.handle_timeout(1.02)
    rounds.news = False
    assert isinstance(sent[1], Token)
    agent.handle_token(sent[1], 1.03)
    assert agent.poll_message(1.04) is not None


def test_strangers_cannot_fill_the_queue_of_tokens_to_pass_on() -> None:
    agent = leader(Silent())
    for number in range(1000):
        agent.handle_token(Token((0, 0), number, 2, 2, (), 0), 1.0)
    passed = 0
    while agent.poll_message(1.0) is not None:
        passed += 1
    assert passed == PASSING_MAX
