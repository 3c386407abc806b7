"""What a scope manager keeps: no number is used twice, and no file of another is taken."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from quicksilver.membership.store import SqliteStore, StoreError
from quicksilver.scopes.store import ScopeStore, first_number


def test_every_start_has_numbers_of_its_own(tmp_path: Path) -> None:
    """A view that was told keeps its number, however the manager ended."""
    path = tmp_path / "lan1.db"
    firsts = []
    for _ in range(3):
        store = ScopeStore(path, "campus/lan1")
        firsts.append(first_number(store.begin()))
        store.close()
    assert firsts == [0, 1 << 32, 2 << 32]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_used_is_refused_in_one_line(tmp_path: Path) -> None:
    """Two managers would give the same numbers."""
    path = tmp_path / "lan1.db"
    first = ScopeStore(path, "campus/lan1")
    with pytest.raises(StoreError) as caught:
        ScopeStore(path, "campus/lan1")
    first.close()
    assert str(caught.value) == (
        f"scope manager state {path}: another scope manager uses this file: "
        "stop it or choose another file"
    )


def test_the_file_of_another_scope_or_of_a_gms_is_refused(tmp_path: Path) -> None:
    """It is sound, and wrong."""
    store = ScopeStore(tmp_path / "lan1.db", "campus/lan1")
    store.begin()
    store.close()
    other = ScopeStore(tmp_path / "lan1.db", "campus/lan2")
    with pytest.raises(StoreError, match="of the scope 'campus/lan1', not of 'campus/lan2'"):
        other.begin()
    other.close()
    SqliteStore(tmp_path / "gms.db").close()
    with pytest.raises(StoreError, match="this scope manager reads 1001"):
        ScopeStore(tmp_path / "gms.db", "campus/lan1")


@pytest.mark.parametrize(
    "rows",
    [
        [("scope", "campus/lan1")],
        [("scope", "campus/lan1"), ("starts", -1)],
        [("scope", "campus/lan1"), ("starts", "many")],
        [("scope", b"\xff"), ("starts", 1)],
        [("scope", "campus/lan1"), ("starts", 1 << 60)],
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, rows: list[tuple[str, object]]) -> None:
    """To begin again at 1 would repeat numbers."""
    path = tmp_path / "lan1.db"
    ScopeStore(path, "campus/lan1").close()
    db = sqlite3.connect(path)
    db.executemany("INSERT INTO meta VALUES (?, ?)", rows)
    db.commit()
    db.close()
    store = ScopeStore(path, "campus/lan1")
    with pytest.raises(StoreError, match="damaged"):
        store.begin()
    store.close()
