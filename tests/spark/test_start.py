"""What an installed quicksilver does for sessions that it never sees."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from quicksilver.spark.search import search

SRC = Path(__file__).parents[2] / "src"
GATEWAY = """
import os
def launch_gateway(conf=None):
    return conf, os.environ.get("JAVA_HOME"), os.environ.get("PYSPARK_DRIVER_PYTHON")
"""
LAUNCH = """
import quicksilver_spark_start, pyspark.java_gateway, pyspark.other
print(*pyspark.java_gateway.launch_gateway(conf=7), sep="|")
"""


def fake_pyspark(folder: Path, is_zip: bool) -> Path:
    """A package with the one function that matters, as files or as Spark's workers get it."""
    files = {"__init__.py": "", "java_gateway.py": GATEWAY, "other.py": ""}
    if is_zip:
        with zipfile.ZipFile(folder / "pyspark.zip", "w") as archive:
            for name, text in files.items():
                archive.writestr(f"pyspark/{name}", text)
        return folder / "pyspark.zip"
    (folder / "pyspark").mkdir()
    for name, text in files.items():
        (folder / "pyspark" / name).write_text(text)
    return folder


def launch(folder: Path, **environment: str) -> list[str]:
    """Start a gateway in a process of its own; return what it was given."""
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{folder}:{SRC}", "HOME": str(folder), **environment},
        check=True,
    )
    return done.stdout.strip().split("|")


@pytest.mark.slow
@pytest.mark.parametrize("is_zip", [False, True])
def test_java_and_python_are_named_where_nobody_did(tmp_path: Path, is_zip: bool) -> None:
    """An empty PATH has neither."""
    place = fake_pyspark(tmp_path, is_zip)
    conf, java, python = launch(place, PATH=str(tmp_path))
    assert conf == "7"
    if not is_zip:
        assert java.startswith(str(tmp_path / ".cache" / "quicksilver"))
    else:  # no folder can be made in the file that is its home
        assert "quicksilver-java-" in java
    assert python == sys.executable


@pytest.mark.slow
def test_what_is_set_stays_as_it_is(tmp_path: Path) -> None:
    """Also an unset variable, if the one that decides is set, or all is turned off."""
    place = fake_pyspark(tmp_path, is_zip=False)
    given = {"PATH": str(tmp_path), "JAVA_HOME": "/mine", "PYSPARK_PYTHON": "python9"}
    assert launch(place, **given) == ["7", "/mine", "None"]
    off = launch(place, PATH=str(tmp_path), QUICKSILVER_SPARK_START="off")
    assert off == ["7", "None", "None"]
    active = f"{Path(sys.executable).parent}:{tmp_path}"
    assert launch(place, PATH=active, JAVA_HOME="/mine") == ["7", "/mine", "None"]


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
