"""Every block of every page is run, and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.parsing import parse_page
from tests.docs.story import pages_with_code, tell
from tests.net.namespaces import why_impossible

PAGES = pages_with_code()
WITH_SPARK = {
    "docs/figures.md",
    "docs/planning.md",
    "docs/spark.md",
    "examples/spark/pipeline/README.md",
}
WITH_MACHINES = "docs/two-machines.md"
NOT_RUN_MAX = 8
"""Blocks that nobody runs, each with its reason on the page."""
LONG_MAX = 13
"""Blocks that take minutes: `make docs-blocks` runs them."""


@pytest.mark.integration
@pytest.mark.parametrize("name", sorted({*PAGES} - {WITH_MACHINES, *WITH_SPARK}))
def test_a_page_is_as_it_says(name: str, tmp_path: Path) -> None:
    tell(name, tmp_path / "page")


@pytest.mark.namespaces
@pytest.mark.skipif(bool(why_impossible()), reason=why_impossible() or "possible")
def test_two_machines_are_as_their_page_says(tmp_path: Path) -> None:
    """With addresses and a bridge between them that exist in namespaces alone."""
    outcomes = tell(WITH_MACHINES, tmp_path / "page")
    assert any(one.block.has("on") and one.result == "run" for one in outcomes)


@pytest.mark.integration
@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(WITH_SPARK))
def test_a_page_with_spark_is_as_it_says(name: str, tmp_path: Path) -> None:
    tell(name, tmp_path / "page")


@pytest.mark.parametrize(("word", "limit"), [("not run", NOT_RUN_MAX), ("long", LONG_MAX)])
def test_few_blocks_are_left_out_and_all_say_why(word: str, limit: int) -> None:
    """The list is short, and cannot grow unnoticed."""
    found = [
        (block.place, block.first(word))
        for name in PAGES
        for block in parse_page(name)
        if block.is_run and block.has(word)
    ]
    assert all(reason for _, reason in found)
    assert len(found) <= limit, found
