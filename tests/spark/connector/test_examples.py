"""The examples with Spark run as a reader would start them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import running_gms
from tests.spark.conftest import TUNED

pytestmark = [pytest.mark.spark, pytest.mark.integration]

EXAMPLES = Path(__file__).parents[3] / "examples" / "spark"


def test_quotes_become_averages_that_a_live_subscriber_sees(tmp_path: Path) -> None:
    """Twelve windows: three symbols, four seconds, each once.

    Its settings are those of the tests, given as a machine gives them: it takes less time.
    """
    settings = "".join(f"{name} {value}\n" for name, value in TUNED.items())
    (tmp_path / "spark-defaults.conf").write_text(settings, encoding="utf-8")
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
    with running_gms() as gms:
        outcome = subprocess.run(
            [sys.executable, str(EXAMPLES / "quotes.py"), gms],
            capture_output=True,
            text=True,
            env=environment,
            timeout=150,
            check=False,
        )
    lines = outcome.stdout.splitlines()
    assert outcome.returncode == 0, outcome.stderr[-2000:]
    assert lines[-1] == "12 averages of 12"
    assert len(set(lines[:-1])) == 12
