"""The search finds what breaks a claim, and nothing where a program is right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from quicksilver.properties.plan import (
    Aggregate,
    Binary,
    Children,
    Claim,
    Plan,
    Quantified,
    ReadAt,
)
from quicksilver.properties.verify.canonical import Canonical
from quicksilver.properties.verify.explore import Counterexample, Explorer, Limits
from quicksilver.properties.verify.searches import searches, verify
from quicksilver.properties.verify.timeline import tell
from quicksilver.properties.verify.world import Crashed, Faults, Given, Model, Round, Started
from tests.properties.plans import CLEANUP, CLEANUP_PLAN, LAST, PHASES_PLAN, STABLE, both

QUICK = searches()[:4]


def changed(plan: Plan, rule: int, **fields: object) -> Plan:
    rules = list(plan.rules)
    rules[rule] = replace(rules[rule], **fields)  # type: ignore[arg-type]
    return replace(plan, rules=tuple(rules))


def broken(plan: Plan, faults: Faults, *, is_settled: bool = True) -> Counterexample | None:
    limits = Limits(faults=faults, is_settled=is_settled)
    return Explorer(plan, limits).run().counterexample


@pytest.mark.slow
@pytest.mark.parametrize("plan", [CLEANUP_PLAN, PHASES_PLAN], ids=lambda plan: plan.name)
def test_the_printed_programs_keep_what_they_claim(plan: Plan) -> None:
    results = [result for _, result in verify(plan, QUICK)]
    assert len(results) == len(QUICK)
    assert all(result.is_complete for result in results)
    assert all(result.worlds > 20 for result in results)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plan", "faults"),
    [
        (changed(CLEANUP_PLAN, 0, is_all=False), Faults(0, 0, 1, 0)),
        (changed(CLEANUP_PLAN, 0, is_mono=False), Faults(1, 1, 0, 1)),
        (replace(CLEANUP_PLAN, conditions=()), Faults(1, 1, 0, 0)),
        (
            changed(PHASES_PLAN, 0, value=Children(Aggregate.MAXIMUM, LAST)),
            Faults(0, 0, 0, 0),
        ),
        (replace(PHASES_PLAN, conditions=()), Faults(1, 1, 0, 0)),
    ],
    ids=[
        "without all",
        "without mono",
        "without the condition",
        "max for min",
        "phases without the condition",
    ],
)
def test_mistakes_are_found(plan: Plan, faults: Faults) -> None:
    found = broken(plan, faults)
    assert found is not None
    assert not found.is_eventual
    assert found.broken.label == "I1"


def test_what_never_comes_about_is_found() -> None:
    """Without R3 nobody is told what may be cleaned up."""
    body = both(Binary.EQUAL, ReadAt("a", CLEANUP), ReadAt("a", STABLE))
    plan = replace(CLEANUP_PLAN, eventualities=(Claim("E1", (Quantified("a"),), body),))
    assert broken(plan, Faults(0, 0, 0, 0)) is None
    found = broken(replace(plan, rules=plan.rules[:2]), Faults(0, 0, 0, 0))
    assert found is not None
    assert found.is_eventual
    assert "from here on, without any fault" in "\n".join(tell(found))


def test_a_timeline_names_what_happened_and_what_changed() -> None:
    found = broken(
        changed(PHASES_PLAN, 0, value=Children(Aggregate.MAXIMUM, LAST)), Faults(0, 0, 0, 0)
    )
    assert found is not None
    text = "\n".join(tell(found))
    assert "nodes a, b, c; domains a+b, c, a+b+c" in text
    assert " 1. a+b+c holds a round" in text
    assert "asks its application: Phase(" in text
    assert text.endswith("I1 does not hold for a = a, b = c")


def test_no_shorter_way_breaks_the_claim() -> None:
    """The nearest worlds are looked at first."""
    found = broken(replace(CLEANUP_PLAN, conditions=()), Faults(1, 1, 0, 0))
    assert found is not None
    assert len(found.actions) == 10


def test_worlds_that_differ_in_names_and_numbers_are_one() -> None:
    model = Model(CLEANUP_PLAN)
    canonical = Canonical(model)
    begin = model.settle(model.begin(Faults(1, 1, 0, 0)))
    more = model.apply(begin, Round((1, 0), (), ()))
    assert canonical.key(begin) == canonical.key(more), "a round that changes nothing"
    one = model.apply(model.apply(begin, Crashed(1)), Started(1))
    given = model.apply(one, Given(1, 0))
    assert canonical.key(one) != canonical.key(given)
    other = model.apply(model.apply(begin, Crashed(2)), Started(2))
    assert canonical.key(one) != canonical.key(other), "it is another domain that is empty"


def test_events_of_two_nodes_of_a_domain_have_one_order() -> None:
    """What commutes is tried in one order: after b's event a's does not come any more."""
    model = Model(CLEANUP_PLAN)
    world = model.apply(model.settle(model.begin(Faults(0, 0, 0, 0))), Given(1, 0))
    assert not any(isinstance(action, Given) for action in model.actions(world))
    assert all(
        isinstance(action, Round) and action.name == (0, 0) for action in model.actions(world)
    )
