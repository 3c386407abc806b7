"""Where the GMS keeps what must survive it.

Every batch is one commit: counters, and the rows that the batch changed. The
service publishes a number only after the commit that contains it, so a GMS
killed at any point continues with numbers that nobody has seen, and never hands
one out twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from quicksilver.membership.state_file import (
    StateFile,
    StoreError,
    StoreLockedError,
    StoreVersionError,
)
from quicksilver.wire.ids import GroupId, NodeId, RegionId

__all__ = [
    "Commit",
    "Counters",
    "Image",
    "MemoryStore",
    "SqliteStore",
    "Store",
    "StoreError",
    "StoreLockedError",
    "StoreVersionError",
    "StoredGroup",
    "StoredNode",
    "StoredPlacement",
    "StoredRegion",
]

SCHEMA_VERSION = 6
"""Raised whenever an old GMS could misread a new file, or a new one an old file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Numbers that only grow; each is the next one to hand out."""

    batch: int = 1
    node: int = 1
    group: int = 1
    region: int = 1
    address: int = 0
    """Where the address pool goes on; wraps around."""


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A node of the cluster and its subscriptions, as group identifiers."""

    name: str
    ip: str
    port: int
    receive_buffer_bytes: int
    secret: bytes
    joined: tuple[GroupId, ...]
    opened: tuple[GroupId, ...]
    multicast: bool = True
    patterns: tuple[str, ...] = ()
    matched: tuple[GroupId, ...] = ()
    """Those of ``joined`` that the node did not name: its patterns stand for them."""
    joined_in: tuple[int, int] = (0, 0)
    """The last two batches in which the node came into groups, newest first."""


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A group's name and current view number."""

    name: str
    view: int
    hybrid: str
    is_hybrid: bool = False


@dataclass(frozen=True, slots=True)
class StoredPlacement:
    """What the planner decided for a group."""

    regions: tuple[RegionId, ...]
    hierarchy: int | None


@dataclass(frozen=True, slots=True)
class StoredRegion:
    """A region's current view."""

    view: int
    address: str
    members: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What one batch changed; None stands for a row that is gone."""

    cluster: int
    planner: str
    counters: Counters
    nodes: Mapping[NodeId, StoredNode | None] = field(default_factory=dict)
    groups: Mapping[GroupId, StoredGroup | None] = field(default_factory=dict)
    placements: Mapping[GroupId, StoredPlacement | None] = field(default_factory=dict)
    regions: Mapping[RegionId, StoredRegion | None] = field(default_factory=dict)
    reviews: Mapping[int, tuple[NodeId, ...] | None] = field(default_factory=dict)
    """By batch: the nodes of which it gave a region a new view, as far as it is one of
    the last two for some node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """All that a store holds: the sum of its commits."""

    cluster: int
    planner: str
    counters: Counters
    nodes: Mapping[NodeId, StoredNode]
    groups: Mapping[GroupId, StoredGroup]
    placements: Mapping[GroupId, StoredPlacement]
    regions: Mapping[RegionId, StoredRegion]
    reviews: Mapping[int, tuple[NodeId, ...]]


class Store(Protocol):
    """Keeps the state of one GMS."""

    path: str
    """What users call it."""

    def load(self) -> Image | None:
        """Return everything committed so far, or None if nothing ever was."""
        ...

    def commit(self, commit: Commit) -> None:
        """Make a batch durable, all or nothing, before returning.

        Raises:
            StoreError: it may or may not be durable; the GMS must stop.
        """
        ...

    def close(self) -> None:
        """Let another GMS use the state."""
        ...


class MemoryStore:
    """Forgets with the process: a restarted GMS begins a new cluster."""

    def __init__(self) -> None:
        self.path = "in memory"
        self._image: Image | None = None

    def load(self) -> Image | None:
        """Return everything committed so far, or None if nothing ever was."""
        image = self._image
        if image is None:
            return None
        return replace(
            image,
            nodes=dict(image.nodes),
            groups=dict(image.groups),
            placements=dict(image.placements),
            regions=dict(image.regions),
            reviews=dict(image.reviews),
        )

    def commit(self, commit: Commit) -> None:
        """Note the changes."""
        if self._image is None:
            self._image = Image(
                cluster=commit.cluster,
                planner=commit.planner,
                counters=commit.counters,
                nodes={},
                groups={},
                placements={},
                regions={},
                reviews={},
            )
        self._image = replace(
            self._image,
            cluster=commit.cluster,
            planner=commit.planner,
            counters=commit.counters,
        )
        for rows, changes in (
            (self._image.nodes, commit.nodes),
            (self._image.groups, commit.groups),
            (self._image.placements, commit.placements),
            (self._image.regions, commit.regions),
            (self._image.reviews, commit.reviews),
        ):
            assert isinstance(rows, dict)
            for key, row in changes.items():
                if row is None:
                    rows.pop(key, None)
                else:
                    rows[key] = row

    def close(self) -> None:
        """Do nothing."""


_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE nodes (id INTEGER PRIMARY KEY, name TEXT NOT NULL, host TEXT NOT NULL,
  port INTEGER NOT NULL, receive_buffer_bytes INTEGER NOT NULL,
  secret BLOB NOT NULL, joined BLOB NOT NULL, opened BLOB NOT NULL,
  multicast INTEGER NOT NULL, patterns BLOB NOT NULL, matched BLOB NOT NULL,
  joined_in BLOB NOT NULL);
CREATE TABLE groups (id INTEGER PRIMARY KEY, name TEXT NOT NULL, view INTEGER NOT NULL,
  hybrid TEXT NOT NULL, is_hybrid INTEGER NOT NULL);
