"""Waits grow, stay within their bound, and differ between those who wait."""

from __future__ import annotations

from quicksilver.stdx.backoff import Backoff


def test_waits_double_up_to_the_last_and_begin_again() -> None:
    """Each is drawn from the upper half of its length."""
    backoff = Backoff(0.1, 1.0, seed=1)
    waits = [backoff.next_wait() for _ in range(8)]
    for wait, whole in zip(waits, (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0), strict=True):
        assert whole / 2 <= wait <= whole
    backoff.reset()
    assert backoff.next_wait() <= 0.1


def test_the_bound_may_change_at_any_time() -> None:
    """The GMS says how long nodes may be silent when it lets them in."""
    backoff = Backoff(0.1, 10.0, seed=1)
    for _ in range(10):
        backoff.next_wait()
    backoff.last_s = 0.05
    assert backoff.next_wait() <= 0.05


def test_those_who_lost_the_same_server_come_back_at_different_times() -> None:
    """By their seeds, and the same for the same seed."""
    waits = [Backoff(1.0, 1.0, seed=seed).next_wait() for seed in (1, 2, 3, 1)]
    assert waits[0] == waits[3]
    assert len(set(waits)) == 3
