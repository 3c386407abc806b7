"""Logs for tests: rows that are told from each other, written as a recorder would."""

from __future__ import annotations

from pathlib import Path

from quicksilver.node.messages import Batch
from quicksilver.recorder.batches import MARK, seal
from quicksilver.recorder.folders import data_path, folder_of, index_path
from quicksilver.recorder.group_log import GroupLog
from quicksilver.recorder.reader import LogReader
from quicksilver.recorder.rows import COLUMNS, GROUP_KEY, VERSION_KEY
from quicksilver.recorder.writer import LogConfig, LogWriter

GROUP = "prices"
CONFIG = LogConfig(segment_bytes=4_000, does_sync=False)


def value(number: int) -> bytes:
    """The value of one message, different from all others."""
    return b"message %d" % number


def batch(first: int, count: int, *, sender: int = 1, cluster: int = 7) -> Batch:
    """Messages of one sender as a node delivers them."""
    payloads = [value(number) for number in range(first, first + count)]
    return Batch(GROUP, sender, 3, payloads, first, None, cluster)


def write_rows(writer: LogWriter, first: int, count: int, at_us: int = 1_000) -> None:
    """Append rows and make them safe."""
    writer.pending.append(
        [value(number) for number in range(first, first + count)],
        cluster=7,
        sender=1,
        sequences=range(first, first + count),
        batch=3,
        at_us=at_us,
    )
    writer.flush()


def filled(path: Path, batches: int = 6, rows: int = 10) -> LogWriter:
    """A log with several segments."""
    writer = LogWriter(path, GROUP, CONFIG)
    for number in range(batches):
        write_rows(writer, number * rows, rows, at_us=1_000 * (number + 1))
    return writer


def values(path: Path, first: int | None = None, *, strict: bool = True) -> list[bytes]:
    """All values that can be read."""
    log = LogReader(path, GROUP)
    start, past = log.bounds()
    found = log.read(start if first is None else first, past, strict=strict)
    return [one for rows in found for one in rows.column("value").to_pylist()]


def become_version(path: Path, group: str, first: int, version: str) -> None:
    """Make a segment one of another version; those before the second had no seals."""
    data = data_path(folder_of(path, group), first)
    metadata = {VERSION_KEY: version.encode(), GROUP_KEY: group.encode()}
    plain = COLUMNS.with_metadata(metadata).serialize()
    header = seal(plain, first=first, rows=0).head
    content = data.read_bytes()[len(header) :]
    if version == "1":
        header = plain.to_pybytes()
    data.write_bytes(header + content.replace(MARK, b"qsbatch" + version.encode()))
    index_path(data.parent, first).unlink()


def flush(log: GroupLog) -> None:
    """Make safe what waits."""
    rows = log.cut()
    if rows is not None:
        log.write(rows)
