"""Engines broken on purpose: every one of them is found out."""

from __future__ import annotations

import sys

import pytest

from quicksilver.multicast.receiving.copies import Copies
from quicksilver.trials.checks import ALL
from quicksilver.trials.trial import run_trial
from tests.trials.broken import BROKEN, Broken
from tests.trials.broken.breaking import patched

UNDER_TEST = tuple(f"quicksilver.{name}" for name in ("core", "multicast", "membership"))

every = pytest.mark.parametrize("broken", BROKEN.values(), ids=list(BROKEN))


@pytest.mark.slow
@every
def test_is_found_out(broken: Broken) -> None:
    """By each of the checks that were made for it, within the trials it says."""
    missed = set(broken.caught_by)
    with broken.install():
        for seed in range(1, broken.seeds + 1):
            verdict = run_trial(broken.scene(seed))
            missed -= {violation.check for violation in verdict.violations}
            if not missed:
                return
    raise AssertionError(f"{broken.name}: not seen by {sorted(missed)} in {broken.seeds} trials")


@pytest.mark.slow
@every
def test_the_same_scene_is_fine_when_nothing_is_broken(broken: Broken) -> None:
    """What a check finds in a scene is the mistake, not the scene."""
    verdict = run_trial(broken.scene(1))
    assert not verdict.violations


def test_every_check_finds_something() -> None:
    """A check that no mistake can trouble is no check."""
    found = {name for broken in BROKEN.values() for name in broken.caught_by}
    assert found == {check.name for check in ALL}


def test_what_was_broken_is_whole_again() -> None:
    """Also when the trial raises."""

    def fail() -> None:
        assert vars(Copies)["keep"] is None
        raise LookupError

    whole = vars(Copies)["keep"]
    with pytest.raises(LookupError), patched(Copies, "keep", None):
        fail()
    assert vars(Copies)["keep"] is whole


@every
def test_breaking_is_undone(broken: Broken) -> None:
    """One broken engine must not spoil the next trial."""
    before = _everything()
    with broken.install():
        assert _everything() != before
    assert _everything() == before


def _everything() -> dict[str, int]:
    """What all names of the code under test stand for, by identity."""
    found: dict[str, int] = {}
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(UNDER_TEST):
            continue
        for key, value in vars(module).items():
            found[f"{name}.{key}"] = id(value)
            if isinstance(value, type) and value.__module__ == name:
                found |= {f"{name}.{key}.{inner}": id(v) for inner, v in vars(value).items()}
    return found
