"""Reading a recorded group: from any process, while it is being written.

Segments are memory-mapped, and batches are handed out as they lie in the file.
A reader sees what the mark names, which is what is safe on disk; what the mark
names and cannot be read is damaged, and is reported.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import msgspec
import pyarrow as pa

from quicksilver.recorder.batches import Entry, find_entry
from quicksilver.recorder.errors import (
    DamagedSegmentError,
    NoLogError,
    OffsetsLostError,
    OtherVersionError,
    StateFileError,
)
from quicksilver.recorder.folders import (
    INDEX_SUFFIX,
    NEVER,
    folder_of,
    recorded_groups,
    segment_stems,
    with_ends,
)
from quicksilver.recorder.segment import NOT_THERE, Segment
from quicksilver.recorder.state_files import MARK_FILE, Mark, load_losses, load_mark
from quicksilver.stdx.ranges import RangeSet


class Span(msgspec.Struct, frozen=True):
    """One segment of a log, and where its batches are."""

    segment: Segment
    end: int
    """The offset after the last that the segment should have."""
    entries: list[Entry]
    """Where its batches are; those after ``end`` are not safe yet."""

    @property
    def is_complete(self) -> bool:
        """Whether no batch is missing at its end."""
        reached = self.entries[-1].past if self.entries else self.segment.first
        return reached >= self.end


class LogReader:
    """The log of one group."""

    def __init__(self, path: Path, group: str) -> None:
        self.group = group
        self.folder = folder_of(path, group)
        if not self.folder.is_dir():
            raise NoLogError(path, tuple(recorded_groups(path)))
        self._segments: dict[int, Segment] = {}

    def segments(self) -> list[Segment]:
        """Return the segments there are now, in order."""
        stems = segment_stems(self.folder)
        self._segments = {
            first: self._segments.get(first) or Segment(self.folder, first) for first in stems
        }
        return [self._segments[first] for first in stems]

    def bounds(self) -> tuple[int, int]:
        """Return the log's first offset, and the one after the last that is safe.

        All between them was there once: what cannot be read is damaged, and
        ``read`` says so. Raises StateFileError.
        """
        mark = self._mark()
        return mark.first, mark.past

    def spans(self, first: int = 0, past: int = NEVER) -> Iterator[Span]:
        """Yield the segments that should hold offsets of a range, with what they do hold."""
        mark = self._mark()  # before the segments: a newer one is of no use to an older mark
        self.segments()
        begin = max(first, mark.first)
        for stem, following in with_ends(sorted(self._segments)):
            end = min(following, mark.past)
            if end > max(begin, stem) and stem < past:
                segment = self._segments[stem]
                yield Span(segment, end, segment.entries(end))

    def _mark(self) -> Mark:
        mark = load_mark(self.folder)
        if mark is None:
            segments = self.segments()
            if not segments and not segment_stems(self.folder, INDEX_SUFFIX):
                return Mark(0, 0)
            mark = load_mark(self.folder)  # a recorder makes it before its first segment
            if mark is None:
                raise self._no_mark(segments)
        if mark.is_whole:
            return mark
        return Mark(mark.first, self._find_end(mark.past), mark.serial)

    def _no_mark(self, segments: list[Segment]) -> StateFileError | OtherVersionError:
        for segment in segments[:1]:
            problem = segment.problem(segment.first, NEVER, "")
            if isinstance(problem, OtherVersionError):
                return problem
        return StateFileError(self.folder / MARK_FILE, "nobody knows how far the log is safe")

    def _find_end(self, past: int) -> int:
        """Return how far the segments go on after an offset that is safe.

        The mark after that one was written, although it cannot be read now: what it
        named was safe before.
        """
        for first, following in with_ends(segment_stems(self.folder)):
            if following > past >= first:
                entries = Segment(self.folder, first).entries(following)
                past = max(past, entries[-1].past if entries else first)
        return past

    def find_time(self, timestamp_us: int) -> int:
        """Return the offset of the first row at or after a time; the end if there is none.

        Only indexes are looked at, and the one batch that has the row. Times do
        not always ascend: rows that were fetched from another recorder keep theirs.
        """
        for span in self.spans():
            entries = span.entries
            newest = list(accumulate((entry.latest_us for entry in entries), max))
            at = bisect_left(newest, timestamp_us)
            if at == len(entries):
                continue
            try:
                times = span.segment.read(entries[at]).column("timestamp").cast(pa.int64())
            except (DamagedSegmentError, OtherVersionError, OffsetsLostError):
                return entries[at].first  # whoever reads it is told
            is_late = times.to_numpy() >= timestamp_us
            return entries[at].first + int(is_late.argmax())
        return self.bounds()[1]

    def read(
        self, first: int, past: int, *, strict: bool = True, losses: RangeSet | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows from one offset up to another.

        What is not there raises OffsetsLostError, damaged batches raise
        DamagedSegmentError, segments of another version OtherVersionError. They are
        left out if not ``strict``, and where ``losses`` has all their offsets.
        """
        known = RangeSet() if losses is None else losses
        expected = first
        for span in self.spans(first, past):
            segment, entries = span.segment, span.entries
            for entry in entries[find_entry(entries, first) :]:
                if entry.first >= min(past, span.end):
                    break
                if strict:
                    self._check_there(segment, expected, entry.first, known)
                try:
                    batch = segment.read(entry)
                except (DamagedSegmentError, OtherVersionError, OffsetsLostError):
                    if strict and not known.contains_range(entry.first, entry.past):
                        raise
                else:
                    start = max(0, first - entry.first)
                    yield batch.slice(start, min(entry.rows, past - entry.first) - start)
                expected = entry.past
            end = min(span.end, past)
            if strict:
                self._check_there(segment, expected, end, known)
            expected = max(expected, end)
        if strict:
            self._check_there(None, expected, past, known)

    def _check_there(self, segment: Segment | None, first: int, end: int, losses: RangeSet) -> None:
        """Raise what offsets before a batch of a segment are lost by."""
        if first >= end or losses.contains_range(first, end):
            return
        if segment is not None and segment.first <= first:
            raise segment.lost(first, end)
        is_there = segment is not None or end <= self.bounds()[1]
        why = NOT_THERE if is_there else "the log ends before them"
        raise OffsetsLostError(self.group, first, end, why)

    def read_rest(self, offset: int, past: int) -> Iterator[pa.RecordBatch]:
        """Yield what is left of the rows from one offset up to another.

        What retention took and what a repair gave up is passed over; other damage
        raises DamagedSegmentError, OffsetsLostError or OtherVersionError.
        """
        losses = load_losses(self.folder)
        while offset < past:
            offset = max(offset, self.bounds()[0])
            try:
                for batch in self.read(offset, past, losses=losses):
                    yield batch
                    offset = batch.column("offset")[-1].as_py() + 1
                return
            except OffsetsLostError as error:
                if self.bounds()[0] <= error.first:
                    raise
                offset = max(offset, self.bounds()[0])

    def splits(self, first: int, past: int, parts: int) -> list[tuple[int, int]]:
        """Cut a range of offsets into about equal parts, where batches begin."""
        if past <= first:
            return []
        wanted = max(1, parts)
        size = -(-(past - first) // wanted)
        cuts = [first]
        for span in self.spans(first, past):
            for entry in span.entries:
                if entry.first >= min(past, span.end):
                    break
                if entry.first > first and entry.first - cuts[-1] >= size:
                    cuts.append(entry.first)
        return list(zip(cuts, [*cuts[1:], past], strict=True))
