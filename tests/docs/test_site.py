"""The site has every page and every public name, and can be built where its extra is installed."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

import quicksilver
from quicksilver.node import group_base, node_base
from tests.docs.parsing import ROOT, read

API = read("docs/api.md")
PAGES = re.findall(r"^ +- (\S+\.md)$", read("mkdocs.yml"), re.MULTILINE)


def test_the_site_has_every_page() -> None:
    """And no page that does not exist; logs of results are reached through their index."""
    assert all((ROOT / page).is_file() for page in PAGES)
    assert {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} <= set(PAGES)


def test_the_reference_has_every_public_name() -> None:
    named = re.findall(r"^::: quicksilver\.(\w+)$", API, re.MULTILINE)
    assert set(named) == set(quicksilver.__all__)


@pytest.mark.parametrize("name", ["Node", "Group", "sync"])
def test_the_reference_hides_what_completion_hides(name: str) -> None:
    """Methods for the layers above are no part of the interface."""
    pattern = rf"^::: quicksilver\.{name}\n    options:\n      filters: (.*)$"
    found = re.search(pattern, API, re.MULTILINE)
    assert found is not None
    hidden = [one.removeprefix("!") for one in json.loads(found[1])]
    for inner in (*group_base.INNER, *node_base.INNER, "fail_on_core"):
        assert any(re.search(one, inner) for one in hidden), inner


def test_the_site_needs_nothing_from_elsewhere() -> None:
    """Fonts are the only thing that the theme would fetch by itself."""
    assert "font: false" in read("mkdocs.yml")


@pytest.mark.integration
@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="extra docs not installed")
def test_the_site_is_built(tmp_path: Path) -> None:
    """In strict mode: a broken link, and a name without a docstring page, fail."""
    spec = importlib.util.spec_from_file_location("site_builder", ROOT / "docs" / "site.py")
    assert spec is not None
    assert spec.loader is not None
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    assert builder.build(tmp_path / "site", tmp_path / "pages") == 0
    reference = (tmp_path / "site" / "docs" / "api.html").read_text(encoding="utf-8")
    assert 'id="quicksilver.connect"' in reference
    assert 'id="quicksilver.Group.on_message"' in reference
    assert 'id="quicksilver.Group.notify"' not in reference
    assert not re.findall(r'<(?:script|link)[^>]+(?:src|href)="https?://', reference)
