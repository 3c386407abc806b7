"""A log on disk: what was promised is there, whatever happened to the files."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest

from quicksilver.recorder.batches import ENTRY_BYTES, load_entries
from quicksilver.recorder.disk import Disk
from quicksilver.recorder.errors import (
    DamagedSegmentError,
    LogBrokenError,
    NoLogError,
    OffsetsLostError,
    OtherVersionError,
)
from quicksilver.recorder.folders import (
    data_path,
    folder_of,
    index_path,
    recorded_groups,
    segment_stems,
)
from quicksilver.recorder.reader import LogReader
from quicksilver.recorder.writer import LogConfig, LogWriter
from tests.recorder.logs import CONFIG, GROUP, become_version, filled, value, values, write_rows


def numbered(first: int, past: int) -> list[bytes]:
    return [value(number) for number in range(first, past)]


def last_files(path: Path) -> tuple[Path, Path]:
    folder = folder_of(path, GROUP)
    first = segment_stems(folder)[-1]
    return data_path(folder, first), index_path(folder, first)


def test_offsets_count_rows_across_segments(tmp_path: Path) -> None:
    """Offsets are what everything else is addressed by."""
    filled(tmp_path).close()
    log = LogReader(tmp_path, GROUP)
    assert len(log.segments()) > 1
    assert log.bounds() == (0, 60)
    offsets = [n for rows in log.read(0, 60) for n in rows.column("offset").to_pylist()]
    assert offsets == list(range(60))
    assert values(tmp_path) == numbered(0, 60)


def test_any_range_can_be_read(tmp_path: Path) -> None:
    """Also one that begins and ends in the middle of a batch."""
    filled(tmp_path).close()
    log = LogReader(tmp_path, GROUP)
    got = [one for rows in log.read(13, 47) for one in rows.column("value").to_pylist()]
    assert got == numbered(13, 47)


def test_splits_are_the_range_cut_where_batches_begin(tmp_path: Path) -> None:
    """Tasks share a range without reading a batch twice."""
    filled(tmp_path).close()
    cuts = LogReader(tmp_path, GROUP).splits(5, 60, 3)
    assert cuts[0][0] == 5
    assert cuts[-1][1] == 60
    assert all(left[1] == right[0] for left, right in itertools.pairwise(cuts))
    assert {first % 10 for first, _ in cuts[1:]} == {0}
    assert len(cuts) == 3


def test_group_names_are_kept_whatever_they_contain(tmp_path: Path) -> None:
    """A group's name is not a path."""
    for name in ("a/b", "../x", "ä ö", "."):
        LogWriter(tmp_path, name, CONFIG).close()
    assert recorded_groups(tmp_path) == sorted(("a/b", "../x", "ä ö", "."))
    assert not (tmp_path.parent / "x").exists()


def test_a_missing_group_is_named_with_those_there_are(tmp_path: Path) -> None:
    """The usual mistake is a typing error."""
    filled(tmp_path).close()
    with pytest.raises(NoLogError, match="there is: prices"):
        LogReader(tmp_path, "price")


@pytest.mark.parametrize("torn", [1, 7, 40, 100])
def test_a_torn_tail_is_cut_off_and_written_over(tmp_path: Path, torn: int) -> None:
    """A crash in the middle of a write leaves bytes that nobody was promised."""
    filled(tmp_path).close()
    data, _ = last_files(tmp_path)
    with data.open("ab") as file:
        file.write(b"\xff" * torn)
    writer = LogWriter(tmp_path, GROUP, CONFIG)
    assert writer.durable == 60
    write_rows(writer, 60, 10)
    writer.close()
    assert values(tmp_path) == numbered(0, 70)


@pytest.mark.parametrize("left", [0, 1, ENTRY_BYTES - 1, ENTRY_BYTES, ENTRY_BYTES + 5])
@pytest.mark.parametrize("at", [0, -1])
def test_a_truncated_index_is_made_anew_from_its_segment(
    tmp_path: Path, left: int, at: int
) -> None:
    """An index only says sooner what the segment says."""
    filled(tmp_path).close()
    folder = folder_of(tmp_path, GROUP)
    index = index_path(folder, segment_stems(folder)[at])
    whole = index.read_bytes()
    index.write_bytes(whole[:left])
    assert values(tmp_path) == numbered(0, 60)
    writer = LogWriter(tmp_path, GROUP, CONFIG)
    assert writer.durable == 60
    assert index.read_bytes() == whole
    write_rows(writer, 60, 3)
    writer.close()
    assert values(tmp_path) == numbered(0, 63)


def test_a_segment_that_was_only_begun_is_begun_again(tmp_path: Path) -> None:
    """The machine may stop between creating a file and writing its header."""
    writer = filled(tmp_path)
    writer.close()
    folder = folder_of(tmp_path, GROUP)
    data_path(folder, 60).write_bytes(b"")
    writer = LogWriter(tmp_path, GROUP, CONFIG)
    assert writer.durable == 60
    write_rows(writer, 60, 2)
    writer.close()
    assert values(tmp_path) == numbered(0, 62)


