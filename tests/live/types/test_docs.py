"""The examples in docs/types.md are what happens."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "types.md"


def test_every_example_is_what_happens() -> None:
    text = PAGE.read_text(encoding="utf-8").replace("```\n", "\n")
    scope = {"__name__": __name__}
    test = doctest.DocTestParser().get_doctest(text, scope, "types.md", str(PAGE), 0)
    assert len(test.examples) > 30
    report: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert result.failed == 0, "".join(report)


@pytest.mark.slow
def test_the_bench_runs() -> None:
    """It reports and asserts nothing; here only that it still measures something."""
    from bench.live.types import measure_monitoring

    assert all(one.value > 0 for one in measure_monitoring())
