"""Sweeps: what is asked for is run once, and what fails says how to see it again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from quicksilver.analysis.errors import BadInputError
from quicksilver.cli.main import run
from quicksilver.spark.sweep.config import Seeds, Sweep, load_sweep
from quicksilver.spark.sweep.job import count_parts, round_size, run_sweep, summarise
from quicksilver.spark.sweep.running import run_task
from quicksilver.trace.folders import find_runs

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
    assert tasks[0].parameters == {"seconds": 0.2, "nodes": 2}


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


@pytest.mark.slow
def test_a_command_replays_what_was_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same point gives the same numbers; its settings and axes are all in the command."""
    monkeypatch.chdir(tmp_path)
    sweep = load_sweep(write(tmp_path, SCALE))
    outcome = run_task(sweep, next(sweep.tasks()), tmp_path / "traces")
    assert outcome.is_good, outcome.problem
    assert find_runs(tmp_path / "traces") == [outcome.run]
    command = shlex.split(outcome.replay)
    assert command[0] == "quicksilver"
    assert run([*command[1:], "--json"]) == 0
    row = msgspec.json.decode(capsys.readouterr().out)
    real = {"wall_s", "total_wall_s", "node_seconds_per_second"}
    found = msgspec.json.decode(outcome.metrics)
    measured = {name: value for name, value in found.items() if name not in real}
    assert measured
    assert {name: row[name] for name in measured} == measured


def test_only_failures_leave_traces_if_asked_so(tmp_path: Path) -> None:
    """And a simulation that is run twice leaves one."""
    sweep = Sweep(name="x", kind="seeds", traces="failed")
    (task,) = sweep.tasks()
    assert run_task(sweep, task, tmp_path).run == ""
    assert not list(tmp_path.iterdir())
    everything = Sweep(name="x", kind="seeds")
    for _ in range(2):
        assert run_task(everything, task, tmp_path).run == "seed-1"
    assert [each.name for each in tmp_path.iterdir()] == ["run=seed-1"]


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
    sweep = Sweep(name="seeds", kind="seeds", seeds=Seeds(1, 2))
    told: list[tuple[int, int]] = []
    summary = summarise(run_sweep(spark, sweep, tmp_path, lambda *now: told.append(now)))
    assert (summary.simulations, summary.failed) == (2, 0)
    assert told == [(0, 2), (2, 2)]
    assert find_runs(tmp_path / "traces") == ["seed-1", "seed-2"]
    assert not list((tmp_path / "traces").glob("_*"))
    wider = Sweep(name="seeds", kind="seeds", seeds=Seeds(1, 3))
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
