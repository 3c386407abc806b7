"""Virtual time: order, and no way back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quicksilver.sim.events import EventQueue

TIMES = st.lists(st.floats(0, 10, allow_nan=False), max_size=60)


@given(TIMES)
def test_events_happen_by_time_and_then_in_the_order_they_were_added(times: list[float]) -> None:
    events = EventQueue()
    happened: list[tuple[float, int]] = []
    for place, when in enumerate(times):
        events.at(when, lambda when=when, place=place: happened.append((when, place)))
    events.run(20)
    assert happened == sorted(happened)
    assert len(happened) == events.happened == len(times)


@given(TIMES, st.floats(0, 10))
def test_time_never_goes_back_whatever_is_asked_for(times: list[float], step: float) -> None:
    """An event may ask for something in the past: it happens now."""
    events = EventQueue()
    seen: list[float] = []
    for when in times:
        events.at(when, lambda: (seen.append(events.now), events.after(-step, look)))

    def look() -> None:
        seen.append(events.now)

    events.run(5)
    events.run(5)
    assert seen == sorted(seen)
    assert events.now == 10


def test_a_run_ends_at_its_time_and_later_events_stay() -> None:
    events = EventQueue()
    happened: list[str] = []
    events.at(1.0, lambda: happened.append("in"))
    events.at(2.0 + 1e-9, lambda: happened.append("after"))
    events.run(2.0)
    assert happened == ["in"]
    assert events.now == 2.0
    assert events.next_at() == 2.0 + 1e-9


def test_a_run_ends_early_once_its_condition_holds() -> None:
    events = EventQueue()
    happened: list[int] = []
    for number in range(5):
        events.at(number, lambda number=number: happened.append(number))
    assert events.run(10, until=lambda: len(happened) == 3)
    assert events.now == 2
