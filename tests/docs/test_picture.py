"""The picture of the README is what its script draws."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

from tests.docs.parsing import ROOT, read


def test_the_picture_is_what_its_script_draws() -> None:
    command = [sys.executable, str(ROOT / "docs" / "picture.py")]
    drawn = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert drawn == read("docs/figures/overview.svg")
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
