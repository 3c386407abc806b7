"""The engine as it is passes trials drawn at random."""

from __future__ import annotations

import pytest

from quicksilver.trials.draw import draw_plan
from quicksilver.trials.trial import run_trial


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 3, 200])
def test_drawn_trial(seed: int) -> None:
    """To look into a failure: ``quicksilver sim --seed``; ``make seeds`` runs the first 80."""
    verdict = run_trial(draw_plan(seed))
    assert not verdict.violations
