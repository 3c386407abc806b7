"""One bit that flips, one file that goes, one file that is cut off, anywhere in a log.

Every reader gives exactly the safe rows or says in one line what is damaged, and a
recorder that is started again neither loses a row without a word nor gives an offset
to another message.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.recorder.batches import ENTRY_BYTES
from quicksilver.recorder.disk import Disk
from quicksilver.recorder.errors import DamagedLogError, RecorderError, StateFileError
from quicksilver.recorder.folders import data_path, folder_of, index_path, segment_stems
from quicksilver.recorder.group_log import GroupLog
from quicksilver.recorder.history import FolderHistory
from quicksilver.recorder.protocol import parse_rows
from quicksilver.recorder.reader import LogReader
from quicksilver.recorder.repair import repair_log
from quicksilver.recorder.retention import Retention
from quicksilver.recorder.server import read_rows
from quicksilver.stdx.ranges import RangeSet
from tests.recorder.logs import CONFIG, GROUP, batch, flush, value

ROWS = 100
Harm = Callable[[Path], None]
T = TypeVar("T")


def make_log(path: Path, *, is_closed: bool, is_trimmed: bool) -> int:
    """Record rows 0 to 99; return the first that retention left."""
    log = GroupLog(path, GROUP, CONFIG)
    for first in range(0, ROWS, 10):
        log.take(batch(first, 10), first)
        flush(log)
        if first == 50 and is_trimmed:
            found = log.find_cut(Retention(bytes_max=6_000), 0)
            assert found is not None
            log.forget(found[1])
            log.trim(found[0], log.memory(None, found[0]))
    if is_closed:
        log.close()
    else:
        log.writer.abandon()
    return LogReader(path, GROUP).bounds()[0]


KINDS = [(is_closed, is_trimmed) for is_closed in (True, False) for is_trimmed in (True, False)]


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, bool], Path]:
    """Logs that were closed or left behind, with and without retention."""
    made = {}
    for kind in KINDS:
        path = tmp_path_factory.mktemp("original")
        first = make_log(path, is_closed=kind[0], is_trimmed=kind[1])
        assert (first > 0) == kind[1]
        made[kind] = path
    return made


def files(path: Path) -> list[str]:
    """The files of a log, by name."""
    return sorted(one.name for one in folder_of(path, GROUP).iterdir())


@contextmanager
def harmed(original: Path, name: str, harm: Harm) -> Iterator[Path]:
    """A copy of a log of which one file is harmed."""
    with tempfile.TemporaryDirectory() as made:
        path = Path(made) / "log"
        shutil.copytree(original, path)
        harm(folder_of(path, GROUP) / name)
        yield path


def flip(at: float, bit: int) -> Harm:
    def harm(file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[int(at * len(content))] ^= 1 << bit
        file.write_bytes(content)

    return harm


def cut(at: float) -> Harm:
    def harm(file: Path) -> None:
        content = file.read_bytes()
        file.write_bytes(content[: int(at * len(content))])

    return harm


def read_log(path: Path) -> list[bytes]:
    log = LogReader(path, GROUP)
    found = log.read(*log.bounds())
    return [one for rows in found for one in rows.column("value").to_pylist()]


def read_history(path: Path) -> list[bytes]:
    """As a node does that joins late."""
    reader = FolderHistory(path).open(GROUP)
    past, offset, found = reader.state().past, 0, list[bytes]()
    while offset < past:
        batches, offset = reader.rows(offset)
        found += [payload for one in batches for payload in one.payloads]
    return found


class TheirDamageError(RecorderError):
    """What a recorder tells a peer."""


def read_as_peer(path: Path) -> list[bytes]:
    """As a recorder answers to another that fills its gaps."""
    log = LogReader(path, GROUP)
    offset, found = 0, list[bytes]()
    while offset < log.bounds()[1]:
        rows = read_rows(log, offset, None)
        if rows.damage:
            raise TheirDamageError(rows.damage)
        offset = rows.following
        for one in parse_rows(rows.data) or []:
            found += one.column("value").to_pylist()
    return found


def attempt(use: Callable[[Path], T], path: Path) -> T | str:
    """Return what a use gives, or the one line that it says."""
    try:
        return use(path)
    except RecorderError as error:
        return str(error)


def open_log(path: Path) -> GroupLog:
    return GroupLog(path, GROUP, CONFIG)


def check(path: Path, first: int) -> None:
    """All that is promised about a log with one fault."""
    expected = [value(number) for number in range(first, ROWS)]
    for read in (read_log, read_history, read_as_peer):
        got = attempt(read, path)
        assert got == expected or (isinstance(got, str) and len(got.splitlines()) == 1)
    log = attempt(open_log, path)
    if isinstance(log, str):
        assert len(log.splitlines()) == 1
        assert "--repair" in log
        check_repair(path, first)
        log = open_log(path)
    check_goes_on(log, path, first)


def check_repair(path: Path, first: int) -> None:
    """What is given up is what cannot be read, and nothing else."""
    repaired = repair_log(path, GROUP, Disk(does_sync=False))
    assert repaired.past >= ROWS
    lost = RangeSet(repaired.lost)
    readable = RangeSet()
    for rows in LogReader(path, GROUP).read(first, ROWS, strict=False):
        offsets = rows.column("offset").to_pylist()
        readable.add(offsets[0], offsets[-1] + 1)
    assert RangeSet([(first, ROWS)]).difference(readable) == lost.clamped(first, ROWS)
    assert repair_log(path, GROUP, Disk(does_sync=False)).lost == []


def check_goes_on(log: GroupLog, path: Path, first: int) -> None:
    """New rows follow after all that was ever safe; what is left stays what it was."""
    given_up = log.known.unreadable
    assert log.writer.durable >= ROWS
    log.take(batch(ROWS, 5), ROWS)
    # Rows that were given up may come again; others are known.
    log.take(batch(first, ROWS - first), ROWS)
    assert log.messages == 5 + given_up
    flush(log)
    log.close()
    reader = LogReader(path, GROUP)
    found = {
        offset: one
        for rows in reader.read(*reader.bounds(), strict=False)
        for offset, one in zip(
            rows.column("offset").to_pylist(), rows.column("value").to_pylist(), strict=True
        )
    }
    unreadable = [number for number in range(first, ROWS) if number not in found]
    assert all(found.get(number, value(number)) == value(number) for number in range(first, ROWS))
    again = sorted(found[number] for number in found if number >= ROWS)
    new = [value(number) for number in range(ROWS, ROWS + 5)]
    assert again == sorted(new + [value(number) for number in unreadable if given_up])
    # What is lost and was not noticed when the log was opened is told to whoever reads it.
    assert bool(unreadable) == isinstance(attempt(read_log, path), str)
    open_log(path).close()


@pytest.mark.parametrize("kind", KINDS)
def test_any_file_may_be_deleted(
    originals: dict[tuple[bool, bool], Path], kind: tuple[bool, bool]
) -> None:
    """A segment, an index, the mark, the memory."""
    first = LogReader(originals[kind], GROUP).bounds()[0]
    for name in files(originals[kind]):
        with harmed(originals[kind], name, Path.unlink) as path:
            check(path, first)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    kind=st.sampled_from(KINDS),
    which=st.floats(0, 1, exclude_max=True),
    at=st.floats(0, 1, exclude_max=True),
    bit=st.integers(0, 7),
)
def test_any_bit_may_flip(
    originals: dict[tuple[bool, bool], Path],
    kind: tuple[bool, bool],
    which: float,
    at: float,
    bit: int,
) -> None:
    """Of any file, anywhere."""
    names = files(originals[kind])
    first = LogReader(originals[kind], GROUP).bounds()[0]
    with harmed(originals[kind], names[int(which * len(names))], flip(at, bit)) as path:
        check(path, first)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    kind=st.sampled_from(KINDS),
    which=st.floats(0, 1, exclude_max=True),
    at=st.floats(0, 1, exclude_max=True),
)
def test_any_file_may_be_cut_off(
    originals: dict[tuple[bool, bool], Path], kind: tuple[bool, bool], which: float, at: float
) -> None:
    """Anywhere."""
    names = files(originals[kind])
    first = LogReader(originals[kind], GROUP).bounds()[0]
    with harmed(originals[kind], names[int(which * len(names))], cut(at)) as path:
        check(path, first)


@pytest.mark.slow
def test_every_bit_of_the_last_index_and_of_the_mark(
    originals: dict[tuple[bool, bool], Path],
) -> None:
    """Neither is needed to read every row: they are told from the segments."""
    original = originals[False, False]
    folder = folder_of(original, GROUP)
    index = index_path(folder, segment_stems(folder)[-1])
    expected = [value(number) for number in range(ROWS)]
    places = [(index.name, at) for at in range(index.stat().st_size)]
    places += [("mark", place + at) for place in (0, 4096) for at in range(36)]
    with harmed(original, "mark", lambda _: None) as path:
        for number, (name, at) in enumerate(places):
            file = folder_of(path, GROUP) / name
            whole = file.read_bytes()
            content = bytearray(whole)
            content[at] ^= 1 << number % 8
            file.write_bytes(content)
            assert read_log(path) == expected
            file.write_bytes(whole)


def test_the_damage_and_the_remedy_are_named(tmp_path: Path) -> None:
    """Whoever starts a recorder must know which file to put back."""
    make_log(tmp_path, is_closed=True, is_trimmed=False)
    folder = folder_of(tmp_path, GROUP)
    last = segment_stems(folder)[-1]
    kept = data_path(folder, last).read_bytes()
    data_path(folder, last).write_bytes(kept[:-1])
    words = rf"{last:020d}.arrows: .* offsets {ROWS - 10} to {ROWS - 1} are damaged; put the file "
    with pytest.raises(DamagedLogError, match=words):
        GroupLog(tmp_path, GROUP, CONFIG)
    assert data_path(folder, last).read_bytes() == kept[:-1]
    data_path(folder, last).unlink()
    with pytest.raises(DamagedLogError, match=rf"{last:020d}.arrows: the file is missing: offsets"):
        GroupLog(tmp_path, GROUP, CONFIG)
    data_path(folder, last).write_bytes(kept)
    GroupLog(tmp_path, GROUP, CONFIG).close()
    (folder / "mark").unlink()
    for use in (read_log, open_log):
        with pytest.raises(StateFileError, match=r"mark is missing or damaged: .*--repair"):
            use(tmp_path)


def test_a_repair_keeps_the_damaged_bytes_and_leaves_a_gap(tmp_path: Path) -> None:
    """Whoever can mend the file later has its bytes; its offsets are nobody's."""
    make_log(tmp_path, is_closed=False, is_trimmed=False)
    folder = folder_of(tmp_path, GROUP)
    last = data_path(folder, segment_stems(folder)[-1])
    content = bytearray(last.read_bytes())
    content[-100] ^= 255
    last.write_bytes(content)
    with pytest.raises(DamagedLogError, match=f"offsets {ROWS - 10} to {ROWS - 1} are damaged"):
        GroupLog(tmp_path, GROUP, CONFIG)
    assert repair_log(tmp_path, GROUP).lost == [(ROWS - 10, ROWS)]
    log = GroupLog(tmp_path, GROUP, CONFIG)
    assert log.known.unreadable == 10
    log.take(batch(ROWS, 1), 1)
    log.close()
    assert last.read_bytes()[: len(content)] == content
    with pytest.raises(RecorderError, match=f"offsets {ROWS - 10} to {ROWS - 1} are damaged"):
        read_log(tmp_path)
    # Who joins late has what there is; the rest counts as missing.
    assert read_history(tmp_path) == [*map(value, range(ROWS - 10)), value(ROWS)]


def test_a_row_that_a_running_recorder_lost_is_told_to_peers(tmp_path: Path) -> None:
    """They get the rest, and know that it is not all."""
    make_log(tmp_path, is_closed=True, is_trimmed=False)
    index = index_path(folder_of(tmp_path, GROUP), 0)
    data = data_path(index.parent, 0)
    data.write_bytes(data.read_bytes()[:-1])
    log = LogReader(tmp_path, GROUP)
    rows = read_rows(log, 0, None)
    assert index.stat().st_size // ENTRY_BYTES * 10 == rows.following
    assert "are damaged" in rows.damage
    rest = read_rows(log, rows.following, None)
    assert (rest.following, rest.damage) == (ROWS, "")
