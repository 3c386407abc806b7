"""Whether Spark's own search would find the format, and what doctor says of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from quicksilver.cli import doctor
from quicksilver.spark.sessions import find_python, search


def test_spark_searches_with_the_python_that_its_variables_name(tmp_path: Path) -> None:
    """Else with ``python3`` of the PATH: that of the environment that is active."""
    (tmp_path / "python3").write_text("#!/bin/sh\n")
    (tmp_path / "python3").chmod(0o755)
    path = {"PATH": str(tmp_path)}
    assert find_python(path) == str(tmp_path / "python3")
    assert find_python({**path, "PYSPARK_PYTHON": "p9"}) == "p9"
    assert find_python({**path, "PYSPARK_PYTHON": "p9", "PYSPARK_DRIVER_PYTHON": "p8"}) == "p8"
    assert find_python({"PATH": str(tmp_path / "nowhere")}) == "python3"


@pytest.mark.slow
def test_doctor_says_that_any_session_finds_the_format(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    found = doctor.check_connector()
    assert found.ok
    assert "any SparkSession finds format quicksilver" in found.detail


def test_doctor_says_to_use_our_session_where_the_search_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a virtual environment is not active: another Python is on the PATH."""
    (tmp_path / "python3").write_text("#!/bin/sh\necho it does not have quicksilver\n")
    (tmp_path / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
    found = doctor.check_connector()
    assert not found.ok
    assert f"{tmp_path / 'python3'}: it does not have quicksilver" in found.detail
    assert found.fix.startswith("make sessions with quicksilver.spark.session()")
    assert "activate" in found.fix or "PYSPARK_DRIVER_PYTHON" in found.fix


@pytest.mark.slow
def test_a_neighbour_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark drops all formats then, and says so in a warning that most never see."""
    assert search(sys.executable) is None
    (tmp_path / "pyspark_aaa.py").write_text("raise RuntimeError('no')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    assert search(sys.executable) == "pyspark_aaa cannot be imported: RuntimeError: no"


def test_a_python_that_does_not_run_is_named(tmp_path: Path) -> None:
    problem = search(str(tmp_path / "python"))
    assert problem is not None
    assert "No such file" in problem
