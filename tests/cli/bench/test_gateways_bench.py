"""A tiny run of ``quicksilver bench gateways``."""

from __future__ import annotations

import json

import pytest

from quicksilver.cli.bench.gateways import WAYS
from tests.cli.processes import run


@pytest.mark.integration
@pytest.mark.slow
def test_one_network_and_two_are_measured_and_nothing_is_lost() -> None:
    """Each message has its number, which receivers in the other network check."""
    options = ("--receivers", "2", "--seconds", "0.2", "--rounds", "1", "--json")
    outcome = run("bench", "gateways", *options, timeout_s=120)
    assert outcome.returncode == 0, outcome.stderr
    result = json.loads(outcome.stdout)
    assert result["lost"] == result["disorders"] == 0
    assert all(result[f"messages_per_second_{way}"] > 0 for way in WAYS)
    assert {"outgoing_cpu_us_per_message_two", "incoming_cpu_us_per_message_two"} <= result.keys()
