"""The declarative pipeline of the examples, run twice by Spark's own command."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.soaking import only_in_soak
from tests.spark.telemetry.test_traces import write

PROJECT = Path(__file__).parents[3] / "examples" / "spark" / "pipeline"
SECONDS_MAX = 600


@only_in_soak
@pytest.mark.spark
def test_a_second_run_takes_in_what_is_new(tmp_path: Path) -> None:
    """Tables and catalogue outlive a run; views have the old and the new."""
    project, traces = tmp_path / "project", tmp_path / "traces"
    shutil.copytree(PROJECT, project)
    settings = project / "spark-pipeline.yml"
    storage = (tmp_path / "storage").as_uri()
    text = settings.read_text(encoding="utf-8")
    assert "file:///tmp/quicksilver-pipeline/storage" in text
    settings.write_text(
        text.replace("file:///tmp/quicksilver-pipeline/storage", storage), encoding="utf-8"
    )
    write(traces, range(1, 6))
    run(project, traces, tmp_path / "tables")
    first = rows_of(tmp_path / "tables", "bronze")
    assert rows_of(tmp_path / "tables", "group_seconds") == 10
    write(traces, range(6, 9))
    run(project, traces, tmp_path / "tables")
    assert rows_of(tmp_path / "tables", "bronze") > first
    assert rows_of(tmp_path / "tables", "group_seconds") == 16
    assert rows_of(tmp_path / "tables", "latencies") > 0
    assert rows_of(tmp_path / "tables", "slow_receivers") == 0


def run(project: Path, traces: Path, tables: Path) -> None:
    """Run the pipeline; what it said is shown if it failed."""
    from quicksilver.spark.java import find_java

    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(tables),
        "spark.ui.enabled": "false",
    }
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    environment = {
        **os.environ,
        "QUICKSILVER_TRACES": str(traces),
        "JAVA_HOME": find_java().home,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run(
        [str(Path(sys.executable).with_name("spark-pipelines")), "run", *conf],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def rows_of(tables: Path, name: str) -> int:
    """Count the rows of a table's files."""
    import pyarrow.parquet

    return sum(
        pyarrow.parquet.read_metadata(path).num_rows for path in (tables / name).rglob("*.parquet")
    )
