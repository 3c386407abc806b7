"""When the views of a node next have something to do."""

from __future__ import annotations

import pytest

from quicksilver.multicast.repair.alarms import RegionAlarms
from quicksilver.trials.draw import Plan, draw_plan
from quicksilver.trials.trial import run_trial
from tests.trials.broken.breaking import losses, scene


@pytest.mark.slow
@pytest.mark.parametrize(
    "plan", [draw_plan(5), scene(*losses(1, 2))(1)], ids=["many faults", "losses"]
)
def test_to_ask_the_views_that_were_touched_is_as_good_as_to_ask_all(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that does not touch its view would be an alarm that never rings."""
    asked_touched = RegionAlarms.next
    views: list[int] = []

    def ask_all(self: RegionAlarms) -> float | None:
        found = asked_touched(self)
        times = [recovery.next_timeout() for recovery in self._recoveries.values()]
        assert found == min((time for time in times if time is not None), default=None)
        views.append(len(times))
        return found

    monkeypatch.setattr(RegionAlarms, "next", ask_all)
    assert not run_trial(plan).violations
    assert len(views) > 1000
