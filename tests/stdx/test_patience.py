"""How long an answer is waited for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.stdx.patience import Patience


def make_patience() -> Patience:
    return Patience(0.03, least_s=0.008, most_s=0.25)


@given(st.lists(st.floats(0.0, 10.0), max_size=50))
def test_it_stays_within_its_bounds(samples: list[float]) -> None:
    patience = make_patience()
    for at, seconds in enumerate(samples):
        patience.note(seconds, at)
        patience.back_off(at + 0.5)
        assert 0.008 <= patience.seconds <= 0.25


def test_it_follows_what_was_measured() -> None:
    """Mean and four deviations: what is steady is waited for little longer than it takes."""
    patience = make_patience()
    for at in range(50):
        patience.note(0.02, at)
    assert patience.seconds == pytest.approx(0.02, rel=0.05)
    for at in range(50, 60):
        patience.note(0.1, at)
    assert patience.seconds > 0.1


def test_it_grows_only_while_nothing_comes_in_time() -> None:
    """Under loss some answers come at once: then the others were lost, and not slow."""
    patience = make_patience()
    patience.note(0.02, 1.0)
    before = patience.seconds
    patience.back_off(1.1)
    assert patience.seconds == before
    patience.back_off(1.3)
    assert patience.seconds == 2 * before
    patience.back_off(1.31)
    assert patience.seconds == 2 * before
    patience.note(0.02, 1.4)
    assert patience.seconds < 2 * before
