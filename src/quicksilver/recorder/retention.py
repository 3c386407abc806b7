"""What a log may forget: by age, by size, and never what a consumer has not had."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from quicksilver.recorder.folders import NEVER
from quicksilver.recorder.reader import LogReader

CONSUMERS = "consumers"


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one log; without any, everything is kept."""

    age_max_s: float | None = None
    """Segments whose newest row is older go."""
    bytes_max: int | None = None
    """The oldest segments go while all together are larger."""
    needs_commit: bool = False
    """Only what every consumer has committed may go; alone, all of that goes."""


class SegmentFacts(msgspec.Struct, frozen=True):
    """What retention needs to know of a finished segment."""

    first: int
    past: int
    size_bytes: int
    latest_us: int


def find_cut(
    segments: Sequence[SegmentFacts],
    retention: Retention,
    now_us: int,
    committed: int | None,
    open_bytes: int = 0,
) -> int:
    """Return the offset before which finished segments may go.

    ``committed`` is what the slowest consumer has committed; None if there is
    no consumer, and then a retention that needs commits keeps everything.
    ``open_bytes`` is the size of the segment that is being written.
    """
    cut = segments[0].first if segments else 0
    total = sum(one.size_bytes for one in segments) + open_bytes
    has_limit = retention.age_max_s is not None or retention.bytes_max is not None
    for one in segments:
        is_old = retention.age_max_s is not None and one.latest_us < now_us - int(
            retention.age_max_s * 1_000_000
        )
        is_too_much = retention.bytes_max is not None and total > retention.bytes_max
        if retention.needs_commit:
            if committed is None or one.past > committed:
                break
            if not (is_old or is_too_much or not has_limit):
                break
        elif not (is_old or is_too_much):
            break
        cut = one.past
        total -= one.size_bytes
    return cut


def find_segments(log: LogReader) -> tuple[list[SegmentFacts], int]:
    """Return what is known of a log's finished segments, and the size of the open one."""
    facts: list[SegmentFacts] = []
    for span in log.spans():
        segment = span.segment
        try:
            size = segment.path.stat().st_size
        except FileNotFoundError:
            continue
        # How old a damaged segment is nobody knows: it does not go by age.
        latest = (
            max((entry.latest_us for entry in span.entries), default=0)
            if span.is_complete
            else NEVER
        )
        facts.append(SegmentFacts(segment.first, span.end, size, latest))
    open_bytes = facts.pop().size_bytes if facts else 0
    return facts, open_bytes


# Committed offsets: one small file a consumer, beside the segments.


class Commit(msgspec.Struct, frozen=True):
    """How far a consumer is: it never asks for what lies before."""

    consumer: str
    offset: int
    checksum: int
    """Of the other two: a larger offset than the true one would let rows go unread."""


def _checksum(consumer: str, offset: int) -> int:
    return zlib.crc32(f"{offset} {consumer}".encode())


def store_commit(folder: Path, consumer: str, offset: int) -> None:
    """Note how far a consumer of a log is."""
    place = folder / CONSUMERS
    place.mkdir(exist_ok=True)
    path = place / f"{quote(consumer, safe='')}.json"
    fresh = path.with_suffix(f".{os.getpid()}.new")
    commit = Commit(consumer, offset, _checksum(consumer, offset))
    fresh.write_bytes(msgspec.json.encode(commit))
    fresh.replace(path)


def load_commits(folder: Path) -> dict[str, int]:
    """Return the committed offset of each consumer; a file that cannot be read counts as 0."""
    found: dict[str, int] = {}
    place = folder / CONSUMERS
    if not place.is_dir():
        return found
    for path in sorted(place.glob("*.json")):
        try:
            commit: Commit | None = msgspec.json.decode(path.read_bytes(), type=Commit)
        except (msgspec.MsgspecError, OSError):
            commit = None
        if commit is None or commit.checksum != _checksum(commit.consumer, commit.offset):
            found[unquote(path.stem)] = 0
        else:
            found[commit.consumer] = commit.offset
    return found
