"""A tiny run of ``quicksilver bench messaging``."""

from __future__ import annotations

import json

import pytest

from quicksilver.cli.bench.messaging import WAYS
from tests.cli.processes import run


@pytest.mark.integration
@pytest.mark.slow
def test_every_way_is_measured_and_nothing_is_lost() -> None:
    outcome = run("bench", "messaging", "--seconds", "0.1", "--json", timeout_s=120)
    assert outcome.returncode == 0, outcome.stderr
    result = json.loads(outcome.stdout)
    assert result["lost"] == 0
    assert all(result[f"messages_per_second_{way}"] > 0 for way in WAYS)
    assert result["request_p50_us"] > 0
