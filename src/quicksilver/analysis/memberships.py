"""Who is in which group, out of a GMS's state file, also of one that is running.

A running GMS keeps its file locked, so a copy is read: the file and its log of
changes, together. If a change fell between the two copies they do not fit, and
the copy is made again.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from pathlib import Path

from quicksilver.membership.store import SqliteStore, StoreError

_TRIES = 5


def export_memberships(state: Path, out: Path) -> int:
    """Write who is in which group as Parquet; return how many pairs there are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pairs = read_memberships(state)
    names = {"node": [node for node, _ in pairs], "group": [group for _, group in pairs]}
    out.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([pa.field("node", pa.string()), pa.field("group", pa.string())])
    pq.write_table(pa.table(names, schema=schema), out)
    return len(pairs)


def read_memberships(path: Path) -> list[tuple[str, str]]:
    """Return pairs of node and group names, sorted; raises StoreError or OSError."""
    for attempt in range(_TRIES):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "state"
            shutil.copyfile(path, copy)
            log = path.with_name(path.name + "-wal")
            if log.exists():
                shutil.copyfile(log, copy.with_name("state-wal"))
            if attempt < _TRIES - 1 and not _is_whole(copy):
                continue
            return _read(copy, path)
    raise AssertionError("the last try returns or raises")


def _is_whole(path: Path) -> bool:
    try:
        with contextlib.closing(sqlite3.connect(path)) as database:
            verdict: str = database.execute("PRAGMA quick_check").fetchone()[0]
            return verdict == "ok"
    except sqlite3.Error:
        return False


def _read(copy: Path, path: Path) -> list[tuple[str, str]]:
    try:
        store = SqliteStore(copy)
        try:
            image = store.load()
        finally:
            store.close()
    except StoreError as error:
        raise StoreError(str(path), error.problem) from None
    if image is None:
        return []
    names = {group: stored.name for group, stored in image.groups.items()}
    return sorted(
        {
            (node.name, names[group])
            for node in image.nodes.values()
            for group in node.joined
            if group in names
        }
    )
