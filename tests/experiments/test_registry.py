"""Every experiment says what it is, and its declaration fits together."""

from __future__ import annotations

import pytest

from quicksilver.experiments.base import Experiment, ExperimentError
from quicksilver.experiments.catalogue import EXPERIMENTS, find_experiment

NAMES = (
    "scale",
    "tokens",
    "tokenrate",
    "feedback",
    "replication",
    "sleep",
    "loss",
    "rain",
    "heavy-loss",
    "light",
    "groups",
    "overload",
    "freeze",
    "crash",
    "joins",
    "churn",
    "stalls",
    "members",
    "memory",
    "scopes",
    "calibrate",
    "agree",
)


def test_every_experiment_is_there_in_its_order() -> None:
    assert tuple(EXPERIMENTS) == NAMES


def test_an_unknown_name_tells_the_known_ones() -> None:
    with pytest.raises(ExperimentError, match=r"there is no experiment 'speed'.*scale"):
        find_experiment("speed")


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=NAMES)
class TestDeclaration:
    """What the command, the store and the summary rely on."""

    def test_it_says_what_it_is(self, experiment: Experiment) -> None:
        for text in (experiment.figures, experiment.title, experiment.varies):
            assert text
        assert len(experiment.claim) > 40
        assert not [text for text in experiment.claims.values() if text.endswith(".")]
        assert experiment.places
        assert experiment.columns

    def test_quick_axes_are_axes_and_quick_settings_are_settings(
        self, experiment: Experiment
    ) -> None:
        assert set(experiment.quick) == set(experiment.sweep)
        assert set(experiment.quick_settings) <= set(experiment.settings)

    def test_values_of_an_axis_have_one_type(self, experiment: Experiment) -> None:
        """``--set`` reads a value as the type of the first one."""
        for values in (*experiment.sweep.values(), *experiment.quick.values()):
            assert len({type(value) for value in values}) == 1

    def test_points_have_names_of_their_own(self, experiment: Experiment) -> None:
        points = list(
            experiment.points(
                axes=experiment.sweep, settings=experiment.settings, place=None, rounds=2, seed=1
            )
        )
        assert points
        assert len({point.id for point in points}) == len(points)
        for point in points:
            assert point.place in experiment.places
            assert "/" not in point.id

    def test_nothing_measured_yields_no_verdict(self, experiment: Experiment) -> None:
        assert not [finding for finding in experiment.findings([]) if finding.holds]
