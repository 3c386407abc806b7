"""The class-data archive: found for what it was made for, harmless where it does not fit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from quicksilver.spark.archive import archive_options, archive_stem, find_archive, make_archive
from quicksilver.spark.java import Java, find_java
from tests.spark.soaking import only_in_soak

START = """
from quicksilver.spark.session import make_session
spark = make_session("archive", master="local[1]")
print(spark.range(10).count(), spark.conf.get("spark.driver.extraJavaOptions", ""))
spark.stop()
"""


def fake_java(home: Path, release: str) -> Java:
    home.mkdir()
    (home / "release").write_text(release)
    return Java(str(home), 17, "JAVA_HOME")


def test_another_java_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update in place is another Java, too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one = fake_java(tmp_path / "one", 'JAVA_VERSION="17.0.1"')
    two = fake_java(tmp_path / "two", 'JAVA_VERSION="17.0.1"')
    first = archive_stem(one)
    assert first.parent == tmp_path / "quicksilver"
    assert archive_stem(two) != first
    assert archive_stem(one) == first
    (tmp_path / "one" / "release").write_text('JAVA_VERSION="17.0.2"')
    assert archive_stem(one) != first


def test_there_is_none_until_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    java = fake_java(tmp_path / "java", "x")
    assert find_archive(java) is None
    stem = archive_stem(java)
    stem.parent.mkdir()
    path = stem.with_name(f"{stem.name}-7.jsa")
    path.write_bytes(b"archive")
    assert find_archive(java) == path
    path.write_bytes(b"arch")  # a Java that maps half a file dies
    assert find_archive(java) is None


def start(cache: Path) -> str:
    """Start a session of ours; return what it counted and its Java options."""
    done = subprocess.run(
        [sys.executable, "-c", START],
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        timeout=120,
        check=True,
    )
    return done.stdout.strip()


@only_in_soak
@pytest.mark.spark
@pytest.mark.integration
def test_sessions_use_it_and_survive_what_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off, it is passed over; with something else in it, Java goes on without it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = make_archive(find_java())
    assert start(tmp_path) == f"10 {archive_options(path)}"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3])
    said = start(tmp_path)
    assert said.startswith("10 ")
    assert "SharedArchiveFile" not in said
    path.write_bytes(b"\0" * len(whole))
    assert start(tmp_path) == f"10 {archive_options(path)}"
