"""A store returns the sum of its commits, and belongs to one GMS."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quicksilver.membership.store import (
    Commit,
    Counters,
    MemoryStore,
    SqliteStore,
    StoredGroup,
    StoredNode,
    StoredPlacement,
    StoredRegion,
    StoreError,
    StoreLockedError,
    StoreVersionError,
)

ids = st.integers(1, 5)
id_lists = st.lists(ids, max_size=3, unique=True).map(lambda xs: tuple(sorted(xs)))
text = st.text(st.characters(exclude_categories=("C", "Z")), max_size=5)
commits = st.builds(
    Commit,
    cluster=st.just(77),
    planner=st.just("exact"),
    counters=st.builds(Counters, batch=ids, node=ids, group=ids, region=ids, address=ids),
    nodes=st.dictionaries(
        ids,
        st.none()
        | st.builds(
            StoredNode, text, text, ids, st.integers(0, 1 << 47), st.binary(), id_lists, id_lists
        ),
    ),
    groups=st.dictionaries(ids, st.none() | st.builds(StoredGroup, text, ids, text)),
    placements=st.dictionaries(
        ids, st.none() | st.builds(StoredPlacement, id_lists, st.none() | ids)
    ),
    regions=st.dictionaries(ids, st.none() | st.builds(StoredRegion, ids, text, id_lists)),
    reviews=st.dictionaries(ids, st.none() | id_lists),
)
COMMIT = Commit(cluster=1, planner="exact", counters=Counters())


@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(history=st.lists(commits, max_size=4))
def test_sqlite_holds_what_memory_holds(tmp_path: Path, history: list[Commit]) -> None:
    """The obvious model, and a file that was closed and opened again."""
    path = tmp_path / "gms.db"
    for stale in tmp_path.iterdir():
        stale.unlink()
    model, store = MemoryStore(), SqliteStore(path)
    assert store.load() is None
    for commit in history:
        model.commit(commit)
        store.commit(commit)
    store.close()
    store = SqliteStore(path)
    assert store.load() == model.load()
    store.close()


def test_a_loaded_image_does_not_change_with_later_commits() -> None:
    """A service that died must not see what its successor does."""
    store = MemoryStore()
    store.commit(COMMIT)
    image = store.load()
    store.commit(replace(COMMIT, groups={1: StoredGroup("a", 1, "")}))
    assert image is not None
    assert image.groups == {}


def test_two_gms_cannot_share_a_file(tmp_path: Path) -> None:
    """Both would hand out the same numbers."""
    path = tmp_path / "gms.db"
    first = SqliteStore(path)
    with pytest.raises(StoreLockedError) as caught:
        SqliteStore(path)
    assert str(caught.value) == (
        f"GMS state {path}: another GMS uses this file: stop it or choose another file"
    )
    first.commit(COMMIT)
    first.close()
    SqliteStore(path).close()


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    """Misreading it could reuse numbers."""
    path = tmp_path / "gms.db"
    SqliteStore(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StoreVersionError, match="schema version 99, this GMS reads 6") as caught:
        SqliteStore(path)
    assert caught.value.found == 99


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    """A wrong path must not add tables to another program's file."""
    path = tmp_path / "other.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE precious (x)")
    db.commit()
    db.close()
    with pytest.raises(StoreVersionError):
        SqliteStore(path)


@pytest.mark.parametrize("name", ["missing/gms.db", "garbage.db"])
def test_an_unusable_path_gives_one_line(tmp_path: Path, name: str) -> None:
    """No traceback for a user's mistake."""
    (tmp_path / "garbage.db").write_bytes(b"not a database at all " * 100)
    with pytest.raises(StoreError) as caught:
        SqliteStore(tmp_path / name)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_damaged_row_is_reported(tmp_path: Path) -> None:
    """Starting from half a state would be worse than not starting."""
    path = tmp_path / "gms.db"
    store = SqliteStore(path)
    store.commit(replace(COMMIT, regions={1: StoredRegion(1, "239.1.1.1", (1,))}))
    store.close()
    db = sqlite3.connect(path)
    db.execute("UPDATE regions SET members = x'ff00'")
    db.commit()
    db.close()
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="damaged"):
        store.load()
    store.close()


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """It holds the secrets of nodes: whoever reads one can take the node's place."""
    path = tmp_path / "gms.db"
    before = os.umask(0o022)
    try:
        store = SqliteStore(path)
        store.commit(COMMIT)
        modes = {each.name: each.stat().st_mode & 0o077 for each in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    assert "gms.db" in modes
    assert set(modes.values()) == {0}


def test_the_mode_of_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    """Whoever runs the GMS may have chosen it."""
    path = tmp_path / "gms.db"
    SqliteStore(path).close()
    path.chmod(0o640)
    SqliteStore(path).close()
    assert path.stat().st_mode & 0o777 == 0o640
