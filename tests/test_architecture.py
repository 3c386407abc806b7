"""The walks of ARCHITECTURE.md name functions that exist, and nothing received becomes code."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
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


def test_there_are_walks_of_several_steps() -> None:
    titles = re.findall(r"^\*\*(.+?)\*\*", WALKS, re.MULTILINE)
    across = "A message across networks"
    assert titles == ["A message", "A lost packet", "A token", "A join", across]
    assert len(re.findall(r"^\d\. ", WALKS, re.MULTILINE)) >= 30


@pytest.mark.parametrize("name", NAMES)
def test_a_step_names_something_that_exists(name: str) -> None:
    find(name)


CODE_OF_TEXT = {
    "live/references/library.py": {"exec"},  # libraries that the owner allows, by checksum
    "live/types/plain_forms.py": {"eval"},  # identifiers of declared types, checked before
}
HOLD_CODE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "eval", "exec"}


def test_nothing_that_arrives_becomes_code() -> None:
    """No format that can hold code is read, and code is made of text in two places only."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "src" / "quicksilver").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                names = [node.func.id]
            if HOLD_CODE.intersection(names):
                where = str(path.relative_to(ROOT / "src" / "quicksilver"))
                found.setdefault(where, set()).update(HOLD_CODE.intersection(names))
    assert found == CODE_OF_TEXT
