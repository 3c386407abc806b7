"""Plans that once broke scopes.

Each file is named after what was wrong. To see one happen:
``quicksilver sim --scopes --plan tests/trials/scopes/plans/NAME.json``.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from quicksilver.trials.scopes.plan import Plan
from quicksilver.trials.scopes.trial import run_trial

PLANS = sorted((Path(__file__).parent / "plans").glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("path", PLANS, ids=[path.stem for path in PLANS])
def test_what_broke_once_holds(path: Path) -> None:
    plan = msgspec.json.decode(path.read_bytes(), type=Plan)
    verdict = run_trial(plan)
    assert not verdict.violations, [f"{v.check}: {v.what}" for v in verdict.violations[:3]]
