"""Records come back from files as they were; files are whole or not there."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from quicksilver.trace import records
from quicksilver.trace.folders import find_runs, safe_name, split_target
from quicksilver.trace.parquet import ParquetTrace, TraceError, fields_of

pyarrow = pytest.importorskip("pyarrow.parquet")

VALUES = {"int64": 7, "float64": 0.5, "string": "why", "list<int64>": (3, 4)}
KINDS = get_args(records.AnyRecord)


def make(kind: type) -> records.AnyRecord:
    return kind(*(VALUES[type_] for _, type_ in fields_of(kind)))  # type: ignore[no-any-return]


def read(folder: Path, kind: type) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for path in sorted(folder.glob(f"run=*/kind={kind.__name__}/*.parquet")):
        rows += pyarrow.ParquetFile(path).read().to_pylist()
    return rows


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_record_comes_back_as_it_was(kind: type, tmp_path: Path) -> None:
    """Every kind has a column for each field."""
    record = make(kind)
    with ParquetTrace(tmp_path, "one", "w") as trace:
        trace(record)
    row = read(tmp_path, kind)[0]
    assert (row.pop("writer"), row.pop("number")) == ("w", 0)
    expected = msgspec.structs.asdict(record)
    assert row == {n: list(v) if isinstance(v, tuple) else v for n, v in expected.items()}


def test_the_end_says_how_much_was_written_and_dropped(tmp_path: Path) -> None:
    """A run without this record was cut off."""
    with ParquetTrace(tmp_path, "one", "w", records_max=3) as trace:
        for at in range(5):
            trace(records.ViewRetired(float(at), 1, 1, 1))
    assert [row["at"] for row in read(tmp_path, records.ViewRetired)] == [0.0, 1.0, 2.0]
    (ended,) = read(tmp_path, records.TraceEnded)
    assert (ended["written"], ended["dropped"]) == (3, 2)


def test_a_full_buffer_drops_and_never_waits(tmp_path: Path) -> None:
    """The engine's thread is not held up by a slow disk."""
    trace = ParquetTrace(tmp_path, "one", "w", buffered_max=2)
    stand_still = threading.Lock()
    take = trace._take

    def slow_take() -> None:
        with stand_still:
            take()

    with stand_still:
        trace._take = slow_take  # type: ignore[method-assign]
        trace._work.set()
        for at in range(2000):
            trace(records.ViewRetired(float(at), 1, 1, 1))
        assert trace.dropped > 0
    trace.close()
    assert trace.written + trace.dropped == 2000


def test_a_simulator_waits_and_loses_nothing(tmp_path: Path) -> None:
    """Virtual time can stand still."""
    with ParquetTrace(tmp_path, "one", "w", buffered_max=2, waits=True) as trace:
        for at in range(300):
            trace(records.ViewRetired(float(at), 1, 1, 1))
    assert [row["at"] for row in read(tmp_path, records.ViewRetired)] == list(range(300))
    assert trace.dropped == 0


def test_many_records_make_several_files_and_a_second_writer_adds_to_them(tmp_path: Path) -> None:
    """Nothing is written over."""
    for _ in range(2):
        with ParquetTrace(tmp_path, "one", "w", file_rows=1) as trace:
            trace(records.ViewRetired(1.0, 1, 1, 1))
    names = [path.name for path in tmp_path.glob("run=one/kind=ViewRetired/*")]
    assert len(names) == 2
    assert not any(name.startswith(".") for name in names)


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    """A file is in the way."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(TraceError, match="choose another folder"):
        ParquetTrace(tmp_path / "file", "one", "w")


def test_a_target_may_name_the_run() -> None:
    assert split_target(Path("out/run=monday"), "else") == (Path("out"), "monday")
    assert split_target(Path("out"), "a b/c") == (Path("out"), "a-b-c")
    assert safe_name("...") == "run"


def test_runs_are_found_by_name(tmp_path: Path) -> None:
    for name in ("run=b", "run=a", "other"):
        (tmp_path / name).mkdir()
    assert find_runs(tmp_path) == ["a", "b"]
