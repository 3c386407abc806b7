"""The walks of ARCHITECTURE.md name functions that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")
WALKS = TEXT.partition("## Walks")[2].partition("\n## ")[0]
NAMES = sorted(set(re.findall(r"`([a-z_]+\.[A-Za-z_.]+)`", WALKS)))


def find(name: str) -> object:
    """Return what a dotted name below ``quicksilver`` stands for; raises what is missing."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = import_module("quicksilver." + ".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise AssertionError(name)


def test_there_are_four_walks_of_several_steps() -> None:
    titles = re.findall(r"^\*\*(.+?)\*\*", WALKS, re.MULTILINE)
    assert titles == ["A message", "A lost packet", "A token", "A join"]
    assert len(re.findall(r"^\d\. ", WALKS, re.MULTILINE)) >= 24


@pytest.mark.parametrize("name", NAMES)
def test_a_step_names_something_that_exists(name: str) -> None:
    find(name)
