"""Sinks in memory are bounded."""

from __future__ import annotations

from quicksilver.trace import records
from quicksilver.trace.sinks import MemoryTrace


def test_memory_is_bounded_and_says_what_it_let_go() -> None:
    """The newest records stay."""
    trace = MemoryTrace(records_max=3)
    for at in range(5):
        trace(records.ViewRetired(float(at), 1, 1, 1))
    assert [record.at for record in trace.records] == [2.0, 3.0, 4.0]
    assert trace.dropped == 2
