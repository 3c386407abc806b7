"""Logs against slow and obvious models."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.node.messages import Batch
from quicksilver.recorder.coverage import Coverage, find_runs
from quicksilver.recorder.envelope import (
    Origin,
    pack_envelope,
    pack_origin,
    parse_envelope,
    parse_origin,
)
from quicksilver.recorder.group_log import GroupLog
from quicksilver.recorder.repeats import Repeats
from tests.recorder.logs import CONFIG, GROUP, flush, values

batches = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 30), st.integers(1, 12)), max_size=25
)


@given(batches=batches, reopen_at=st.integers(0, 25))
def test_every_message_is_recorded_once(
    batches: list[tuple[int, int, int]], reopen_at: int
) -> None:
    """Whatever comes again, also after the log was opened again."""
    with tempfile.TemporaryDirectory() as folder_name:
        path = Path(folder_name)
        log = GroupLog(path, GROUP, CONFIG)
        expected: list[bytes] = []
        for at, (sender, first, count) in enumerate(batches):
            if at == reopen_at:
                flush(log)
                log.writer.abandon()  # as a crash: nothing is kept besides the segments
                log = GroupLog(path, GROUP, CONFIG)
            payloads = [b"%d %d" % (sender, n) for n in range(first, first + count)]
            expected += [one for one in payloads if one not in expected]
            log.take(Batch(GROUP, sender, 1, payloads, first, None, 5), at)
        log.close()
        assert values(path) == expected


origins = st.builds(
    Origin,
    st.sampled_from([b"a" * 16, b"b" * 15 + b"\0"]),
    st.integers(0, 1),
    st.integers(0, 3),
    st.integers(0, 9),
)


@given(rows=st.lists(origins, max_size=60), restore_at=st.integers(0, 60))
def test_repeats_are_those_that_came_before(rows: list[Origin], restore_at: int) -> None:
    """In any order, and across restoring from the log or from memory."""
    repeats, seen = Repeats(), set[Origin]()
    for at, origin in enumerate(rows):
        if at == restore_at:
            column = pa.array([pack_origin(one) for one in sorted(seen)], pa.binary(36))
            from_log, from_memory = Repeats(), Repeats()
            from_log.add_column(column)
            from_memory.restore(repeats.state())
            repeats = from_log if at % 2 else from_memory
        assert repeats.is_new(origin) == (origin not in seen)
        seen.add(origin)


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(0, 20)), max_size=60))
def test_coverage_is_a_set(rows: list[tuple[int, int, int]]) -> None:
    """Found from columns as from single messages."""
    coverage = Coverage()
    columns = [pa.array(column, pa.int64()) for column in zip(*rows, strict=True)] or [
        pa.array([], pa.int64())
    ] * 3
    coverage.add_columns(*columns)
    assert set(rows) == {
        (cluster, sender, number)
        for (cluster, sender), ranges in coverage
        for number in ranges.values(100)
    }
    assert sum(stop - start for _, _, start, stop in find_runs(*columns)) == len(rows)
    again = Coverage.parse(coverage.state())
    assert again is not None
    assert not again.missing_from(coverage)
    assert not coverage.missing_from(again)


@given(st.binary(max_size=200))
def test_no_message_breaks_the_parser(payload: bytes) -> None:
    """Messages are what anybody sends."""
    parse_envelope(payload)
    parse_envelope(b"\xf5qs\x01" + payload)


@given(
    origin=origins,
    content=st.binary(max_size=50),
    key=st.none() | st.binary(max_size=20),
    headers=st.none() | st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=3),
)
def test_an_envelope_is_taken_apart_as_it_was_made(
    origin: Origin,
    content: bytes,
    key: bytes | None,
    headers: list[tuple[str, bytes]] | None,
) -> None:
    """Key, headers and origin survive."""
    found = parse_envelope(pack_envelope(origin, content, key, headers))
    assert found is not None
    assert (found.origin, found.value, found.key, found.headers) == (origin, content, key, headers)
    assert parse_origin(pack_origin(origin)) == origin
