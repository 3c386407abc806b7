"""What gateways answer to nodes that flush, and when they refuse to."""

from __future__ import annotations

from quicksilver.scopes.dissemination.packets import Sender
from quicksilver.scopes.gateway.messages import Question, encode, parse_question
from quicksilver.scopes.gateway.questions import HEARD_S, QUESTIONS_MAX, Questions

ALICE = Sender("campus/lan1", "alice", 17)
T, U = "campus/news", "campus/talk"


class World:
    """How far messages have come."""

    def __init__(self) -> None:
        self.heard = {T: 0, U: 0}
        self.stable = {T: 0, U: 0}
        self.questions: Questions[int] = Questions(self.is_everywhere)

    def is_everywhere(self, topic: str, sender: Sender, number: int) -> bool | None:
        return None if self.heard[topic] < number else self.stable[topic] >= number

    def answers(self, now: float) -> list[tuple[int, bool]]:
        found = []
        while (answer := self.questions.poll_answer(now)) is not None:
            found.append((answer.ticket, not answer.problem))
        return found


def test_an_answer_comes_once_all_topics_are_everywhere() -> None:
    world = World()
    world.heard |= {T: 5, U: 9}
    world.questions.handle_asked(1, ALICE, {T: 5, U: 9}, 0.0)
    world.questions.handle_asked(2, ALICE, {T: 4}, 0.0)
    assert world.answers(0.0) == []
    world.stable[T] = 5
    assert world.answers(1.0) == [(2, True)]
    world.stable[U] = 9
    assert world.answers(2.0) == [(1, True)]
    assert not world.questions.is_asked


def test_a_far_network_may_take_as_long_as_it_likes() -> None:
    """How long to wait is for whoever flushes to say: the gateway has heard all there is."""
    world = World()
    world.heard[T] = 5
    world.questions.handle_asked(1, ALICE, {T: 5}, 0.0)
    assert world.answers(1_000 * HEARD_S) == []


def test_what_never_came_to_a_gateway_it_refuses_to_vouch_for() -> None:
    """It came after the messages were sent: it would wait for ever."""
    world = World()
    world.questions.handle_asked(1, ALICE, {T: 5}, 0.0)
    assert world.answers(0.9 * HEARD_S) == []
    assert world.answers(HEARD_S) == [(1, False)]


def test_too_many_questions_cost_the_oldest_its_answer() -> None:
    world = World()
    world.heard[T] = 1
    for ticket in range(QUESTIONS_MAX + 1):
        world.questions.handle_asked(ticket, ALICE, {T: 1}, 0.0)
    assert world.answers(0.0) == [(0, False)]


def test_what_no_node_asks_is_no_question() -> None:
    question = Question(((T, 5),))
    assert parse_question(encode(question)) == question
    assert parse_question(b"\x93\x02") is None
    assert parse_question(b"garbage") is None
