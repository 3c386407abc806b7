"""Records survive being written, and sinks are bounded."""

from __future__ import annotations

import io

import pytest

from quicksilver.trace import records
from quicksilver.trace.sinks import LineTrace, MemoryTrace

SAMPLES = [
    records.ViewInstalled(1.0, 2, 3, 4, 5),
    records.ViewRetired(1.0, 2, 3, 4),
    records.RoundCompleted(1.0, 2, 3, 4, 0, 0.001, 1, 0),
    records.AckReceived(1.0, 2, 3, 4, 100, 5000, 7, 0.002),
    records.PacketsMissed(1.0, 2, 3, 4, 5, 6),
    records.PacketsResent(1.0, 2, 3, 4, 5),
    records.NodesFailed(1.0, 2, (3, 4)),
    records.WasExcluded(1.0, 2, "silent"),
    records.DatagramRejected(1.0, 2, "malformed", 9),
]


@pytest.mark.parametrize("record", SAMPLES, ids=lambda r: type(r).__name__)
def test_a_record_comes_back_as_it_was(record: records.AnyRecord) -> None:
    """One line of JSON names its type."""
    assert records.parse_record(records.encode_record(record)) == record


@pytest.mark.parametrize("line", [b"", b"{}", b"[1]", b'{"type": "Nothing"}', b"\xff\x00"])
def test_other_lines_are_no_records(line: bytes) -> None:
    """A damaged trace is read around its damage."""
    assert records.parse_record(line) is None


def test_memory_is_bounded_and_says_what_it_let_go() -> None:
    """The newest records stay."""
    trace = MemoryTrace(records_max=3)
    for at in range(5):
        trace(records.ViewRetired(float(at), 1, 1, 1))
    assert [record.at for record in trace.records] == [2.0, 3.0, 4.0]
    assert trace.dropped == 2


def test_a_file_is_bounded_and_says_what_it_let_go() -> None:
    """Whole lines, up to the limit."""
    file = io.BytesIO()
    line = records.encode_record(SAMPLES[1]) + b"\n"
    trace = LineTrace(file, bytes_max=3 * len(line) + 1)
    for _ in range(5):
        trace(SAMPLES[1])
    assert file.getvalue() == 3 * line
    assert trace.dropped == 2
