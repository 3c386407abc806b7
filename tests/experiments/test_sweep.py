"""Sweeps: what is asked for is run once, and what fails says how to see it again."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
import pytest

from quicksilver.cli.main import run
from quicksilver.experiments.base import ExperimentError
from quicksilver.experiments.sweep import Sweep, load_sweep, run_task
from quicksilver.trace.folders import find_runs

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
        ('name = "a"\nkind = "seeds"\n[axes]\nn = [1]', "no experiment, axes or settings"),
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
    with pytest.raises(ExperimentError, match=problem) as caught:
        load_sweep(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="No such file"):
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
