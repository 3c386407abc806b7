"""A GMS's state file as pairs, also while the GMS has it open."""

from __future__ import annotations

from pathlib import Path

import pytest

from quicksilver.analysis.memberships import export_memberships, read_memberships
from quicksilver.membership.store import (
    Commit,
    Counters,
    SqliteStore,
    StoredGroup,
    StoredNode,
    StoreError,
)
from quicksilver.wire.ids import GroupId, NodeId


def fill(store: SqliteStore) -> None:
    """Two nodes; one joined both groups, the other one, and opened what does not count."""
    prices, news = GroupId(1), GroupId(2)
    store.commit(
        Commit(
            cluster=1,
            planner="exact",
            counters=Counters(),
            nodes={
                NodeId(1): StoredNode("b", "127.0.0.1", 1, 0, b"", (prices, news), ()),
                NodeId(2): StoredNode("a", "127.0.0.1", 2, 0, b"", (prices,), (news,)),
            },
            groups={prices: StoredGroup("prices", 1, ""), news: StoredGroup("news", 1, "")},
        )
    )


PAIRS = [("a", "prices"), ("b", "news"), ("b", "prices")]


def test_pairs_are_read_from_a_file_that_is_open(tmp_path: Path) -> None:
    """Its newest changes are in a log beside it."""
    store = SqliteStore(tmp_path / "gms.db")
    fill(store)
    assert read_memberships(tmp_path / "gms.db") == PAIRS
    store.close()
    assert read_memberships(tmp_path / "gms.db") == PAIRS


def test_pairs_are_written_as_a_table(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    store = SqliteStore(tmp_path / "gms.db")
    fill(store)
    store.close()
    assert export_memberships(tmp_path / "gms.db", tmp_path / "out" / "pairs.parquet") == 3
    rows = parquet.read_table(tmp_path / "out" / "pairs.parquet").to_pylist()
    assert [(row["node"], row["group"]) for row in rows] == PAIRS


def test_what_is_no_state_is_named_by_its_own_path(tmp_path: Path) -> None:
    (tmp_path / "gms.db").write_text("no database, but long enough to look like one" * 40)
    with pytest.raises(StoreError, match=r"gms\.db"):
        read_memberships(tmp_path / "gms.db")
