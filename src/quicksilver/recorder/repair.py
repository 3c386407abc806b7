"""Going on with a log of which something is damaged for good.

No byte of a segment is changed: damaged ones stay where they are, to be looked at
or put right later. The offsets that cannot be read are written down as given up,
the mark and the memory are made anew, and the recorder begins a new segment after
everything that was ever promised. Readers are still told that the rows are gone.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from quicksilver.recorder.coverage import Coverage
from quicksilver.recorder.disk import Disk
from quicksilver.recorder.errors import DamagedSegmentError, OffsetsLostError, OtherVersionError
from quicksilver.recorder.folders import INDEX_SUFFIX, folder_of, segment_stems, with_ends
from quicksilver.recorder.memory import Known
from quicksilver.recorder.recovery import find_proof
from quicksilver.recorder.segment import Segment
from quicksilver.recorder.state_files import (
    Mark,
    MarkFile,
    Memory,
    encode_memory,
    load_losses,
    load_mark,
    load_memory,
    store_losses,
    store_memory,
)
from quicksilver.stdx.ranges import RangeSet


class Repaired(msgspec.Struct, frozen=True):
    """What a repair found."""

    group: str
    lost: list[tuple[int, int]]
    """Ranges of offsets that are given up now, the second number past the last."""
    has_new_mark: bool
    """Whether how far the log was safe had to be told from its segments."""
    past: int
    """The next offset to be given."""


def repair_log(path: Path, group: str, disk: Disk | None = None) -> Repaired:
    """Give up what cannot be read of a log; reads all of it.

    Nobody may write the log meanwhile. Raises OtherVersionError: what another
    version wrote is not damaged.
    """
    disk = Disk() if disk is None else disk
    folder = folder_of(path, group)
    mark, memory = load_mark(folder), load_memory(folder)
    stems = segment_stems(folder)
    everything = sorted({*stems, *segment_stems(folder, INDEX_SUFFIX)})
    if mark is None and not everything and memory is None:
        return Repaired(group, [], False, 0)
    first = _find_first(mark, memory, everything)
    proof = find_proof(folder, mark, 0 if memory is None else memory.past)
    proof = max(proof, first, everything[-1] if everything else 0)
    known, readable = Known(), RangeSet()
    for stem, following in with_ends(stems):
        if following > first:
            # Without a whole mark all that is there counts as promised.
            is_sure = mark is not None and mark.is_whole
            end = min(following, proof) if is_sure else following
            _read_segment(Segment(folder, stem), end, known, readable)
    if readable:
        proof = max(proof, readable.last() + 1)
    lost = RangeSet([(first, proof)] if first < proof else []).difference(readable)
    given_up = lost.difference(load_losses(folder))
    _restore_coverage(known, memory)
    # Rows that are given up first, then the files that a recorder believes.
    store_losses(disk, folder, lost)
    store_memory(disk, folder, encode_memory(known.to_memory(first, proof)))
    serial = 0 if mark is None else mark.serial
    MarkFile(disk, folder, Mark(first, proof, serial)).close()
    return Repaired(group, list(given_up), mark is None, proof)


def _find_first(mark: Mark | None, memory: Memory | None, stems: list[int]) -> int:
    """Return where a log begins, as far as anything on disk says so."""
    if mark is not None:
        return mark.first
    if memory is not None:
        return memory.first
    return stems[0] if stems else 0


def _read_segment(segment: Segment, end: int, known: Known, readable: RangeSet) -> None:
    for entry in segment.entries(end):
        if entry.first >= end:
            break
        try:
            batch = segment.read(entry)
        except (DamagedSegmentError, OffsetsLostError):
            continue
        known.add(batch)
        readable.add(entry.first, entry.past)
    if not segment.entries(end):
        problem = segment.problem(segment.first, end, "")
        if isinstance(problem, OtherVersionError):
            raise problem


def _restore_coverage(known: Known, memory: Memory | None) -> None:
    """Remember what retention took, and forget what was lost: it may come again."""
    if memory is None:
        return
    had, kept = Coverage.parse(memory.coverage), Coverage.parse(memory.kept)
    if had is None or kept is None:
        return
    for (cluster, sender), ranges in kept.missing_from(known.kept).items():
        for start, stop in ranges:
            had.discard(cluster, sender, start, stop)
    for (cluster, sender), ranges in had:
        for start, stop in ranges:
            known.coverage.add(cluster, sender, start, stop)
