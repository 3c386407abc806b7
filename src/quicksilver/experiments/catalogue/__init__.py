"""The experiments, one a file."""

from __future__ import annotations

from quicksilver.experiments.base import Experiment, ExperimentError
from quicksilver.experiments.catalogue.scale import Scale

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (Scale(),)}
"""All experiments by name, in the order of the dissertation."""


def find_experiment(name: str) -> Experiment:
    """Return an experiment by its name."""
    found = EXPERIMENTS.get(name)
    if found is None:
        known = ", ".join(EXPERIMENTS)
        raise ExperimentError(f"there is no experiment {name[:40]!r}; there are {known}")
    return found
