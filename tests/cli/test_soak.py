"""``quicksilver soak``: its report, its exit code, its mistakes in one line.

The soak itself is in tests/lab/soak; here one is played that has ended already.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from quicksilver.cli.main import run
from quicksilver.lab.soak.report import SoakReport, Vitals, summarise_process
from quicksilver.lab.soak.run import Soak, SoakPlan


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[SoakPlan]:
    """Soaks end at once; one with seed 13 has found something. Returns what was to be run."""
    asked: list[SoakPlan] = []

    def play(soak: Soak) -> SoakReport:
        plan = soak.plan
        asked.append(plan)
        plan.folder.mkdir(exist_ok=True)
        samples = [Vitals(at, (40 + at) << 20, 8, 3) for at in range(10)]
        return SoakReport(
            seed=plan.seed,
            seconds=plan.seconds,
            acts={"kill": 2, "gms": 1},
            lives=4,
            confirmed_messages=1200,
            unconfirmed_messages=12,
            delivered_messages=3600,
            debts={"delivered": 90},
            flush_s_max=1.5,
            flush_problems={"ExcludedError": 1},
            exclusions=1,
            unprovoked_exclusions=0,
            processes=[summarise_process("worker-0.0", samples)],
            vitals={"worker-0.0": samples, "gms.0": samples[:5], "gms.1": samples[6:]},
            happened=["    1.00 s  kill worker 2.0 for 1.0 s"],
            violations=["it came twice"] * 11 if plan.seed == 13 else [],
        )

    monkeypatch.setattr(Soak, "run", play)
    return asked


@pytest.mark.slow
def test_a_soak_that_held_is_told_on_one_screen_and_kept(
    plans: list[SoakPlan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "soak"
    assert run(["soak", "--seconds", "30", "--seed", "7", "--out", str(out)]) == 0
    told = capsys.readouterr()
    assert "seed 7" in told.err
    assert "all checks passed" in told.out
    assert len(told.out.splitlines()) <= 24
    kept = msgspec.json.decode((out / "report.json").read_bytes(), type=SoakReport)
    assert kept.delivered_messages == 3600
    drawn = (out / "soak-memory.svg").read_text(encoding="utf-8")
    assert "gms" in drawn
    assert "worker-0" in drawn
    assert plans[0].groups == 1000


def test_a_violation_fails_and_says_how_to_repeat_it(
    plans: list[SoakPlan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--seconds", "30", "--seed", "13", "--acts", "gms,kill", "--out", str(tmp_path)]
    assert run(["soak", *arguments]) == 1
    told = capsys.readouterr()
    assert "NO  it came twice" in told.out
    assert "and 1 more" in told.out
    assert "quicksilver soak --seed 13 --seconds 30 --nodes 7 --groups 1000" in told.err
    assert "--acts gms,kill" in told.err
    assert plans[0].acts == ("kill", "gms")


def test_the_report_is_for_programs_too(
    plans: list[SoakPlan], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["soak", "--seed", "13", "--json", "--out", str(tmp_path)]) == 1
    assert len(msgspec.json.decode(capsys.readouterr().out, type=SoakReport).violations) == 11
    assert plans[0].seconds == 60


def test_an_unknown_mishap_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["soak", "--acts", "kill,rain"]) == 2
    assert "there are kill, restart, freeze, cut, mute, leave, gms" in capsys.readouterr().err
