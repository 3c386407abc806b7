"""``quicksilver sub`` with a pattern."""

from __future__ import annotations

import pytest

from tests.cli.processes import check_one_line, run, running, running_gms

pytestmark = pytest.mark.integration


def test_a_pattern_shows_the_messages_of_all_groups_that_match() -> None:
    with running_gms() as gms, running("sub", "prices.*", "--count", "2", "--gms", gms) as sub:
        assert sub.stdout is not None
        for name in ("prices.eu", "prices.us"):
            outcome = run("pub", name, "--gms", gms, given=f"{name}\n")
            assert outcome.returncode == 0, outcome.stderr
        lines = [line for line in sub.stdout if "#0" in line]
        assert [line.split()[0] for line in lines] == ["prices.eu", "prices.us"]


def test_a_pattern_that_makes_no_sense_is_one_line() -> None:
    check_one_line(run("sub", "a.>.b", "--gms", "127.0.0.1:1"), 2, "'>' before its last level")
