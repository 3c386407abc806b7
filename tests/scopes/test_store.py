"""What a scope manager keeps survives it, and no file of another is taken."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from quicksilver.membership.store import SqliteStore, StoreError
from quicksilver.scopes.store import ScopeStore


def test_records_survive_and_the_last_word_counts(tmp_path: Path) -> None:
    """Whatever was saved is there after the next start."""
    path = tmp_path / "lan1.db"
    store = ScopeStore(path, "campus/lan1")
    assert store.load() == {}
    store.save([("a", b"1"), ("b", b"2")])
    store.save([("a", b"3"), ("b", None), ("c", None)])
    store.close()
    store = ScopeStore(path, "campus/lan1")
    assert store.load() == {"a": b"3"}
    store.close()
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
    ScopeStore(tmp_path / "lan1.db", "campus/lan1").close()
    with pytest.raises(StoreError, match="of the scope 'campus/lan1', not of 'campus/lan2'"):
        ScopeStore(tmp_path / "lan1.db", "campus/lan2")
    SqliteStore(tmp_path / "gms.db").close()
    with pytest.raises(StoreError, match="this scope manager reads 1001"):
        ScopeStore(tmp_path / "gms.db", "campus/lan1")
    with pytest.raises(StoreError, match="this GMS reads 6"):
        SqliteStore(tmp_path / "lan1.db")


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    """To begin with half of the records would repeat numbers."""
    path = tmp_path / "lan1.db"
    ScopeStore(path, "campus/lan1").close()
    db = sqlite3.connect(path)
    db.execute("INSERT INTO records VALUES ('numbers', 7)")
    db.commit()
    db.close()
    store = ScopeStore(path, "campus/lan1")
    with pytest.raises(StoreError, match="damaged"):
        store.load()
    store.close()
