"""How long those stand still to whom nothing happened, in virtual time, for each fault.

Four receivers instead of eight and shorter faults; ``quicksilver experiment stalls``
has all of them, and docs/guarantees.md says what follows from it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from quicksilver.experiments.base import Context, ExperimentError, Value
from quicksilver.experiments.catalogue.stalls import Stalls, make_misfortune
from quicksilver.experiments.stalls import FAULTS

pytestmark = pytest.mark.slow

LIGHT: dict[str, Value] = {"rate": 100.0}
BUSY: dict[str, Value] = {"rate": 200.0, "size": 20_000, "window_bytes": 400_000}
"""Fills the sender's window in a tenth of a second: as at full rate, whoever is waited for is
noticed at once, with a tenth of the packets to simulate."""
FAILURE_TIMEOUT_S = 3.0
GRACE_S = 0.5
"""What the GMS gives a node whose connection broke."""
VIEWS_S = 0.3
"""For the GMS to make new views, and for everybody to act on them."""
SMALL: dict[str, Value] = {
    "nodes": 4,
    "warmup": 0.3,
    "freeze": 4.0,
    "cut": 4.0,
    "long_cut": 8.0,
    "lossy": 4.0,
    "watched": 3.5,
    "after": 2.0,
}

STALL_S_MAX: dict[str, tuple[dict[str, Value], float]] = {
    "none": (BUSY, 0.05),
    "crash": (BUSY, 0.3),
    "silent-crash": (BUSY, 0.3),
    "freeze": (BUSY, 0.3),
    "mute": (BUSY, 0.3),
    "slow": (BUSY, 0.3),
    "gms-cut": (LIGHT, 0.3),
    "gms-restart": (BUSY, 0.05),
    "publisher-cut": (LIGHT, 0.05),
    "member-cut": (BUSY, 0.3),
    # Tokens are rarer than at full rate, and so it takes longer to miss them.
    "partition": (BUSY, 0.35),
    "loss-20": (LIGHT, 0.5),
    "loss-50": (LIGHT, 2.0),
}
"""The longest stall for each fault, and the load under which it is: what holds, not what is
wished."""


@cache
def measure(fault: str, seed: int = 1) -> dict[str, Any]:
    """Run one point; several tests look at it."""
    experiment = Stalls()
    settings = dict(experiment.settings) | SMALL | STALL_S_MAX[fault][0]
    (point,) = experiment.points(
        axes={"fault": [fault]}, settings=settings, place="sim", rounds=1, seed=seed
    )
    return experiment.run(point, Context(seed=seed))


@pytest.mark.parametrize("fault", STALL_S_MAX)
def test_the_healthy_go_on(fault: str) -> None:
    """They stand still no longer than is stated; what a publisher sent to which nothing
    happened either they all have; in the end a flush has spoken of each message."""
    found = measure(fault)
    assert found["before_messages_per_second"] > 50
    assert found["stall_s"] <= STALL_S_MAX[fault][1]
    if fault != "publisher-cut":
        assert found["lost_messages"] == 0
    assert found["unanswered_messages"] == 0


@pytest.mark.parametrize("fault", ["crash", "silent-crash", "freeze"])
def test_a_member_that_is_gone_is_out_of_the_views_in_time(fault: str) -> None:
    """A broken connection has a short grace; silence has the failure timeout."""
    limit_s = GRACE_S if fault == "crash" else FAILURE_TIMEOUT_S
    assert measure(fault)["excluded_s"] <= limit_s + VIEWS_S


@pytest.mark.parametrize("fault", ["gms-restart", "loss-20", "mute", "slow"])
def test_nobody_healthy_is_counted_out(fault: str) -> None:
    assert measure(fault)["healthy_exclusions"] == 0


@pytest.mark.parametrize(
    ("fault", "length"),
    [
        ("freeze", "freeze"),
        ("publisher-cut", "cut"),
        ("member-cut", "long_cut"),
        ("partition", "cut"),
    ],
)
def test_whoever_was_counted_out_learns_it_when_it_can_hear_again(fault: str, length: str) -> None:
    """From the first answer of the GMS."""
    assert measure(fault)["learnt_s"] <= float(SMALL[length]) + 0.5


@pytest.mark.parametrize("fault", ["freeze", "slow"])
def test_all_go_as_fast_as_before_when_it_is_over(fault: str) -> None:
    assert measure(fault)["after_percent"] > 90


def test_every_fault_is_measured_here() -> None:
    assert set(STALL_S_MAX) == set(FAULTS)


def test_an_unknown_fault_tells_the_known_ones() -> None:
    with pytest.raises(ExperimentError, match=r"no fault 'rain'.*crash"):
        make_misfortune("rain", Stalls.settings)
