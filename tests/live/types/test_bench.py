"""The bench of the types runs; tests/docs runs the examples of docs/types.md."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_the_bench_runs() -> None:
    """It reports and asserts nothing; here only that it still measures something."""
    from bench.live.types import measure_monitoring

    assert all(one.value > 0 for one in measure_monitoring())
