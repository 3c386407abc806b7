"""``quicksilver sim``: one seed, many seeds, plans, failures, one-line errors."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from quicksilver.cli.main import run
from quicksilver.trials.draw import draw_plan
from tests.trials.broken import BROKEN


def test_one_seed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "--seed", "16", "--json"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert {"digest", "messages", "faults", "violations"} <= set(verdict)
    assert verdict["violations"] == []
    assert verdict["messages"] > 0
    assert verdict["faults"] > 0


def test_a_seed_tells_its_faults(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "--seed", "16"]) == 0
    out = capsys.readouterr().out
    assert "no violation" in out
    assert "digest " in out


def test_several_seeds_end_with_a_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "--seeds", "2", "--first-seed", "16", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 seeds, 0 with violations")


@pytest.mark.slow
def test_a_violation_fails_and_names_the_replay(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim", "--seeds", "1", "--first-seed", "16", "--jobs", "1"]
    with BROKEN["leaks"].install():
        assert run(arguments) == 1
    captured = capsys.readouterr()
    assert "1 with violations" in captured.out
    assert "quicksilver sim --seed 16" in captured.err


@pytest.mark.slow
def test_a_shrunk_plan_can_be_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn, path = tmp_path / "drawn.json", tmp_path / "plan.json"
    plan = draw_plan(16)
    # Two faults of many: each that is left out costs a run.
    drawn.write_bytes(msgspec.json.encode(msgspec.structs.replace(plan, faults=plan.faults[:2])))
    with BROKEN["leaks"].install():
        assert run(["sim", "--plan", str(drawn), "--shrink", "--write-plan", str(path)]) == 1
        assert json.loads(path.read_text(encoding="utf-8"))["faults"] == []
        assert run(["sim", "--plan", str(path)]) == 1
    assert run(["sim", "--plan", str(path)]) == 0
    assert "VIOLATED cleanup" in capsys.readouterr().out


@pytest.mark.slow
def test_a_hunt_stops_at_the_first_failure_if_asked_so(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim", "--seeds", "3", "--first-seed", "16", "--jobs", "1", "--json"]
    with BROKEN["leaks"].install():
        assert run([*arguments, "--stop"]) == 1
    assert json.loads(capsys.readouterr().out)["seeds"] == 1


@pytest.mark.slow
def test_a_hunt_goes_on_where_it_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Failures that are kept still fail it."""
    arguments = ["sim", "--jobs", "1", "--json", "--out", str(tmp_path / "hunt" / "seeds.jsonl")]
    with BROKEN["leaks"].install():
        assert run([*arguments, "--seeds", "1", "--first-seed", "16"]) == 1
    capsys.readouterr()
    assert run([*arguments, "--seeds", "2", "--first-seed", "16"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["failed"] == [16]
    assert found["seeds"] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seed", "1", "--stop"], "for many seeds"),
        (["--shrink"], "--seed or --plan"),
        (["--seeds", "0"], "--seeds"),
        (["--seed", "1", "--plan", "README.md"], "give one of them"),
        (["--plan", "README.md"], "not a plan"),
        (["--plan", "/nowhere/plan.json"], "/nowhere/plan.json"),
    ],
)
def test_mistakes_get_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sim", *arguments]) != 0
    err = capsys.readouterr().err
    assert words in err
    assert len(err.strip().splitlines()) == 1


class TestScopes:
    def test_a_seed_tells_its_scopes_and_faults(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["sim", "--scopes", "--seed", "9"]) == 0
        out = capsys.readouterr().out
        assert "scopes root (" in out
        assert "Leave for_s=" in out
        assert "no violation" in out

    def test_a_plan_can_be_written_and_run(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        plan = str(tmp_path / "plan.json")
        run(["sim", "--scopes", "--seed", "9", "--write-plan", plan, "--json"])
        first = json.loads(capsys.readouterr().out)
        assert run(["sim", "--scopes", "--plan", plan, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["digest"] == first["digest"]

    def test_a_plan_of_a_cluster_is_none_of_scopes(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "plan.json"
        path.write_bytes(msgspec.json.encode(draw_plan(1)))
        assert run(["sim", "--scopes", "--plan", str(path)]) == 1
        assert "is not a plan of a trial" in capsys.readouterr().err
