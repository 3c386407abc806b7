"""The wheel, in fresh environments: what users get works, with nothing of this repository.

The running Python is tried with the other tests; ``make wheels`` tries 3.11, 3.12 and 3.13.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.11", "3.12", "3.13")
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"
ASKED = os.environ.get("QUICKSILVER_PYTHONS", RUNNING).split()
"""Versions to try; ``make wheels`` names all."""


def find_python(version: str) -> Path:
    """An interpreter of a version: the running one, on the PATH, or of pyenv."""
    if version == RUNNING:
        return Path(sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))
    on_path = shutil.which(f"python{version}")
    candidates = [*found, *([Path(on_path)] if on_path else [])]
    for candidate in candidates:
        if not subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode:
            return candidate
    pytest.skip(f"there is no Python {version} here")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree; built from what is under version control, as a release is."""
    folder = tmp_path_factory.mktemp("dist")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", folder, ROOT], check=True, timeout=300)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(params=VERSIONS)
def home(request: pytest.FixtureRequest, wheel: Path, tmp_path: Path) -> Path:
    """A fresh environment with the wheel and the extra of the commands."""
    if request.param not in ASKED:
        pytest.skip("make wheels tries this version")
    subprocess.run([find_python(request.param), "-m", "venv", tmp_path / "venv"], check=True)
    pip = [tmp_path / "venv" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"quicksilver-multicast[cli,record] @ {wheel.as_uri()}"], check=True)
    return tmp_path


def call(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the installed command, far from this repository."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(
        [home / "venv" / "bin" / "quicksilver", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=home,
        env=environment,
        check=False,
    )


def test_the_wheel_has_the_packages_and_no_tests(wheel: Path) -> None:
    assert wheel.name.startswith("quicksilver_multicast-")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        (metadata,) = [name for name in names if name.endswith("METADATA")]
        head = opened.read(metadata).decode()
    tops = {name.partition("/")[0] for name in names}
    assert {one for one in tops if not one.endswith(".dist-info")} == {
        "pyspark_quicksilver",
        "quicksilver",
    }
    assert "quicksilver/py.typed" in names
    assert "quicksilver/__main__.py" in names
    assert "Name: quicksilver-multicast\n" in head
    assert "Requires-Dist: quicksilver[" not in head


def test_the_demo_runs(home: Path) -> None:
    """Every command's module is in the wheel, and the demo needs no other extra."""
    outcome = call(home, "demo", "--messages", "500", "--json")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert json.loads(outcome.stdout)["complete"] is True
    # Traces and recordings need Arrow alone.
    traced = call(home, "sim", "--seed", "7", "--trace", "traces", "--json")
    assert traced.returncode == 0, traced.stderr
    assert list(home.glob("traces/run=*/**/*.parquet"))
    recorded = call(home, "record", "a", "--path", "recording", "--gms", "nowhere", "--json")
    assert "is not a GMS address" in json.loads(recorded.stderr)["text"]
    # What needs more says which.
    for command, extra in (("model predict --parameters x --nodes 1", "analysis"),):
        refused = call(home, *command.split())
        assert refused.returncode == 1
        assert f"pip install 'quicksilver-multicast[{extra}]'" in refused.stderr
    doctor = call(home, "doctor")
    assert "'quicksilver-multicast[spark]'" in "".join(doctor.stdout.split("\n"))
    assert call(home, "--help").returncode == 0
