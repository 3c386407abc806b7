"""A replica's state on disk: a snapshot, and a log of what came after it.

The log is only ever appended to; each record has its length and a checksum. It is
synced at most ``sync_s`` after something was appended, so the end of the process
loses nothing and the end of the machine loses at most that much. After
``snapshot_updates`` entries or ``snapshot_bytes`` a snapshot is made; it takes the
old one's place as a whole, and then the log starts again. Should the machine end
between the two, entries that the snapshot has are passed over when reading.

What is read is what was written, up to the first record that is damaged or cut:
that is the torn tail of a crash, and the log is repaired by dropping it.
"""

from __future__ import annotations

import struct
import weakref
import zlib
from collections.abc import Callable, Iterator

from quicksilver.live.codec import BadMessageError, Codec
from quicksilver.live.components.infrastructure.ordering.events import Applied
from quicksilver.live.components.infrastructure.ordering.ledger import Saved
from quicksilver.live.components.infrastructure.ordering.messages import (
    UPDATE_BYTES_MAX,
    Entry,
    Epoch,
    Snapshot,
    encode_snapshot,
    parse_snapshot,
)
from quicksilver.live.runtime.context import Context
from quicksilver.live.runtime.runtime import Runtime
from quicksilver.live.services.storage import Storage
from quicksilver.stdx.errors import QuicksilverError

MAGIC = b"QSLOG1\n\0"
_HEAD = struct.Struct("<II")
RECORD_BYTES_MAX = UPDATE_BYTES_MAX + 1024
_RECORDS = Codec[Applied](Applied, "a record", RECORD_BYTES_MAX)


