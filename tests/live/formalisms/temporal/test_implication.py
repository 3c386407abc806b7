"""Implication between temporal formulas is sound, and exact where it says it is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.live.formalisms.base import Observed
from quicksilver.live.formalisms.temporal.formalism import Temporal
from quicksilver.live.formalisms.temporal.implication import Holds, Refuted, decide_implication
from quicksilver.live.formalisms.temporal.syntax import (
    Formula,
    Occurs,
    Once,
    Somewhere,
    implication,
    walk,
)
from tests.live.formalisms.temporal.model import (
    ENDPOINT,
    STRUCTURE,
    A,
    all_histories,
    first_broken,
    formulas,
    is_satisfied,
    propositional,
    quantified,
    with_data,
)

ONE_INSTANCE = all_histories(5, "x", [1])
TWO_VALUES = all_histories(3, "x", [1, 2])
TWO_INSTANCES = all_histories(3, "xy", [1, 2])[::16] + all_histories(4, "xy", [1])[::8]


def _parse(text: str) -> Formula:
    return Temporal().parse(text, STRUCTURE)


def _event(description: str) -> Observed:
    direction, _, name = description.rpartition(".")
    return Observed(direction, name or "other", 1)  # type: ignore[arg-type]


class TestAgainstTheModel:
    @settings(max_examples=60)
    @given(propositional, propositional)
    def test_exact_without_data_and_quantifiers(self, one: Formula, other: Formula) -> None:
        """What is found to hold holds in all histories tried; what is refuted, in the one given."""
        answer = decide_implication(one, other)
        if isinstance(answer, Refuted):
            history = [_event(description) for description in answer.history]
            assert is_satisfied(one, history)
            assert first_broken(other, history) == len(history) - 1
        else:
            assert isinstance(answer, Holds)
            for history in ONE_INSTANCE[:200]:
                assert not is_satisfied(one, history) or is_satisfied(other, history)

    @settings(max_examples=40)
    @given(with_data, with_data)
    def test_sound_with_data(self, one: Formula, other: Formula) -> None:
        _check_sound(one, other, TWO_VALUES)

    @settings(max_examples=25)
    @given(quantified, formulas)
    def test_sound_with_quantifiers(self, one: Formula, other: Formula) -> None:
        _check_sound(one, other, TWO_INSTANCES)

    @settings(max_examples=40)
    @given(formulas, formulas)
    def test_a_conjunction_implies_its_parts(self, one: Formula, other: Formula) -> None:
        """Random pairs seldom imply each other; these always do."""
        both = Temporal().conjoin([one, other])
        for part in (one, other):
            assert not isinstance(decide_implication(both, part), Refuted)
        assert isinstance(decide_implication(one, one), Holds)

    @settings(max_examples=25)
    @given(formulas, st.data())
    def test_sound_for_formulas_made_weaker(self, one: Formula, data: st.DataObject) -> None:
        """Random pairs seldom imply each other; about half of these do."""
        weaker = [Once(one), implication(Occurs(A), one), implication(Occurs(A), Once(one))]
        if not any(isinstance(part, Somewhere) for part in walk(one)):
            weaker.append(Somewhere(one))
        _check_sound(one, data.draw(st.sampled_from(weaker)), TWO_INSTANCES)


def _check_sound(one: Formula, other: Formula, histories: list[list[Observed]]) -> None:
    if isinstance(decide_implication(one, other), Holds):
        for history in histories:
            if not is_satisfied(other, history):
                assert not is_satisfied(one, history), history


class TestKnownCases:
    @pytest.mark.parametrize(
        ("stronger", "weaker"),
        [
            ("a -> once connect", "a -> once connect"),
            ("once connect", "a -> once connect"),
            ("a -> once b", "a -> (once b or once connect)"),
            ("a -> previous b", "a -> once b"),
            ("not a since connect", "once connect"),
            ("a -> historically not b", "a -> not once b"),
            ("b(m) -> once a(m)", "b(x) -> once a(x)"),
            # The value that an event carries is some value.
            ("b(m) -> once a(m)", "b -> once a"),
            ("b(m) -> somewhere once a(m)", "b -> somewhere once a"),
            ("b(m) -> once a(m)", "b(m) -> somewhere once a(m)"),
            ("b -> everywhere once connect", "b -> once connect"),
            ("b -> once somewhere once a", "b -> somewhere once a"),
            ("b -> somewhere (a and once connect)", "b -> somewhere once connect"),
            ("not (b(m) and previous once b(m))", "b(k) -> not previous once b(k)"),
            ("b(m) and once b(n) -> m == n", "b(x) and once b(y) -> not x != y"),
            ("b(m) -> m < 3", "b(k) -> k < 3"),
            ("not b(1)", "b(1) -> a"),
            ("false", "a -> b"),
            # Too many ways to put values in: the plain one is enough.
            (
                "b(m) and once a(n) and once a(k) -> somewhere once (a(n) and once b(k))",
                "b(m) and once a(n) and once a(k) -> somewhere (once a(n) and once b(k))",
            ),
        ],
    )
    def test_implied(self, stronger: str, weaker: str) -> None:
        assert Temporal().implies(_parse(stronger), _parse(weaker))

    @pytest.mark.parametrize(
        ("stronger", "weaker", "allows"),
        [
            ("a -> once connect", "once connect", "another event"),
            ("a -> once b", "a -> previous b", "out.b, then another event, then in.a"),
            ("b -> once a", "b(m) -> once a(m)", "in.a, then out.b(m)"),
            ("b -> somewhere once a", "b -> once a", "out.b"),
            ("b -> once connect", "b -> everywhere once connect", "connect, then out.b"),
            ("not b(1)", "not b", "out.b"),
        ],
    )
    def test_not_implied_and_why(self, stronger: str, weaker: str, allows: str) -> None:
        temporal = Temporal()
        one, other = _parse(stronger), _parse(weaker)
        assert not temporal.implies(one, other)
        assert temporal.explain(one, other) == f"it allows {allows}"

    def test_formulas_too_large_to_compare_are_not_implied(self) -> None:
        """Soundness before all: past the bound the answer is no."""
        temporal = Temporal()
        text = " and ".join(f"(a({n}) -> once b({n}))" for n in range(40))
        formula = temporal.parse(text, STRUCTURE)
        weaker = temporal.parse(text.replace("once", "once once"), STRUCTURE)
        assert not temporal.implies(formula, weaker)
        assert temporal.explain(formula, weaker) == "the formulas are too large to compare"

    def test_both_sides_of_a_connection_see_the_same_event(self) -> None:
        """What goes out of one comes in to the other: matching flips one of the two."""
        from quicksilver.live.types.build import endpoint, flip
        from quicksilver.live.types.model import EndpointType
        from quicksilver.live.types.subtyping import is_match

        def asking(text: str) -> EndpointType:
            mirror = flip(ENDPOINT)
            return endpoint(mirror.inputs, mirror.outputs, requires=[("temporal", text)])

        owner = endpoint(
            ENDPOINT.inputs, ENDPOINT.outputs, provides=[("temporal", "out.b -> once in.a")]
        )
        assert is_match(owner, asking("in.b -> once out.a"))
        assert is_match(owner, asking("b -> once a"))
        assert not is_match(owner, asking("in.b -> once connect"))
