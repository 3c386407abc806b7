"""A minute of the soak: real processes, every mishap, every message checked."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from quicksilver.lab.processes import Child
from quicksilver.lab.soak.acts import ActName
from quicksilver.lab.soak.judge import Judge, Life
from quicksilver.lab.soak.records import Heard
from quicksilver.lab.soak.run import Soak, SoakPlan

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ENABLED = ("kill", "restart", "freeze", "cut", "mute", "leave", "gms")
"""Every mishap there is: none is left out because it breaks something."""


def test_everything_promised_holds_among_mishaps(tmp_path: Path) -> None:
    """``make soak`` goes on for half an hour; this is enough to see a mistake."""
    acts = cast("tuple[ActName, ...]", ENABLED)
    plan = SoakPlan(seconds=50, seed=12, workers=6, every_s=2.0, acts=acts, folder=tmp_path)
    report = Soak(plan).run()
    assert report.violations == [], "\n".join([*report.happened, *report.violations[:20]])
    assert sum(report.acts.values()) >= 8
    assert report.debts["delivered"] > 500
    assert report.confirmed_messages > 2_000
    assert report.delivered_messages > report.confirmed_messages


class Deaf(Judge):
    """Does not hear a part of what one worker says that it delivered."""

    def handle_heard(self, life: Life, record: Heard) -> None:
        if life[0] == 2:
            del record.runs[::2]
        super().handle_heard(life, record)


def test_a_loss_is_found(tmp_path: Path) -> None:
    """The way from workers to the report works: what they did not deliver is missed."""
    soak = Soak(SoakPlan(seconds=2, seed=1, workers=3, groups=40, acts=(), folder=tmp_path))
    soak.judge = Deaf()
    report = soak.run()
    assert report.debts["lost"]
    assert all("worker 2.0" in violation for violation in report.violations)


class Tearing(Soak):
    """Hears only the second half of the first thing that one worker says it has heard."""

    is_torn = False

    def _handle_line(self, child: Child, line: str | None) -> None:
        is_first = child.name == "worker-1.0" and not self.is_torn
        if is_first and line is not None and '"event":"heard"' in line:
            self.is_torn = True
            line = line[len(line) // 2 :]
        super()._handle_line(child, line)


def test_a_report_that_goes_astray_is_told(tmp_path: Path) -> None:
    """A last report that nobody could read once looked like a flush that never ended."""
    plan = SoakPlan(seconds=2, seed=1, workers=2, groups=8, acts=(), folder=tmp_path)
    report = Tearing(plan).run()
    assert any("worker-1.0 said what cannot be read" in each for each in report.violations)
