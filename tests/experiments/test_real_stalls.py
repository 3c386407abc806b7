"""Faults done to real processes: what is measured is there, and nothing is lost."""

from __future__ import annotations

import pytest

from quicksilver.experiments.base import Context, ExperimentError, Value
from quicksilver.experiments.catalogue.stalls import Stalls
from quicksilver.experiments.real_stalls import REAL_FAULTS, run_real_stall

SHORT: dict[str, Value] = {
    "nodes": 3,
    "warmup": 0.5,
    "freeze": 1.0,
    "cut": 1.0,
    "watched": 1.5,
    "after": 1.0,
}


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize("fault", ["crash", "freeze", "mute", "gms-restart"])
def test_a_fault_of_real_processes_gives_every_column(fault: str) -> None:
    """One short fault of each way to do it: a signal, orders, another GMS."""
    experiment = Stalls()
    (point,) = experiment.points(
        axes={"fault": [fault], "rate": [100.0]},
        settings=dict(experiment.settings) | SHORT,
        place="real",
        rounds=1,
        seed=1,
    )
    found = experiment.run(point, Context(seed=1))
    assert {column.name for column in experiment.columns} <= found.keys()
    assert found["before_messages_per_second"] > 20
    assert 0 < found["stall_s"] < 10
    assert found["lost_messages"] == found["lost_though_confirmed"] == 0
    assert found["unanswered_messages"] == 0
    assert found["healthy_exclusions"] == 0


def test_what_cannot_be_done_to_processes_is_left_out() -> None:
    experiment = Stalls()
    points = list(
        experiment.points(
            axes=experiment.sweep, settings=experiment.settings, place="real", rounds=1, seed=1
        )
    )
    assert {point.parameters["fault"] for point in points} == set(REAL_FAULTS)
    with pytest.raises(ExperimentError, match="slow cannot be done to real processes"):
        run_real_stall("slow", Stalls.settings)
