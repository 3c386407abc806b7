"""Many simulated nodes that crash: progress, order, and nothing that a seed does not give."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quicksilver.properties.plan import Binary, Literal, Place, Read
from quicksilver.properties.simulate.churn import Churn, Options
from tests.properties.plans import CLEANUP_PLAN, LAST, PHASES_PLAN, both


def test_phases_follow_each_other_and_nobody_is_early() -> None:
    """Figure 5.7: the program of Code 5.2 while each node crashes every 5 seconds."""
    outcome = Churn(PHASES_PLAN, Options(nodes=64, crash_s=5.0)).run(3.0)
    assert outcome.crashes > 20
    assert outcome.broken is None
    phases = sorted(arguments[0] for _, arguments in outcome.firsts)
    assert len(phases) > 10
    assert phases == list(range(1, len(phases) + 1))


def test_the_same_seed_gives_the_same_run() -> None:
    runs = [Churn(PHASES_PLAN, Options(nodes=27, size=3, crash_s=2.0)).run(2.0) for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_program_with_a_mistake_is_caught() -> None:
    """Nodes that enter the next phase as soon as they have ended the last one are early."""
    rules = list(PHASES_PLAN.rules)
    rules[2] = replace(rules[2], place=Place.LOCAL, value=both(Binary.ADD, Read(LAST), Literal(1)))
    plan = replace(PHASES_PLAN, rules=tuple(rules))
    outcome = Churn(plan, Options(nodes=64, crash_s=5.0)).run(3.0)
    assert outcome.broken is not None


@pytest.mark.slow
def test_what_is_cleaned_up_all_regular_nodes_have() -> None:
    outcome = Churn(CLEANUP_PLAN, Options(nodes=64, crash_s=20.0, number_s=0.3)).run(4.0)
    assert outcome.broken is None
    assert outcome.requests[0] > 100