class DamagedSnapshotError(QuicksilverError):
    """A snapshot that was put in place as a whole cannot be read."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"the snapshot {self.name!r} on disk is damaged: restore it from another node, "
            "or remove it to start without it"
        )


class Journal:
    """What one channel keeps in a storage."""

    def __init__(
        self,
        storage: Storage,
        name: str,
        *,
        plan_sync: Callable[[float, Callable[[], None]], object],
        snapshot_updates: int = 1000,
        snapshot_bytes: int = 8 << 20,
        sync_s: float = 0.1,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        """``plan_sync`` calls back after some seconds; ``sync_s`` of 0 syncs every entry."""
        self._on_close = on_close
        self._storage = storage
        self._snapshot_name = f"{name}.snapshot"
        self._log_name = f"{name}.log"
        self._plan_sync = plan_sync
        self._updates_max = snapshot_updates
        self._bytes_max = snapshot_bytes
        self._sync_s = sync_s
        self._is_sync_planned = False
        self._is_snapshot_due = False
        self._updates = 0
        self._bytes = 0
        self.torn_bytes = 0
        """What a crash had left at the end of the log, dropped."""
        self._snapshot = self._read_snapshot()
        self._last = 0 if self._snapshot is None else self._snapshot.index
        self.saved = self._read()

    # Reading

    def _read_snapshot(self) -> Snapshot | None:
        data = self._storage.read(self._snapshot_name)
        if data is None:
            return None
        head = len(MAGIC) + _HEAD.size
        if len(data) < head or not data.startswith(MAGIC):
            raise DamagedSnapshotError(self._snapshot_name)
        size, check = _HEAD.unpack_from(data, len(MAGIC))
        body = data[head:]
        if size != len(body) or zlib.crc32(body) != check:
            raise DamagedSnapshotError(self._snapshot_name)
        try:
            return parse_snapshot(body)
        except BadMessageError as error:
            raise DamagedSnapshotError(self._snapshot_name) from error

    def _read(self) -> Saved | None:
        entries: list[Entry] = []
        epoch: Epoch | None = None if self._snapshot is None else self._snapshot.epoch
        data = self._storage.read(self._log_name) or b""
        end = 0
        for applied, record_end in parse_records(data):
            if applied.index == self._last + 1 and self._snapshot is not None:
                entries.append(applied.entry)
                epoch = applied.epoch
                self._last = applied.index
                self._updates += 1
                self._bytes += len(applied.entry.payload)
            elif applied.index > self._last:
                break  # a hole: what follows belongs to nothing
            end = record_end
        if end < len(data):
            self.torn_bytes = len(data) - end
            self._storage.replace(self._log_name, data[:end])
        if self._snapshot is None or epoch is None:
            return None
        return Saved(self._snapshot, tuple(entries), epoch)

    # Writing

    def handle_initialized(self, snapshot: Snapshot) -> None:
        """The user starts from a state: ours, or another that replaces it."""
        ours = self.saved
        if ours is not None and self._is_same(snapshot, ours.snapshot):
            return
        if ours is not None and (ours.epoch, ours.index) > (snapshot.epoch, snapshot.index):
            # The others went on without what only this disk has: kept aside, for people.
            self._set_aside()
        self.saved = None
        self._last = snapshot.index
        self._write(snapshot, b"")

    @staticmethod
    def _is_same(one: Snapshot, other: Snapshot) -> bool:
        return (one.epoch, one.index, one.state, one.tail) == (
            other.epoch,
            other.index,
            other.state,
            other.tail,
        )

    def _set_aside(self) -> None:
        for name in (self._snapshot_name, self._log_name):
            data = self._storage.read(name)
            if data is not None:
                self._storage.replace(f"{name}.aside", data)

    def handle_applied(self, applied: Applied) -> bool:
        """Log an entry; True when a snapshot is wanted."""
        if applied.index <= self._last:
            return False  # read from here
        self._last = applied.index
        record = encode_record(applied)
        self._storage.append(self._log_name, record)
        self._updates += 1
        self._bytes += len(record)
        if self._sync_s <= 0:
            self._storage.sync(self._log_name)
        elif not self._is_sync_planned:
            self._is_sync_planned = True
            self._plan_sync(self._sync_s, self.sync)
        is_due = self._updates >= self._updates_max or self._bytes >= self._bytes_max
        if is_due and not self._is_snapshot_due:
            self._is_snapshot_due = True
            return True
        return False

    def handle_captured(self, snapshot: Snapshot) -> None:
        """Put a newer snapshot in place; entries after it stay in the log."""
        self._is_snapshot_due = False
        data = self._storage.read(self._log_name) or b""
        later = [one for one, _ in parse_records(data) if one.index > snapshot.index]
        self._write(snapshot, b"".join(map(encode_record, later)))
        self._updates = len(later)

    def _write(self, snapshot: Snapshot, log: bytes) -> None:
        body = encode_snapshot(snapshot)
        head = MAGIC + _HEAD.pack(len(body), zlib.crc32(body))
        self._storage.replace(self._snapshot_name, head + body)
        self._storage.replace(self._log_name, log)
        self._updates = 0
        self._bytes = len(log)
        self._is_snapshot_due = False

    def sync(self) -> None:
        """Have all that was logged on the disk."""
        self._is_sync_planned = False
        self._storage.sync(self._log_name)

    def close(self) -> None:
        """Have all on the disk, and let somebody else use the store."""
        self.sync()
        if self._on_close is not None:
            self._on_close()


def encode_record(applied: Applied) -> bytes:
    """Return an entry as the log has it."""
    body = _RECORDS.encode(applied)
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def parse_records(data: bytes) -> Iterator[tuple[Applied, int]]:
    """Yield entries and where each ends, up to the first that is not whole."""
    at = 0
    while at + _HEAD.size <= len(data):
        size, check = _HEAD.unpack_from(data, at)
        begin = at + _HEAD.size
        at = begin + size
        if size > RECORD_BYTES_MAX or at > len(data):
            return
        body = data[begin:at]
        if zlib.crc32(body) != check:
            return
        try:
            yield _RECORDS.decode(body), at
        except BadMessageError:
            return


_TAKEN: weakref.WeakKeyDictionary[Runtime, set[str]] = weakref.WeakKeyDictionary()


class StoreTakenError(QuicksilverError):
    """Two components want to keep their state in the same place."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"the store {self.name!r} is in use on this node: give each user another name"


def journal_opener(
    context: Context,
    name: str,
    *,
    snapshot_updates: int,
    snapshot_bytes: int,
    sync_s: float,
) -> Callable[[], Journal | None]:
    """Return a function that opens the journal of a component; without a name there is none.

    Raises NoServiceError at once; the function raises StoreTakenError.
    """
    if not name:
        return lambda: None
    storage = context.service(Storage)

    def open_journal() -> Journal:
        taken = _TAKEN.setdefault(context.runtime, set())
        if name in taken:
            raise StoreTakenError(name)
        journal = Journal(
            storage,
            name,
            plan_sync=context.call_later,
            snapshot_updates=snapshot_updates,
            snapshot_bytes=snapshot_bytes,
            sync_s=sync_s,
            on_close=lambda: taken.discard(name),
        )
        taken.add(name)
        return journal

    return open_journal
