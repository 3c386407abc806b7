"""The sweep that docs/planning.md shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quicksilver.experiments.sweep import load_sweep
from quicksilver.trace.folders import find_runs
from tests.docs.parsing import texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.integration
def test_the_sweep_runs(spark: SparkSession, tmp_path: Path) -> None:
    """With a lower rate, in the session of all tests; the page's command starts one of its own."""
    from quicksilver.spark.sweep import run_sweep, summarise

    (text,) = texts("docs/planning.md", "toml")
    assert "seconds = 0.2" in text
    file = tmp_path / "size.toml"
    file.write_text(text.replace("seconds = 0.2", "seconds = 0.1, rate = 1000"), encoding="utf-8")
    summary = summarise(run_sweep(spark, load_sweep(file), tmp_path / "out"))
    assert (summary.simulations, summary.failed) == (9, 0)
    assert len(find_runs(tmp_path / "out" / "traces")) == 9
