"""The pictures of the README and of pages are what their scripts draw."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import pytest

from tests.docs.parsing import ROOT, read

PICTURES = {"picture.py": "overview.svg", "scopes_picture.py": "scopes.svg"}


@pytest.mark.parametrize("script", sorted(PICTURES))
def test_a_picture_is_what_its_script_draws(script: str) -> None:
    command = [sys.executable, str(ROOT / "docs" / script)]
    drawn = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert drawn == read(f"docs/figures/{PICTURES[script]}")
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
