"""Monitors say exactly when a formula is broken, and by which events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from quicksilver.live.formalisms.base import Broken, Observed
from quicksilver.live.formalisms.temporal.formalism import Temporal
from quicksilver.live.formalisms.temporal.monitor import (
    CHOICES_MAX,
    EVENTS_KEPT_MAX,
    TemporalMonitor,
)
from quicksilver.live.formalisms.temporal.syntax import Formula
from tests.live.formalisms.temporal.model import (
    STRUCTURE,
    History,
    first_broken,
    formulas,
    histories,
    is_broken_at,
)


def monitor(text: str) -> TemporalMonitor:
    made = Temporal().monitor(Temporal().parse(text, STRUCTURE))
    assert isinstance(made, TemporalMonitor)
    return made


def feed(
    watcher: TemporalMonitor, *events: tuple[str, object] | tuple[str, object, str]
) -> Broken | None:
    """Feed events ``a`` (in) and ``b`` (out); return what the last one broke."""
    result: Broken | None = None
    for name, value, *rest in events:
        assert result is None
        direction = {"a": "in", "b": "out"}.get(name, "")
        result = watcher.handle_event(Observed(direction, name, value, *rest))  # type: ignore[arg-type]
    return result


class TestAgainstTheModel:
    @settings(max_examples=150)
    @given(formulas, histories)
    def test_broken_at_the_same_events(self, formula: Formula, history: History) -> None:
        watcher = TemporalMonitor(formula)
        for now, event in enumerate(history):
            broken = watcher.handle_event(event)
            assert (broken is not None) == is_broken_at(formula, history, now), (formula, now)

    @settings(max_examples=100)
    @given(formulas, histories)
    def test_the_proof_alone_breaks_the_formula_at_its_last_event(
        self, formula: Formula, history: History
    ) -> None:
        watcher = TemporalMonitor(formula)
        for event in history:
            broken = watcher.handle_event(event)
            if broken is not None:
                proof = list(broken.events)
                assert proof[-1] is event
                assert _is_part(proof, history)
                shown = first_broken(formula, proof)
                assert shown == len(proof) - 1
                return


def _is_part(proof: History, history: History) -> bool:
    rest = iter(history)
    return all(any(one is other for other in rest) for one in proof)


class TestProofs:
    def test_receiving_what_was_never_sent(self) -> None:
        broken = feed(monitor("b(m) -> once a(m)"), ("a", 1), ("a", 2), ("b", 1), ("b", 3))
        assert broken is not None
        assert [(one.name, one.value) for one in broken.events] == [("b", 3)]
        assert broken.reason == "the formula does not hold for m = 3"

    def test_receiving_twice_is_shown_by_both(self) -> None:
        broken = feed(
            monitor("not (b(m) and previous once b(m))"), ("b", 1), ("b", 2), ("b", 3), ("b", 2)
        )
        assert broken is not None
        assert [one.value for one in broken.events] == [2, 2]

    def test_two_orders_at_two_instances_are_shown_by_four_events(self) -> None:
        """Example (b): all instances deliver in the same sequence."""
        total = monitor(
            "m == n or not (somewhere once (b(m) and previous once b(n))"
            " and somewhere once (b(n) and previous once b(m)))"
        )
        broken = feed(total, ("b", 1, "x"), ("b", 2, "y"), ("b", 2, "x"), ("b", 1, "y"))
        assert broken is not None
        shown = [f"{one.value}{one.instance}" for one in broken.events]
        assert shown == ["1x", "2y", "2x", "1y"]

    def test_time_that_goes_back(self) -> None:
        """2.1.2: "a constraint that time advances monotonically in successive events"."""
        watcher = monitor("a(t) and previous once a(s) -> s <= t")
        broken = feed(watcher, ("a", 1), ("a", 5), ("a", 7), ("a", 6))
        assert broken is not None
        assert [one.value for one in broken.events] == [7, 6]

    def test_fields_of_what_an_event_carries(self) -> None:
        from quicksilver.live.formalisms.structure import endpoint_structure
        from quicksilver.live.types.build import endpoint, event
        from quicksilver.live.types.model import INT, STR

        structure = endpoint_structure(endpoint([], [event("view", number=INT, name=STR)]))
        text = 'view(number=k, name="x") -> not previous once view(k, _)'
        formula = Temporal().parse(text, structure)
        watcher = Temporal().monitor(formula)
        first = Observed("out", "view", {"number": 1, "name": "x"})
        other = Observed("out", "view", {"number": 1, "name": "y"})
        assert watcher.handle_event(first) is None
        assert watcher.handle_event(other) is None
        assert watcher.handle_event(first) is not None

    def test_events_of_other_values_are_shown_where_they_matter(self) -> None:
        broken = feed(monitor("not (a(m) and previous b)"), ("b", 5), ("a", 7))
        assert broken is not None
        assert [one.value for one in broken.events] == [5, 7]


class TestBounds:
    def test_history_is_bounded_and_says_so(self) -> None:
        watcher = monitor("not (b and once a) and (once b(m) or true)")
        assert feed(watcher, *[("b", n) for n in range(EVENTS_KEPT_MAX + 50)]) is None
        assert feed(watcher, ("a", 0)) is None
        broken = feed(watcher, ("b", 0))
        assert broken is not None
        assert [one.name for one in broken.events] == ["a", "b"]
        assert broken.events_forgotten > 0

    def test_a_proof_that_began_too_long_ago_is_still_reported(self) -> None:
        mark = Observed("", "connect")
        quiet = monitor("connect -> not once a")
        quiet.handle_event(Observed("in", "a", 0))
        for _ in range(EVENTS_KEPT_MAX + 1):
            quiet.handle_event(mark)
        assert quiet.handle_event(mark) is not None

    @pytest.mark.slow
    def test_values_past_the_limit_are_counted_and_never_blamed(self) -> None:
        watcher = monitor("b(m) and not b(n) -> once a(m)")
        limit = int(CHOICES_MAX**0.5)
        for value in range(limit + 20):
            assert feed(watcher, ("a", value)) is None
        for value in range(limit + 20):
            assert feed(watcher, ("b", value)) is None
        assert watcher.values_ignored > 0

    def test_values_that_cannot_be_hashed_are_compared_by_content(self) -> None:
        watcher = monitor("b(m) -> once a(m)")
        assert feed(watcher, ("a", {"x": [1]}), ("b", {"x": [1]})) is None
        assert feed(watcher, ("b", {"x": [2]})) is not None

    def test_large_values_are_not_kept(self) -> None:
        watcher = monitor("b(m) -> once a(m)")
        assert feed(watcher, ("a", b"x" * 100_000), ("b", b"x" * 100_000)) is None
        assert feed(watcher, ("b", b"y" * 100_000)) is not None
