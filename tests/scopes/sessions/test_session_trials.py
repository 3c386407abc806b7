"""Whole trees of scopes in virtual time, with faults of all kinds while sessions change."""

from __future__ import annotations

import msgspec
import pytest

from quicksilver.trials.scopes.checks.complete import Complete
from quicksilver.trials.scopes.checks.content import Content
from quicksilver.trials.scopes.checks.one_order import OneOrder
from quicksilver.trials.scopes.checks.order import Order
from quicksilver.trials.scopes.checks.stability import Stability
from quicksilver.trials.scopes.draw import draw_plan
from quicksilver.trials.scopes.plan import ChangeSession, Plan
from quicksilver.trials.scopes.trial import run_trial

CHECKS = (Order, Content, Complete, Stability, OneOrder)


def changing(seed: int) -> Plan:
    """Return a drawn plan in which a topic's order becomes total, not so, and total again."""
    plan = draw_plan(seed)
    changes = [
        ChangeSession(at=at, topic="root/all", ordering=ordering)
        for at, ordering in (
            (0.2, "total"),
            (plan.seconds * 0.5, "fifo"),
            (plan.seconds * 0.7, "total"),
        )
    ]
    others = [fault for fault in plan.faults if not isinstance(fault, ChangeSession)]
    faults = sorted((*others, *changes), key=lambda fault: fault.at)
    return msgspec.structs.replace(plan, faults=tuple(faults))


@pytest.mark.slow
def test_who_comes_into_an_order_that_goes_on_is_told_what_it_misses() -> None:
    """It gets the end of the session before, and what was ordered before it came is not for it:
    a gap in the middle of a sender's messages."""
    assert run_trial(draw_plan(162), checks=(Order,)).violations == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        2,  # a node leaves the topic while something is to be looked at
        4,  # a sequencer crashes, and the next one has not followed the order from its beginning
        5,
        7,  # managers, nodes and networks fail
        14,
        20,
        24,  # a publisher comes back during a change
    ],
)
def test_everything_once_and_in_one_order_while_sessions_change(seed: int) -> None:
    verdict = run_trial(changing(seed), checks=CHECKS)
    assert verdict.violations == ()
    assert verdict.faults_by_kind["ChangeSession"] == 3
