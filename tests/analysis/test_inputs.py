"""Folders are told apart; what is neither points nor traces is said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver.analysis.errors import BadInputError
from quicksilver.analysis.inputs import find_traces


def test_paths_without_a_trace_are_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is no folder"):
        find_traces(tmp_path / "nothing")
    with pytest.raises(BadInputError, match="has no runs"):
        find_traces(tmp_path)
    (tmp_path / "run=empty").mkdir()
    with pytest.raises(BadInputError, match="no records"):
        find_traces(tmp_path / "run=empty")


def test_an_empty_run_beside_a_full_one_is_passed_over(tmp_path: Path) -> None:
    full = tmp_path / "run=r" / "kind=ViewRetired"
    full.mkdir(parents=True)
    (full / "1.parquet").write_bytes(b"PAR1")
    (tmp_path / "run=empty").mkdir()
    assert find_traces(tmp_path) == (tmp_path, ["r"])
