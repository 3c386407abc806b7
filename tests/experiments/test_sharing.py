"""Several senders at full rate in virtual time: they fill the link, evenly, without loss."""

from __future__ import annotations

import pytest

from quicksilver.experiments.base import Context
from quicksilver.experiments.machines import MACHINES
from quicksilver.experiments.scenario import Scenario, run_scenario


@pytest.mark.slow
@pytest.mark.parametrize("senders", [2, 8])
def test_senders_at_full_rate_fill_the_link_evenly(senders: int) -> None:
    """Windows that only receivers' buffers bound overflow the switch: 60 % of the link."""
    scenario = Scenario(
        machine=MACHINES["gigabit"], nodes=10, senders=senders, warmup_s=3.0, seconds=1.0
    )
    found = run_scenario(scenario, Context(seed=1))
    assert found["link_percent"] >= 95
    assert found["fairness"] >= 0.9
    assert found["switch_drops"] == 0


@pytest.mark.slow
def test_the_first_second_of_two_senders_is_no_collapse() -> None:
    """Both begin at once, knowing nothing about the link or each other: until they do, a switch
    may drop some packets."""
    scenario = Scenario(machine=MACHINES["gigabit"], nodes=10, senders=2, warmup_s=0.0, seconds=1.0)
    found = run_scenario(scenario, Context(seed=1))
    assert found["link_percent"] >= 65
