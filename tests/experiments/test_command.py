"""``quicksilver experiment`` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from quicksilver.cli.main import run
from quicksilver.experiments.catalogue import EXPERIMENTS

TINY = ("--seconds", "0.05", "--set", "warmup=0.02", "--set", "machine=gigabit")


def test_the_list_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiment", "list"]) == 0
    text = capsys.readouterr().out
    for name in EXPERIMENTS:
        assert name in text


def test_the_list_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiment", "list", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["name"] for row in rows] == list(EXPERIMENTS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["speed"], "there is no experiment 'speed'"),
        (["scale", "--nodes", "two"], "expected a whole number"),
        (["scale", "--nodes", "-1"], "must not be negative"),
        (["scale", "--set", "colour=red"], "has no setting 'colour'"),
        (["scale", "--set", "colour"], "KEY=VALUE"),
        (["scale", "--real"], "scale runs only in: sim"),
        (["scale", "--real", "--sim"], "exclude each other"),
        (["scale", "--model", "/nonexistent"], "No such file"),
        (["scale", "--set", "machine=toaster"], "machine 'toaster' is unknown"),
        (["scale", "--out", "/dev/null/x"], "choose another --out"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["experiment", *arguments]) != 0
    lines = capsys.readouterr().err.splitlines()
    assert words in lines[-1]
    assert not any("Traceback" in line for line in lines)


@pytest.mark.slow
def test_a_sweep_writes_everything_and_goes_on_where_it_stopped(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "results"
    common = ["experiment", "scale", "--senders", "1", *TINY, "--out", str(folder)]
    assert run([*common, "--nodes", "2"]) == 0
    assert "scale 1/1" in capsys.readouterr().err
    assert run([*common, "--nodes", "2,3", "--json"]) == 0
    captured = capsys.readouterr()
    assert "nodes=2" not in captured.err
    rows = [json.loads(line) for line in captured.out.splitlines()]
    assert [row["nodes"] for row in rows] == [2, 3]
    assert {row["place"] for row in rows} == {"sim"}
    names = {path.name for path in folder.iterdir()}
    assert names == {"run.json", "points.jsonl", "summary.md", "traces"}
    for row in rows:
        assert (folder / "traces" / f"run={row['point']}" / "_timeline.jsonl").exists()
    assert "| 3 | 1 | sim |" in (folder / "summary.md").read_text(encoding="utf-8")
