"""What a log forgets, and what it must not."""

from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver.recorder.errors import LogBrokenError
from quicksilver.recorder.group_log import GroupLog
from quicksilver.recorder.retention import (
    Retention,
    SegmentFacts,
    find_cut,
    load_commits,
    store_commit,
)
from quicksilver.recorder.writer import LogConfig
from quicksilver.stdx.ranges import RangeSet
from tests.recorder.logs import CONFIG, GROUP, batch, flush, values

SEGMENTS = [SegmentFacts(n * 10, n * 10 + 10, 100, n * 1_000_000) for n in range(5)]
NOW_US = 5_000_000


@pytest.mark.parametrize(
    ("retention", "committed", "cut"),
    [
        (Retention(), None, 0),
        (Retention(age_max_s=2.5), None, 30),
        (Retention(age_max_s=100), None, 0),
        (Retention(bytes_max=250), None, 30),
        (Retention(bytes_max=250, age_max_s=1.5), None, 40),
        (Retention(needs_commit=True), None, 0),
        (Retention(needs_commit=True), 25, 20),
        (Retention(needs_commit=True, bytes_max=250), 25, 20),
        (Retention(needs_commit=True, bytes_max=450), 1_000, 10),
        (Retention(needs_commit=True, bytes_max=250), None, 0),
    ],
)
def test_what_may_go(retention: Retention, committed: int | None, cut: int) -> None:
    """By age, by size with the open segment counted, and never above the slowest commit."""
    assert find_cut(SEGMENTS, retention, NOW_US, committed, open_bytes=50) == cut


def test_commits_are_one_file_a_consumer(tmp_path: Path) -> None:
    """A file that cannot be read holds everything back: losing nothing is safer."""
    store_commit(tmp_path, "daily/report", 17)
    store_commit(tmp_path, "daily/report", 19)
    assert load_commits(tmp_path) == {"daily/report": 19}
    (tmp_path / "consumers" / "broken.json").write_text("{", encoding="utf-8")
    assert load_commits(tmp_path) == {"daily/report": 19, "broken": 0}
    (file,) = (tmp_path / "consumers").glob("daily*")
    file.write_bytes(file.read_bytes().replace(b"19", b"79"))
    assert load_commits(tmp_path) == {"daily/report": 0, "broken": 0}


def test_what_was_forgotten_is_not_recorded_again(tmp_path: Path) -> None:
    """Another recorder may still have it, and a sender may send it again."""
    log = GroupLog(tmp_path, GROUP, CONFIG)
    for first in range(0, 100, 10):
        log.take(batch(first, 10), first)
        flush(log)
    found = log.find_cut(Retention(bytes_max=3_000), 0)
    assert found is not None
    cut, runs = found
    log.forget(runs)
    assert log.trim(cut, log.memory(log.cut(), cut)) > 0
    assert list(log.kept) == [((7, 1), RangeSet([(cut, 100)]))]
    log.writer.abandon()
    log = GroupLog(tmp_path, GROUP, CONFIG)
    assert list(log.kept) == [((7, 1), RangeSet([(cut, 100)]))]
    log.take(batch(0, 100), 1)
    assert log.covered == 100
    assert log.messages == 0
    log.close()
    assert len(values(tmp_path)) == 100 - cut


def test_a_damaged_memory_is_made_anew_from_the_segments(tmp_path: Path) -> None:
    """It only says sooner what the segments say."""
    log = GroupLog(tmp_path, GROUP, CONFIG)
    log.take(batch(0, 30), 1)
    log.close()
    (log.writer.folder / "memory").write_bytes(b"\0\0\0\0nonsense")
    log = GroupLog(tmp_path, GROUP, CONFIG)
    log.take(batch(0, 31), 1)
    assert (log.covered, log.messages) == (30, 1)
    log.close()


def test_what_could_not_be_written_is_not_remembered(tmp_path: Path) -> None:
    """A full disk ends a recorder; what it had taken must be able to come again."""
    log = GroupLog(tmp_path, GROUP, LogConfig(does_sync=False))
    log.take(batch(0, 10), 1)
    flush(log)
    log.take(batch(10, 10), 2)
    log.writer._problem = OSError(28, "No space left on device")
    with pytest.raises(LogBrokenError):
        flush(log)
    log.close()
    log = GroupLog(tmp_path, GROUP, CONFIG)
    log.take(batch(0, 20), 3)
    assert (log.covered, log.messages) == (10, 10)
    log.close()
    assert len(values(tmp_path)) == 20
