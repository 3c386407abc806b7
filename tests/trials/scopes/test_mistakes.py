"""Scopes broken on purpose: every mistake is found out."""

from __future__ import annotations

import pytest

from quicksilver.trials.scopes.checks import ALL
from quicksilver.trials.scopes.trial import run_trial
from tests.trials.scopes.mistakes import MISTAKES, Mistake

pytestmark = pytest.mark.slow

every = pytest.mark.parametrize("mistake", MISTAKES, ids=[each.name for each in MISTAKES])


@every
def test_is_found_out(mistake: Mistake) -> None:
    with mistake.install():
        for seed in range(1, mistake.seeds + 1):
            verdict = run_trial(mistake.scene(seed))
            if mistake.caught_by in {violation.check for violation in verdict.violations}:
                return
    raise AssertionError(f"{mistake.name}: not seen in {mistake.seeds} trials")


SCENES = {each.scene: each for each in MISTAKES}


@pytest.mark.parametrize("mistake", SCENES.values(), ids=[each.name for each in SCENES.values()])
def test_the_same_scene_is_fine_when_nothing_is_broken(mistake: Mistake) -> None:
    """What a check finds in a scene is the mistake, not the scene."""
    verdict = run_trial(mistake.scene(1))
    assert not verdict.violations, [f"{v.check}: {v.what}" for v in verdict.violations[:3]]


def test_every_check_finds_something() -> None:
    """A check that no mistake can trouble is no check."""
    assert {each.caught_by for each in MISTAKES} == {check.name for check in ALL}
