"""Deliveries are judged by what messages say of themselves, and never without proof."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.live.formalisms.delivery import INSTANCES_MAX, REMEMBERED_MAX
from quicksilver.live.monitors import Violation, Watch
from quicksilver.live.types.build import endpoint, event
from quicksilver.live.types.model import BYTES, INT, STR


def make(formula: str, *, required: bool = False) -> Watch:
    fields = {"sender": STR, "number": INT, "message": BYTES}
    pair = [("delivery", formula)]
    return Watch(
        endpoint(
            [event("send", **fields)],
            [event("receive", **fields)],
            provides=() if required else pair,
            requires=pair if required else (),
        )
    )


def receive(
    watch: Watch, sender: str, number: int, at: str = "a", way: str = "out"
) -> list[Violation]:
    value = {"sender": sender, "number": number, "message": b""}
    return watch.handle_event(way, "receive", value, instance=at)  # type: ignore[arg-type]


def test_a_message_that_comes_twice() -> None:
    watch = make("exactly once")
    assert receive(watch, "ann", 1) == []
    assert receive(watch, "bob", 1) == []
    assert receive(watch, "ann", 1, at="b") == []
    (violation,) = receive(watch, "ann", 1)
    assert violation.promise == "provided"
    assert len(violation.events) == 2
    assert "message 1 of 'ann' came twice" in str(violation)


def test_a_message_that_is_overtaken() -> None:
    watch = make("causal")
    assert receive(watch, "ann", 5) == []
    assert receive(watch, "bob", 1) == []
    (violation,) = receive(watch, "ann", 4)
    assert "message 4 of 'ann' came after its message 5" in str(violation)


def test_two_orders_at_two_instances() -> None:
    watch = make("total")
    for sender in ("ann", "bob", "cleo"):
        assert receive(watch, sender, 1, at="a") == []
    assert receive(watch, "bob", 1, at="b") == []
    (violation,) = receive(watch, "ann", 1, at="b")
    assert "came in two orders" in str(violation)
    assert [one.instance for one in violation.events] == ["a", "a", "b", "b"]
    assert receive(watch, "cleo", 1, at="b") == []


def test_what_is_required_is_about_what_comes_in() -> None:
    watch = make("fifo", required=True)
    assert receive(watch, "ann", 2) == []
    assert receive(watch, "ann", 1) == []  # what goes out is no delivery to us
    assert receive(watch, "ann", 2, way="in") == []
    (violation,) = receive(watch, "ann", 1, way="in")
    assert violation.promise == "required"


@pytest.mark.parametrize(
    "value", [b"same", None, 7, {"number": 1}, {"sender": "ann"}, {"sender": [], "number": 1}]
)
def test_equal_values_prove_nothing(value: object) -> None:
    watch = make("exactly once and total")
    for _ in range(3):
        assert watch.handle_event("out", "receive", value, instance="a") == []


def test_what_is_remembered_is_bounded() -> None:
    watch = make("at most once")
    for number in range(REMEMBERED_MAX + 1):
        assert receive(watch, "ann", number) == []
    assert receive(watch, "ann", 0) == []  # forgotten: nothing is said
    (_, _, monitor) = watch._monitors[0]
    for number in range(3 * INSTANCES_MAX):
        receive(watch, "ann", 0, at=f"instance {number}")
    assert len(monitor._instances) == INSTANCES_MAX  # type: ignore[attr-defined]


def test_best_effort_and_others_are_not_watched() -> None:
    assert [one.text for one in make("best effort and at least once").unwatched]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=12))
def test_fifo_agrees_with_the_obvious(order: list[tuple[str, int]]) -> None:
    """Reported exactly when a number is below an earlier one of its sender, and new."""
    watch = make("fifo")
    for place, (sender, number) in enumerate(order):
        earlier = [n for s, n in order[:place] if s == sender]
        expected = bool(earlier) and number < max(earlier) and number not in earlier
        assert bool(receive(watch, sender, number)) == expected


@given(st.permutations(list(range(5))), st.permutations(list(range(5))))
def test_total_agrees_with_the_obvious(one: list[int], other: list[int]) -> None:
    watch = make("total")
    found = [
        receive(watch, f"s{name}", 0, at=at) for at, o in (("a", one), ("b", other)) for name in o
    ]
    assert any(found) == (one != other)
