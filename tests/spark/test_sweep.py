"""Sweeps on Spark: what is missing is run, in tasks of a good size."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quicksilver.experiments.sweep import Outcome, Seeds, Sweep
from quicksilver.spark.sweep import OUTCOMES, count_parts, round_size, run_sweep, summarise
from quicksilver.trace.folders import find_runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_columns_are_an_outcomes_fields() -> None:
    columns = [part.split()[0] for part in OUTCOMES.split(",")]
    assert columns == list(Outcome.__struct_fields__)


@pytest.mark.parametrize(
    ("mean_s", "simulations", "parts"), [(None, 8, 4), (0.01, 2000, 13), (0.4, 50, 13), (30, 2, 2)]
)
def test_tasks_are_long_enough_to_be_worth_it(
    mean_s: float | None, simulations: int, parts: int
) -> None:
    """On two cores: rounds of ten seconds, tasks of more than one, a long simulation each alone."""
    assert round_size(mean_s, 2) == simulations
    assert count_parts(simulations, mean_s, 2) == parts


@pytest.mark.spark
def test_a_sweep_runs_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    sweep = Sweep(name="seeds", kind="seeds", seeds=Seeds(5, 2))
    told: list[tuple[int, int]] = []
    summary = summarise(run_sweep(spark, sweep, tmp_path, lambda *now: told.append(now)))
    assert (summary.simulations, summary.failed) == (2, 0)
    assert told == [(0, 2), (2, 2)]
    assert find_runs(tmp_path / "traces") == ["seed-5", "seed-6"]
    assert not list((tmp_path / "traces").glob("_*"))
    wider = Sweep(name="seeds", kind="seeds", seeds=Seeds(5, 3))
    told.clear()
    assert summarise(run_sweep(spark, wider, tmp_path, lambda *now: told.append(now))).failed == 0
    assert told == [(2, 3), (3, 3)]


@pytest.mark.spark
def test_failures_are_listed_with_their_commands(spark: SparkSession, tmp_path: Path) -> None:
    sweep = Sweep(name="bad", kind="experiment", experiment="nothing", seeds=Seeds(7, 1))
    (tmp_path / "results.parquet").mkdir()  # as one has it that was stopped in its first round
    summary = summarise(run_sweep(spark, sweep, tmp_path))
    assert summary.failed == 1
    command = "quicksilver experiment nothing --sim --seed 7 --fresh --out out/replay"
    assert summary.failures[0]["replay"] == command
