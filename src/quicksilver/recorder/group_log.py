"""The log of one group as a recorder keeps it: nothing twice, envelopes taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from quicksilver.node.messages import Batch
from quicksilver.recorder.coverage import Run, find_runs
from quicksilver.recorder.disk import Disk
from quicksilver.recorder.envelope import (
    MARK,
    Headers,
    as_recorded,
    split_envelope,
)
from quicksilver.recorder.memory import restore
from quicksilver.recorder.reader import LogReader
from quicksilver.recorder.retention import Retention, find_cut, find_segments, load_commits
from quicksilver.recorder.rows import PendingRows
from quicksilver.recorder.state_files import encode_memory, store_memory
from quicksilver.recorder.writer import LogConfig, LogWriter


class GroupLog:
    """One group: what arrives goes in once, in the order of arrival.

    ``take`` and ``cut`` belong to one thread; ``write`` and ``trim`` may run in
    another, one at a time.
    """

    def __init__(
        self,
        path: Path,
        group: str,
        config: LogConfig | None = None,
        disk: Disk | None = None,
    ) -> None:
        """Open a log; raises what ``LogWriter`` and ``restore`` raise."""
        self.writer = LogWriter(path, group, config, disk)
        self.reader = LogReader(path, group)
        try:
            self.known = restore(self.reader)
        except BaseException:
            self.writer.abandon()
            raise
        self.coverage = self.known.coverage
        self.kept = self.known.kept
        self.repeats = self.known.repeats
        self.group = group
        self.messages = 0
        """Messages recorded since the log was opened."""
        self.covered = 0
        """Messages left out because the log had them already."""
        self.fetched = 0
        """Messages taken from other recorders."""
        self.removed_segments = 0
        self._latest_us = 0

    # Rows

    def take(self, batch: Batch, now_us: int) -> None:
        """Add messages as a node received them."""
        count = len(batch.payloads)
        payloads: Sequence[bytes] = batch.payloads
        envelopes = batch.envelopes
        sequences: Sequence[int]
        if batch.sequences is None:
            first, stop = batch.first, batch.first + count
            sequences = range(first, stop)
        else:
            sequences = batch.sequences
            first, stop = sequences[0], sequences[-1] + 1
        cluster, sender = batch.cluster, batch.sender
        coverage = self.coverage
        if not coverage.is_fresh(cluster, sender, first, stop):
            fresh = [
                at
                for at, number in enumerate(sequences)
                if not coverage.contains(cluster, sender, number)
            ]
            self.covered += count - len(fresh)
            payloads = [payloads[at] for at in fresh]
            sequences = [sequences[at] for at in fresh]
            envelopes = None if envelopes is None else [envelopes[at] for at in fresh]
        if not payloads:
            return
        if len(sequences) == stop - first:
            coverage.add(cluster, sender, first, stop)
        else:
            for number in sequences:
                coverage.add(cluster, sender, number, number + 1)
        # The clock may be set back; a log whose times ascend is quicker to search.
        self._latest_us = now_us = max(now_us, self._latest_us)
        append = self.writer.pending.append
        if envelopes is not None:
            append(
                payloads,
                cluster=cluster,
                sender=sender,
                sequences=sequences,
                batch=batch.batch,
                at_us=now_us,
                keys=[each.key for each in envelopes],
                headers=[as_recorded(each.headers) for each in envelopes],
            )
            self._keep(cluster, sender, sequences)
        elif any(payload.startswith(MARK) for payload in payloads):
            self._take_rows(payloads, sequences, batch, now_us)
        else:
            append(
                payloads,
                cluster=cluster,
                sender=sender,
                sequences=sequences,
                batch=batch.batch,
                at_us=now_us,
            )
            self._keep(cluster, sender, sequences)

    def _take_rows(
        self, payloads: Sequence[bytes], sequences: Sequence[int], batch: Batch, now_us: int
    ) -> None:
        """Add messages of which some are rows of a job."""
        values: list[bytes] = []
        numbers: list[int] = []
        keys: list[bytes | None] = []
        headers: list[Headers | None] = []
        origins: list[bytes | None] = []
        is_new = self.repeats.is_new_packed
        for payload, number in zip(payloads, sequences, strict=True):
            parts = split_envelope(payload)
            if parts is None:
                origins.append(None)
                values.append(payload)
                keys.append(None)
                headers.append(None)
            elif is_new(parts[0]):
                origins.append(parts[0])
                values.append(parts[1])
                keys.append(parts[2])
                headers.append(parts[3])
            else:
                continue
            numbers.append(number)
        nothing = [None] * len(values)
        self.writer.pending.append(
            values,
            cluster=batch.cluster,
            sender=batch.sender,
            sequences=numbers,
            batch=batch.batch,
            at_us=now_us,
            keys=None if keys == nothing else keys,
            headers=None if headers == nothing else headers,
            origins=origins,
        )
        self._keep(batch.cluster, batch.sender, numbers)

    def _keep(self, cluster: int, sender: int, sequences: Sequence[int]) -> None:
        """Note that rows are in the log; they are in ascending order."""
        count = len(sequences)
        if not count:
            return
        self.messages += count
        if sequences[-1] - sequences[0] == count - 1:
            self.kept.add(cluster, sender, sequences[0], sequences[-1] + 1)
            return
        for number in sequences:
            self.kept.add(cluster, sender, number, number + 1)

    def take_recorded(self, rows: pa.RecordBatch) -> int:
        """Add rows of another recorder's log, those that this log lacks; return how many."""
        added = 0
        start = 0
        clusters, senders, sequences = (
            rows.column(name) for name in ("cluster", "sender", "sequence")
        )
        for cluster, sender, first, stop in find_runs(clusters, senders, sequences):
            run = rows.slice(start, stop - first)
            start += stop - first
            if not self.coverage.is_fresh(cluster, sender, first, stop):
                lacking = [
                    not self.coverage.contains(cluster, sender, number)
                    for number in range(first, stop)
                ]
                run = run.filter(pa.array(lacking))
            added += self._add_run(run, cluster, sender)
        self.fetched += added
        return added

    def _add_run(self, run: pa.RecordBatch, cluster: int, sender: int) -> int:
        added = 0
        for row in run.to_pylist():
            self.coverage.add(cluster, sender, row["sequence"], row["sequence"] + 1)
            origin = row["origin"]
            if origin is not None and not self.repeats.is_new_packed(origin):
                continue
            headers = row["headers"]
            self.writer.pending.append(
                [row["value"]],
                cluster=cluster,
                sender=sender,
                sequences=[row["sequence"]],
                batch=row["batch"],
                at_us=int(row["timestamp"].timestamp() * 1_000_000),
                keys=None if row["key"] is None else [row["key"]],
                headers=None
                if headers is None
                else [[(one["key"], one["value"]) for one in headers]],
                origins=None if origin is None else [origin],
            )
            self._keep(cluster, sender, [row["sequence"]])
            added += 1
        return added

    # Disk

    def cut(self) -> PendingRows | None:
        """Take away the rows that wait, to be written; None if there are none."""
        return self.writer.cut()

    def write(self, rows: PendingRows) -> int:
        """Make rows safe; return the offset after the last safe one."""
        return self.writer.write(rows)

    def memory(self, waiting: PendingRows | None, first: int) -> bytes:
        """Return the memory file, to be stored once the rows of a cut are safe."""
        past = self.writer.durable + (0 if waiting is None else len(waiting))
        return encode_memory(self.known.to_memory(first, past))

    def find_cut(self, retention: Retention, now_us: int) -> tuple[int, list[Run]] | None:
        """Return the offset before which segments may go, and what is in them; or None."""
        segments, open_bytes = find_segments(self.reader)
        commits = load_commits(self.writer.folder)
        slowest = min(commits.values()) if commits else None
        cut = find_cut(segments, retention, now_us, slowest, open_bytes)
        if not segments or cut <= segments[0].first:
            return None
        runs: list[Run] = []
        for batch in self.reader.read(segments[0].first, cut, strict=False):
            columns = (batch.column(name) for name in ("cluster", "sender", "sequence"))
            runs += find_runs(*columns)
        return cut, runs

    def forget(self, runs: list[Run]) -> None:
        """Note that messages are about to leave the log; it still knows that it had them."""
        for run in runs:
            self.kept.discard(*run)

    def trim(self, cut: int, memory: bytes) -> int:
        """Remove the segments before an offset, after keeping what was known of them."""
        store_memory(self.writer.disk, self.writer.folder, memory)
        removed = self.writer.remove_before(cut)
        self.removed_segments += removed
        return removed

    def close(self) -> None:
        """Write what waits, and keep what is known.

        Not after a failed write: what is known but not written would never be recorded.
        """
        self.writer.close()
        if self.writer.is_broken:
            return
        memory = self.memory(None, self.reader.bounds()[0])
        store_memory(self.writer.disk, self.writer.folder, memory)
