"""The timer table against a dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quicksilver.stdx.timers import STALE_SLACK, TimerTable

step = st.tuples(
    st.sampled_from(["set", "set", "cancel", "pop"]),
    st.integers(0, 6),
    st.integers(0, 20),
)


@given(st.lists(step, max_size=60))
def test_agrees_with_a_sorted_dictionary(steps: list[tuple[str, int, int]]) -> None:
    """Deadlines fall due in order; ties in the order of setting."""
    table = TimerTable[int]()
    expected: dict[int, tuple[float, int]] = {}
    for turn, (name, key, when) in enumerate(steps):
        if name == "set":
            table.set(key, when)
            expected[key] = (when, turn)
        elif name == "cancel":
            table.cancel(key)
            expected.pop(key, None)
        else:
            due = sorted((at, k) for k, at in expected.items() if at[0] <= when)
            assert table.pop_due(when) == [k for _, k in due]
            for _, k in due:
                del expected[k]
        assert table.next() == min((at[0] for at in expected.values()), default=None)
        assert len(table) == len(expected)
        assert all((k in table) == (k in expected) for k in range(7))
        wanted = expected.get(key)
        assert table.deadline(key) == (None if wanted is None else wanted[0])


@given(st.lists(step, max_size=400))
def test_stale_entries_stay_bounded(steps: list[tuple[str, int, int]]) -> None:
    """A timer that is moved a million times must not cost a million entries."""
    table = TimerTable[int]()
    for name, key, when in steps:
        if name == "set":
            table.set(key, when)
        elif name == "cancel":
            table.cancel(key)
        else:
            table.pop_due(when / 4)
        assert len(table._heap) <= 2 * len(table) + STALE_SLACK


def test_a_timer_that_is_moved_forever_costs_one_entry() -> None:
    """The common case: a deadline pushed back with every packet."""
    table = TimerTable[tuple[str, int]]()
    for when in range(10_000):
        table.set(("idle", 1), float(when))
    assert len(table._heap) <= 2 + STALE_SLACK
    assert table.pop_due(1e9) == [("idle", 1)]


def test_keys_need_not_be_comparable() -> None:
    """Equal deadlines must not fall back on comparing the keys."""
    table = TimerTable[object]()
    table.set("a", 1.0)
    table.set((1, "b"), 1.0)
    table.set(None, 1.0)
    assert table.pop_due(1.0) == ["a", (1, "b"), None]