CREATE TABLE placements (id INTEGER PRIMARY KEY, regions BLOB NOT NULL, hierarchy INTEGER);
CREATE TABLE regions (id INTEGER PRIMARY KEY, view INTEGER NOT NULL, address TEXT NOT NULL,
  members BLOB NOT NULL);
CREATE TABLE reviews (id INTEGER PRIMARY KEY, members BLOB NOT NULL);
"""
# Group views change far more often than the lists of regions: they are separate
# tables, so that a new view number does not rewrite a long list.

_encode_ids = msgspec.msgpack.Encoder().encode
_decode_ids = msgspec.msgpack.Decoder(tuple[int, ...]).decode
_decode_names = msgspec.msgpack.Decoder(tuple[str, ...]).decode


class SqliteStore(StateFile):
    """One SQLite file; a commit is a synchronous transaction."""

    def __init__(self, path: str | Path) -> None:
        # Nodes are known by the secrets in it: the file is for its owner alone.
        super().__init__(path, owner="GMS", schema=_SCHEMA, version=SCHEMA_VERSION)

    def load(self) -> Image | None:
        """Return everything committed so far, or None if nothing ever was."""
        with self.reading():
            return self._load()

    def _load(self) -> Image | None:
        meta = dict(self.db.execute("SELECT key, value FROM meta"))
        if not meta:
            return None
        run = self.db.execute
        return Image(
            cluster=meta["cluster"],
            planner=meta["planner"],
            counters=Counters(**{key: meta[key] for key in Counters.__dataclass_fields__}),
            nodes={
                NodeId(row[0]): _make_node(row)
                for row in run(
                    "SELECT id, name, host, port, receive_buffer_bytes, secret, joined, opened,"
                    " multicast, patterns, matched, joined_in"
                    " FROM nodes ORDER BY id"
                )
            },
            groups={
                GroupId(row[0]): StoredGroup(row[1], row[2], row[3], bool(row[4]))
                for row in run("SELECT id, name, view, hybrid, is_hybrid FROM groups ORDER BY id")
            },
            placements={
                GroupId(row[0]): StoredPlacement(
                    tuple(RegionId(n) for n in _decode_ids(row[1])), row[2]
                )
                for row in run("SELECT id, regions, hierarchy FROM placements ORDER BY id")
            },
            regions={
                RegionId(row[0]): StoredRegion(
                    row[1], row[2], tuple(NodeId(n) for n in _decode_ids(row[3]))
                )
                for row in run("SELECT id, view, address, members FROM regions ORDER BY id")
            },
            reviews={
                batch: tuple(NodeId(n) for n in _decode_ids(members))
                for batch, members in run("SELECT id, members FROM reviews ORDER BY id")
            },
        )

    def commit(self, commit: Commit) -> None:
        """Make a batch durable, all or nothing, before returning."""
        with self.writing():
            self._commit(commit)

    def _commit(self, commit: Commit) -> None:
        meta: list[tuple[str, int | str]] = [
            ("cluster", commit.cluster),
            ("planner", commit.planner),
            *asdict(commit.counters).items(),
        ]
        self._put("meta", 2, meta)
        self._delete("nodes", (n for n, node in commit.nodes.items() if node is None))
        self._delete("groups", (g for g, group in commit.groups.items() if group is None))
        self._delete("placements", (g for g, p in commit.placements.items() if p is None))
        self._delete("regions", (r for r, region in commit.regions.items() if region is None))
        self._delete("reviews", (b for b, members in commit.reviews.items() if members is None))
        self._put(
            "nodes",
            12,
            (
                (
                    key,
                    node.name,
                    node.ip,
                    node.port,
                    node.receive_buffer_bytes,
                    node.secret,
                    _encode_ids(node.joined),
                    _encode_ids(node.opened),
                    int(node.multicast),
                    _encode_ids(node.patterns),
                    _encode_ids(node.matched),
                    _encode_ids(node.joined_in),
                )
                for key, node in commit.nodes.items()
                if node is not None
            ),
        )
        self._put(
            "groups",
            5,
            (
                (key, group.name, group.view, group.hybrid, int(group.is_hybrid))
                for key, group in commit.groups.items()
                if group is not None
            ),
        )
        self._put(
            "placements",
            3,
            (
                (key, _encode_ids(placement.regions), placement.hierarchy)
                for key, placement in commit.placements.items()
                if placement is not None
            ),
        )
        self._put(
            "regions",
            4,
            (
                (key, region.view, region.address, _encode_ids(region.members))
                for key, region in commit.regions.items()
                if region is not None
            ),
        )
        self._put(
            "reviews",
            2,
            (
                (batch, _encode_ids(members))
                for batch, members in commit.reviews.items()
                if members is not None
            ),
        )

    def _put(self, table: str, columns: int, rows: Iterable[tuple[object, ...]]) -> None:
        marks = ", ".join("?" * columns)
        self.db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows)  # noqa: S608  # names from this module

    def _delete(self, table: str, keys: Iterable[int]) -> None:
        self.db.executemany(f"DELETE FROM {table} WHERE id = ?", ((key,) for key in keys))  # noqa: S608  # as above


def _make_node(row: tuple[Any, ...]) -> StoredNode:
    _, name, ip, port, size, secret, joined, opened, multicast, patterns, matched, batches = row
    newest, before = _decode_ids(batches)
    return StoredNode(
        name,
        ip,
        port,
        size,
        secret,
        _groups(joined),
        _groups(opened),
        bool(multicast),
        _decode_names(patterns),
        _groups(matched),
        (newest, before),
    )


def _groups(blob: bytes) -> tuple[GroupId, ...]:
    return tuple(GroupId(n) for n in _decode_ids(blob))