def test_changed_bytes_are_noticed_and_the_rest_is_read(tmp_path: Path) -> None:
    """A disk may lie; a checksum tells."""
    filled(tmp_path).close()
    folder = folder_of(tmp_path, GROUP)
    path = data_path(folder, 0)
    entry = load_entries(index_path(folder, 0))[0][0]
    content = bytearray(path.read_bytes())
    content[(entry.start + entry.end) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedSegmentError, match="bytes have changed: offsets 0 to 9 are damaged"):
        values(tmp_path)
    assert values(tmp_path, strict=False) == numbered(10, 60)


@pytest.mark.parametrize(("version", "remedy"), [("3", "update it"), ("1", "another --path")])
def test_another_version_says_what_to_do(tmp_path: Path, version: str, remedy: str) -> None:
    """Never guess what a newer format means; the older one was never released."""
    filled(tmp_path).close()
    become_version(tmp_path, GROUP, 0, version)
    with pytest.raises(OtherVersionError, match=f"version {version}; .*{remedy}"):
        values(tmp_path)
    (folder_of(tmp_path, GROUP) / "mark").unlink()
    for use in (values, lambda path: LogWriter(path, GROUP, CONFIG)):
        with pytest.raises(OtherVersionError, match=f"version {version}; .*{remedy}"):
            use(tmp_path)


def test_a_missing_segment_is_named_by_its_offsets(tmp_path: Path) -> None:
    """Whoever deleted a file learns what is gone."""
    filled(tmp_path).close()
    folder = folder_of(tmp_path, GROUP)
    stems = segment_stems(folder)
    data_path(folder, stems[1]).unlink()
    with pytest.raises(OffsetsLostError, match=f"offsets {stems[1]} to {stems[2] - 1}"):
        values(tmp_path)
    assert values(tmp_path, strict=False) == numbered(0, stems[1]) + numbered(stems[2], 60)


def test_retention_while_reading_lets_go_of_nothing_that_is_held(tmp_path: Path) -> None:
    """A mapped segment can be read to its end although its file is gone."""
    writer = filled(tmp_path)
    log = LogReader(tmp_path, GROUP)
    reading = log.read(0, 60)
    first = next(reading)
    assert writer.remove_before(60) > 0
    assert first.column("value").to_pylist() == numbered(0, 10)
    with pytest.raises(OffsetsLostError):
        list(reading)
    assert log.bounds()[0] > 0
    writer.close()


def test_the_segment_that_is_written_is_never_removed(tmp_path: Path) -> None:
    """There is always a place that tells the next offset."""
    writer = filled(tmp_path)
    writer.remove_before(10_000)
    assert len(segment_stems(writer.folder)) == 1
    write_rows(writer, 60, 1)
    assert writer.durable == 61
    writer.close()


def test_a_time_is_found_by_the_index(tmp_path: Path) -> None:
    """The first row at or after it; the end when there is none."""
    filled(tmp_path).close()
    log = LogReader(tmp_path, GROUP)
    assert log.find_time(0) == 0
    assert log.find_time(1_000) == 0
    assert log.find_time(1_001) == 10
    assert log.find_time(6_000) == 50
    assert log.find_time(6_001) == 60


def test_a_time_is_found_among_times_that_do_not_ascend(tmp_path: Path) -> None:
    """Rows from another recorder keep their times."""
    writer = LogWriter(tmp_path, GROUP, CONFIG)
    for first, at_us in ((0, 500), (10, 100), (20, 700)):
        write_rows(writer, first, 10, at_us)
    writer.close()
    log = LogReader(tmp_path, GROUP)
    assert [log.find_time(at) for at in (50, 400, 501, 701)] == [0, 0, 20, 30]


def test_a_reader_sees_what_was_added_since(tmp_path: Path) -> None:
    """Streaming readers keep a log open."""
    writer = filled(tmp_path, batches=1)
    log = LogReader(tmp_path, GROUP)
    assert log.bounds() == (0, 10)
    write_rows(writer, 10, 10)
    assert log.bounds() == (0, 20)
    writer.close()
    assert values(tmp_path) == numbered(0, 20)


def test_after_a_failed_write_nothing_more_is_promised(tmp_path: Path) -> None:
    """What the disk holds is unknown then; opening the log again finds out."""
    writer = LogWriter(tmp_path, GROUP, LogConfig(does_sync=False))
    write_rows(writer, 0, 10)

    class Full(Disk):
        def write_at(self, file: BinaryIO, position: int, *parts: bytes | memoryview) -> int:
            raise OSError(28, "No space left on device")

    writer.disk = Full()
    for _ in range(2):
        with pytest.raises(LogBrokenError, match="No space left"):
            write_rows(writer, 10, 10)
    assert writer.durable == 10
    writer.close()
    assert values(tmp_path) == numbered(0, 10)


def test_segments_are_plain_arrow_streams(tmp_path: Path) -> None:
    """Any tool that reads Arrow streams reads a segment."""
    filled(tmp_path).close()
    path = data_path(folder_of(tmp_path, GROUP), 0)
    with pa.ipc.open_stream(path.read_bytes()) as stream:
        table = stream.read_all()
    assert table.column("value").to_pylist()[:2] == numbered(0, 2)


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0), (0o022, 0o044)])
def test_who_may_read_a_recording_is_for_the_umask_to_say(
    tmp_path: Path, mask: int, mode: int
) -> None:
    before = os.umask(mask)
    try:
        filled(tmp_path).close()
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o077 for path in last_files(tmp_path)} == {mode}
