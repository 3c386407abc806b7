"""What one is told to install exists, and is ours.

The name ``quicksilver`` on the Python package index is somebody else's package: a line that
installs it would install a stranger's code.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from quicksilver import __version__
from quicksilver.stdx.install import DISTRIBUTION, install_line

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
INSTALLS = re.compile(
    r"(?:pip3? install|pipx (?:install|run)|uvx(?: --from)?|uv (?:pip install|add|tool install))"
    r"\s+((?:-\S+\s+)*)['\"]?(?P<what>[A-Za-z0-9_.{}-]*quicksilver[\w.-]*)(?:\[(?P<extras>[\w,{}-]+)\])?"
)
BARE = re.compile(r"(?<![\w./-])['\"`]?quicksilver\[(?P<extras>[a-z,]+)\]")
"""An extra of a package that is not called that."""


def files() -> list[Path]:
    """All text of this repository; logs of measurements show what was typed on their day."""
    outcome = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md", "*.py", "*.toml", "*.sh",
         "Makefile", "deploy"],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    if outcome.returncode:
        pytest.skip("no git here")
    here = Path(__file__).relative_to(ROOT)
    named = [Path(line) for line in outcome.stdout.splitlines()]
    return [ROOT / path for path in named if path.parts[0] != "results" and path != here]


def test_the_constant_is_the_projects_name() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert PROJECT["version"] == __version__
    assert PROJECT["scripts"] == {"quicksilver": "quicksilver.cli.main:main"}


def test_hints_are_lines_for_a_shell() -> None:
    assert install_line() == "pip install quicksilver-multicast"
    assert install_line("cli") == "pip install 'quicksilver-multicast[cli]'"


def test_every_line_that_installs_names_our_package_and_an_extra_that_exists() -> None:
    wrong = []
    for path in files():
        if not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        for found in INSTALLS.finditer(text):
            name, extras = found["what"], (found["extras"] or "").split(",")
            known = {"", *EXTRAS}
            if name != DISTRIBUTION or not all(one in known or "{" in one for one in extras):
                wrong.append(f"{path.relative_to(ROOT)}: {found[0]}")
        wrong += [f"{path.relative_to(ROOT)}: {found[0]}" for found in BARE.finditer(text)]
    assert wrong == []


def test_every_extra_that_source_asks_for_exists() -> None:
    """Hints are made from names of extras."""
    asked = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        asked |= set(re.findall(r"install_line\(['\"](\w+)['\"]\)", text))
        asked |= set(re.findall(r"needing\(\"[^\"]+\", \"(\w+)\"\)", text))
    assert asked
    assert asked <= set(EXTRAS)


def test_no_hint_is_written_by_hand() -> None:
    """One function makes them: the next name changes in one place."""
    found = [
        path.name
        for path in (ROOT / "src").rglob("*.py")
        if "pip install" in path.read_text(encoding="utf-8") and path.name != "install.py"
    ]
    assert found == ["java.py"], "whose first line only names pip"


def test_the_light_extra_is_light() -> None:
    """Recording and tracing need Arrow; Spark is for whoever reads with it."""
    assert [re.split(r"[<>=]", one)[0] for one in EXTRAS["record"]] == ["numpy", "pyarrow"]


def test_make_installs_for_the_demo_only_what_it_needs() -> None:
    """And nothing the second time: the layer's file is newer than pyproject.toml."""
    outcome = subprocess.run(
        ["make", "--dry-run", "demo", "VENV=no-such-environment"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    installs = [line for line in outcome.stdout.splitlines() if "pip install" in line]
    assert len(installs) == 1
    assert installs[0].endswith("-e '.[cli]'")


def test_make_installs_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    for layer in ("cli", "dev", "live", "spark"):
        (tmp_path / f".layer-{layer}").touch()
    for target in ("demo", "lint", "types", "unit", "integration", "spark", "setup"):
        outcome = subprocess.run(
            ["make", "--dry-run", target, f"VENV={tmp_path}"],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        assert "pip install" not in outcome.stdout, target
