"""Checks of retained values and of requests: good histories are accepted, bad ones rejected."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from quicksilver.multicast.requests import Pending
from quicksilver.trials.checks import ALL
from quicksilver.trials.checks.answers import Answers
from quicksilver.trials.checks.retained import Retained
from quicksilver.trials.draw import Membership, draw_plan
from quicksilver.trials.features import Features
from quicksilver.trials.node import SimNode
from quicksilver.trials.payloads import make_payload
from quicksilver.trials.trial import run_trial
from quicksilver.trials.watch import Watcher
from tests.trials.test_checks import Bench


class TestRetained:
    def test_a_member_without_the_last_value_of_a_sender(self) -> None:
        bench = Bench(Retained)
        bench.cluster.features = Features(retain=1)
        bench.a.values.is_sender = bench.b.values.is_member = True
        bench.a.values.sent = 5
        for number in (2, 3):
            self.give(bench, number, is_retained=True)
        bench.cluster.watching.on_settled()
        assert bench.is_bad("node 1.0 lacks values [4] of node 0.0")

    def test_a_retained_value_that_comes_after_a_newer_one(self) -> None:
        bench = Bench(Retained)
        self.give(bench, 1, is_retained=True)
        self.give(bench, 2, is_retained=False)
        self.give(bench, 2, is_retained=True)
        assert bench.is_good()
        self.give(bench, 1, is_retained=True)
        assert bench.is_bad("value 1 of", "came after 2")

    def test_a_value_that_is_none(self) -> None:
        bench = Bench(Retained)
        bench.cluster.watching.on_value(bench.b, bench.a.id, b"?", is_retained=False)
        assert bench.is_bad("makes no sense")

    def give(self, bench: Bench, number: int, *, is_retained: bool) -> None:
        payload = make_payload("values", bench.a.index, bench.a.life, number, 60)
        bench.cluster.watching.on_value(bench.b, bench.a.id, payload, is_retained=is_retained)


class TestAnswers:
    def test_a_question_that_is_served_twice(self) -> None:
        bench = Bench(Answers)
        for node in (bench.a, bench.b, bench.a):
            assert bench.is_good()
            bench.cluster.watching.on_served(node, b"2/0/0")
        assert bench.is_bad("node 0.0 was asked")

    def test_an_answer_to_another_question(self) -> None:
        bench = Bench(Answers)
        bench.cluster.watching.on_answered(bench.c, 1, bench.a.id, b"2/0/1!")
        assert bench.is_good()
        bench.cluster.watching.on_answered(bench.c, 2, bench.a.id, b"2/0/1!")
        assert bench.is_bad("no answer to question 2")

    def test_an_answer_that_comes_twice(self) -> None:
        bench = Bench(Answers)
        for _ in range(2):
            bench.cluster.watching.on_answered(bench.c, 1, bench.a.id, b"2/0/1!")
        assert bench.is_bad("answered question 1 twice")

    def test_a_question_without_an_end(self) -> None:
        bench = Bench(Answers)
        pending = Pending("questions", None, {bench.a.id})
        bench.c.asking.asked.append((pending, 0))
        bench.c.exclusions = 1
        bench.cluster.watching.on_settled()
        assert bench.is_good(), "what it asked may be lost"
        bench.c.exclusions = 0
        bench.cluster.watching.on_settled()
        assert bench.is_bad("waits for answers to question 0")

    def test_no_more_answers_are_missing_than_a_server_had_no_room_for(self) -> None:
        bench = Bench(Answers)
        bench.a.asking.answers.crowded_out = 1
        for number in range(2):
            pending = Pending("questions", None, {bench.a.id})
            pending.number = number
            bench.c.asking.asked.append((pending, 0))
            if number == 0:
                bench.cluster.watching.on_settled()
                assert bench.is_good()
        bench.cluster.watching.on_settled()
        assert bench.is_bad("waits for answers to question 1")


@pytest.mark.slow
def test_values_and_questions_of_a_trial_are_worth_looking_at() -> None:
    """A trial in which nothing is retained or asked would prove nothing."""
    features = Features(
        retain=1,
        value_senders=frozenset({0}),
        value_members=frozenset({1}),
        servers=frozenset({1, 2}),
        askers=frozenset({0, 3}),
    )
    plan = msgspec.structs.replace(draw_plan(3), nodes=4, features=features, faults=())
    groups = (Membership(group="g0", members=(0, 1, 2, 3)),)
    plan = msgspec.structs.replace(plan, memberships=groups, without_multicast=(), hybrid=())
    counts: Counter[str] = Counter()

    class Count(Watcher):
        name = "count"

        def on_value(
            self, node: SimNode, sender: int, payload: bytes, *, is_retained: bool
        ) -> None:
            counts["retained" if is_retained else "live"] += 1

        def on_answered(self, node: SimNode, number: int, sender: int, body: bytes) -> None:
            counts["answers"] += 1

    assert not run_trial(plan, checks=(*ALL, Count)).violations
    assert counts["live"] > 10
    assert counts["answers"] > 20
    assert counts["retained"] >= 2 * 3, "the last of each key, for two who came late"
