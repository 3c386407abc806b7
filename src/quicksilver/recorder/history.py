"""Recordings as the history of groups, for nodes that join late.

::

    group = await node.join("prices", history=RecorderHistory("10.0.0.5:7500"))
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from quicksilver.node.history import HistoryState
from quicksilver.node.messages import Batch
from quicksilver.recorder.client import RecorderClient
from quicksilver.recorder.coverage import Coverage, find_runs
from quicksilver.recorder.envelope import pack_envelope, parse_origin
from quicksilver.recorder.errors import PeerError
from quicksilver.recorder.protocol import ROWS_BYTES_MAX
from quicksilver.recorder.reader import LogReader
from quicksilver.wire.envelope import EMPTY, Envelope

if TYPE_CHECKING:
    import pyarrow as pa


class RecorderHistory:
    """The recording of a recorder that listens at ``host:port``."""

    def __init__(self, address: str) -> None:
        self.address = address

    def open(self, group: str) -> _RemoteReader:
        """Return the history of a group."""
        return _RemoteReader(RecorderClient(self.address), group)


class FolderHistory:
    """A recording in a folder of this machine, finished or still being written.

    Damage in it is raised by ``join``; what a repair gave up counts as missing.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def open(self, group: str) -> _FolderReader:
        """Return the history of a group; raises NoLogError."""
        return _FolderReader(LogReader(self.path, group))


class _RemoteReader:
    def __init__(self, client: RecorderClient, group: str) -> None:
        self._client = client
        self._group = group

    def state(self) -> HistoryState:
        state = self._client.state(self._group)
        coverage = Coverage.parse(state.coverage)
        if coverage is None:
            raise PeerError(self._client.address, "sent ranges that cannot be read")
        return HistoryState(state.past, dict(coverage))

    def rows(self, offset: int) -> tuple[Sequence[Batch], int]:
        rows, following = self._client.rows(self._group, offset)
        return [batch for one in rows for batch in to_batches(one, self._group)], following

    def close(self) -> None:
        self._client.close()


class _FolderReader:
    def __init__(self, log: LogReader) -> None:
        self._log = log
        self._coverage = Coverage()
        self._scanned = 0

    def state(self) -> HistoryState:
        first, past = self._log.bounds()
        for batch in self._log.read_rest(max(first, self._scanned), past):
            columns = (batch.column(name) for name in ("cluster", "sender", "sequence"))
            self._coverage.add_columns(*columns)
        self._scanned = past
        return HistoryState(past, {key: ranges.copy() for key, ranges in self._coverage})

    def rows(self, offset: int) -> tuple[Sequence[Batch], int]:
        first, past = self._log.bounds()
        found: list[Batch] = []
        size = 0
        following = max(offset, first)
        for batch in self._log.read_rest(following, past):
            found += to_batches(batch, self._log.group)
            following = batch.column("offset")[-1].as_py() + 1
            size += batch.nbytes
            if size >= ROWS_BYTES_MAX:
                return found, following
        return found, max(following, past)

    def close(self) -> None:
        """Segments are unmapped with the object."""


def to_batches(rows: pa.RecordBatch, group: str) -> list[Batch]:
    """Return recorded rows as they were multicast: runs of one sender, with their envelopes."""
    columns = (rows.column(name) for name in ("cluster", "sender", "sequence"))
    payloads = _payloads(rows)
    envelopes = _envelopes(rows)
    numbers = rows.column("batch").to_pylist()
    found: list[Batch] = []
    start = 0
    for cluster, sender, first, stop in find_runs(*columns):
        past = start + stop - first
        found.append(
            Batch(
                group,
                sender,
                numbers[start],
                payloads[start:past],
                first,
                None,
                cluster,
                None if envelopes is None else envelopes[start:past],
            )
        )
        start = past
    return found


def _envelopes(rows: pa.RecordBatch) -> list[Envelope] | None:
    """Return keys and headers of messages that no job sent; None where none has any."""
    keys, headers = rows.column("key"), rows.column("headers")
    if keys.null_count == headers.null_count == len(keys):
        return None
    is_row = rows.column("origin").is_valid().to_pylist()
    return [
        EMPTY
        if packed or (key is None and head is None)
        else Envelope(key, {one["key"]: one["value"] for one in head or ()})
        for packed, key, head in zip(is_row, keys.to_pylist(), headers.to_pylist(), strict=True)
    ]


def _payloads(rows: pa.RecordBatch) -> list[bytes]:
    values: list[bytes] = rows.column("value").to_pylist()
    origins = rows.column("origin")
    if origins.null_count == len(origins):
        return values
    keys, headers = rows.column("key").to_pylist(), rows.column("headers").to_pylist()
    return [
        value
        if origin is None
        else pack_envelope(
            parse_origin(origin),
            value,
            key,
            None if head is None else [(one["key"], one["value"]) for one in head],
        )
        for value, origin, key, head in zip(values, origins.to_pylist(), keys, headers, strict=True)
    ]
