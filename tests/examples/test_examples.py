"""Every example runs, against a real GMS, and prints what it promises."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import running_gms

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples"

LAST_LINES = {
    "callback_fast_path": "received 20000 of 20000",
    "hello": "hello from node",
    "overlapping_groups": "hears",
    "pull_source": "reading 4",
    "request_reply": "refused: ValueError",
    "sync_script": "job 2",
    "typed_quotes": "EURCHF 0.9391",
    "views": "alone again",
    "wildcards": "watches prices.eu prices.us prices.us.spot",
    "work_queue": "retained: finished",
}


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


def test_every_example_is_listed_here() -> None:
    """An example that nobody runs goes stale."""
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(LAST_LINES)


@pytest.mark.parametrize("name", sorted(LAST_LINES))
def test_example(name: str, gms: str) -> None:
    """As a reader would start it."""
    outcome = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), gms],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert LAST_LINES[name] in outcome.stdout.splitlines()[-1]


def test_a_topic_spans_the_scopes_of_a_campus() -> None:
    """The cafeteria and the library of dissertation 3.2.9; it starts its own managers."""
    outcome = subprocess.run(
        [sys.executable, str(EXAMPLES / "scopes" / "problem_set.py")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.splitlines() == [
        "menu: soup",
        *["campus/library got: prove it"] * 2,
        *["campus/physics got: prove it"] * 2,
    ]
