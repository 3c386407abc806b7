"""Of bad input one line each, and what is readable is read."""

from __future__ import annotations

from pathlib import Path

import pytest

pyarrow = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyspark")

from quicksilver.spark.telemetry.reading import (  # noqa: E402  # needs the extra
    check_file,
    check_files,
    files_of,
    find_problems,
    shorten,
)
from quicksilver.trace import records  # noqa: E402  # the same
from quicksilver.trace.parquet import ParquetTrace  # noqa: E402  # the same


def write(folder: Path, run: str = "r") -> Path:
    with ParquetTrace(folder, run, "w") as trace:
        trace(records.ViewRetired(1.0, 1, 1, 1))
        trace(records.NodesFailed(1.0, 1, (2, 3)))
    return folder / f"run={run}" / "kind=ViewRetired"


def table(path: Path, **columns: list[object]) -> Path:
    import pyarrow as arrow

    pyarrow.write_table(arrow.table(columns), path)
    return path


def test_every_kind_of_record_is_a_good_file(tmp_path: Path) -> None:
    write(tmp_path)
    files = files_of(tmp_path, ["r"])
    assert len(files) == 3
    assert check_files(files) == (files, [])


def test_what_cannot_be_read_is_named_with_its_reason(tmp_path: Path) -> None:
    """A crashed writer leaves no such files, but disks and people do."""
    place = write(tmp_path)
    whole = next(iter(place.glob("*.parquet")))
    torn, empty = place / "torn.parquet", place / "empty.parquet"
    torn.write_bytes(whole.read_bytes()[:-20])
    empty.touch()
    table(place / "other.parquet", price=[1.0])
    table(place / "text.parquet", at=["noon"], node=[1], writer=["w"], number=[1])
    (place / ".w-000009.parquet.unfinished").write_bytes(b"PAR1")
    good, problems = check_files(files_of(tmp_path, ["r"]))
    assert whole in good
    assert len(good) == 3
    assert problems == [
        f"left out, because it is empty: {empty}",
        (
            "left out, because it is no trace (it lacks writer, number, at, node): "
            f"{place / 'other.parquet'}"
        ),
        f"left out, because it is no trace (at is string, not float64): {place / 'text.parquet'}",
        f"left out, because it is torn: {torn}",
    ]


def test_a_kind_of_a_newer_version_is_read_and_said_once(tmp_path: Path) -> None:
    place = write(tmp_path)
    newer = tmp_path / "run=r" / "kind=FromTheFuture"
    newer.mkdir()
    columns = {"at": [1.0], "node": [1], "writer": ["w"], "number": [7], "colour": ["red"]}
    for number in range(2):
        table(newer / f"w-{number}.parquet", **columns)
    good, problems = check_files(files_of(tmp_path, ["r"]))
    assert len(good) == 5
    (problem,) = problems
    assert "kind FromTheFuture" in problem
    assert "update quicksilver" in problem
    assert place.exists()


def test_a_known_kind_with_a_column_more_is_good(tmp_path: Path) -> None:
    columns = {"at": [1.0], "node": [1], "writer": ["w"], "number": [7], "colour": ["red"]}
    assert check_file(table(tmp_path / "w.parquet", **columns)) is None


def test_a_file_that_went_away_is_torn_and_no_traceback(tmp_path: Path) -> None:
    assert check_file(tmp_path / "gone.parquet") == "is torn"


def test_of_many_problems_a_page_is_shown(tmp_path: Path) -> None:
    place = write(tmp_path)
    for number in range(30):
        (place / f"empty-{number}.parquet").touch()
    lines = find_problems(tmp_path, ["r"])
    assert len(lines) == 21
    assert "10 lines like these" in lines[-1]
    assert shorten(["one"]) == ["one"]
