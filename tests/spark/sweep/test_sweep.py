"""Sweeps: what is asked for is run once, and what fails says how to see it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quicksilver.spark.errors import BadInputError
from quicksilver.spark.sweep.config import Seeds, Sweep, load_sweep
from quicksilver.spark.sweep.job import run_sweep, summarise
from quicksilver.spark.sweep.running import run_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE = """
name = "size"
kind = "experiment"
experiment = "scale"
seeds = { first = 4, count = 2 }
settings = { seconds = 0.2 }
[axes]
nodes = [2, 3]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "sweep.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_combination_is_a_task_with_a_key_of_its_own(tmp_path: Path) -> None:
    tasks = list(load_sweep(write(tmp_path, SCALE)).tasks())
    assert len(tasks) == len({task.key for task in tasks}) == 4
    assert tasks[0].replay == "quicksilver experiment scale --sim --seed 4 --nodes 2"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name = 1", "Expected `str`"),
        ("name = [", "not TOML"),
        ('name = "a"\nkind = "experiment"', "say which experiment"),
        ('name = "a"\nkind = "seeds"\n[axes]\nn = [1]', "draws its parameters"),
        ('name = "a"\nkind = "seeds"\nspeed = 1', "unknown field"),
        ('name = "a"\nkind = "experiment"\nexperiment = "scale"\n[axes]\nn = []', "no values"),
        (
            (
                'name = "a"\nkind = "experiment"\nexperiment = "x"\n'
                "seeds = { count = 1000000 }\n[axes]\nn = [1, 2]"
            ),
            "more than",
        ),
    ],
)
def test_a_bad_file_is_one_line(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadInputError, match=problem) as caught:
        load_sweep(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="No such file"):
        load_sweep(tmp_path / "none.toml")


def test_what_a_simulation_raises_is_its_outcome() -> None:
    sweep = Sweep(name="x", kind="experiment", experiment="scale", settings={"wings": 2})
    (task,) = sweep.tasks()
    outcome = run_task(sweep, task)
    assert not outcome.is_good
    assert outcome.problem == "ExperimentError: scale has no parameter 'wings'"


@pytest.mark.spark
def test_a_sweep_runs_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    sweep = Sweep(name="seeds", kind="seeds", seeds=Seeds(1, 2))
    told: list[tuple[int, int]] = []
    summary = summarise(run_sweep(spark, sweep, tmp_path, lambda *now: told.append(now)))
    assert (summary.simulations, summary.failed) == (2, 0)
    assert told == [(0, 2), (2, 2)]
    wider = Sweep(name="seeds", kind="seeds", seeds=Seeds(1, 3))
    told.clear()
    assert summarise(run_sweep(spark, wider, tmp_path, lambda *now: told.append(now))).failed == 0
    assert told == [(2, 3), (3, 3)]


@pytest.mark.spark
def test_failures_are_listed_with_their_commands(spark: SparkSession, tmp_path: Path) -> None:
    sweep = Sweep(name="bad", kind="experiment", experiment="nothing", seeds=Seeds(7, 1))
    summary = summarise(run_sweep(spark, sweep, tmp_path))
    assert summary.failed == 1
    assert summary.failures[0]["replay"] == "quicksilver experiment nothing --sim --seed 7"
