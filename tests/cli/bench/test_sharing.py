"""A tiny run of ``quicksilver bench controller``."""

from __future__ import annotations

import json

import pytest

from quicksilver.cli.bench.sharing import WAYS
from tests.cli.processes import run


@pytest.mark.integration
@pytest.mark.slow
def test_both_ways_are_measured_and_nothing_is_lost() -> None:
    """The same program runs in both; it counts and checks the order."""
    options = ("--applications", "2", "--seconds", "0.2", "--rounds", "1", "--json")
    outcome = run("bench", "controller", *options, timeout_s=120)
    assert outcome.returncode == 0, outcome.stderr
    result = json.loads(outcome.stdout)
    assert result["lost"] == result["disorders"] == 0
    assert all(result[f"messages_per_second_{way}"] > 0 for way in WAYS)
