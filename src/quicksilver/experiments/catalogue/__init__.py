"""The experiments, one subject a file."""

from __future__ import annotations

from quicksilver.experiments.base import Experiment, ExperimentError
from quicksilver.experiments.catalogue.agree import Agree
from quicksilver.experiments.catalogue.calibrate import Calibrate
from quicksilver.experiments.catalogue.freeze import Freeze
from quicksilver.experiments.catalogue.groups import Groups
from quicksilver.experiments.catalogue.light import Light
from quicksilver.experiments.catalogue.members import Members
from quicksilver.experiments.catalogue.memory import Memory
from quicksilver.experiments.catalogue.overload import Overload
from quicksilver.experiments.catalogue.perturbed import Loss, Sleep
from quicksilver.experiments.catalogue.rain import HeavyLoss, Rain
from quicksilver.experiments.catalogue.reconfiguration import Churn, Crash, Joins
from quicksilver.experiments.catalogue.scale import Scale
from quicksilver.experiments.catalogue.scopes import Scopes
from quicksilver.experiments.catalogue.stalls import Stalls
from quicksilver.experiments.catalogue.tokens import Tokens
from quicksilver.experiments.catalogue.tuning import Feedback, Replication, TokenRate

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Scale(),
        Tokens(),
        TokenRate(),
        Feedback(),
        Replication(),
        Sleep(),
        Loss(),
        Rain(),
        HeavyLoss(),
        Light(),
        Groups(),
        Overload(),
        Freeze(),
        Crash(),
        Joins(),
        Churn(),
        Stalls(),
        Members(),
        Memory(),
        Scopes(),
        Calibrate(),
        Agree(),
    )
}
"""All experiments by name, in the order of the dissertation."""


def find_experiment(name: str) -> Experiment:
    """Return an experiment by its name."""
    found = EXPERIMENTS.get(name)
    if found is None:
        known = ", ".join(EXPERIMENTS)
        raise ExperimentError(f"there is no experiment {name[:40]!r}; there are {known}")
    return found
