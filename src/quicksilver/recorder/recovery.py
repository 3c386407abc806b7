"""Opening a log that was closed, or left behind by a crash.

What was promised is known from the mark, from the indexes and from the memory
file: each of them is written after the rows that it names are safe. So whatever
lies before the furthest of them must be there, and is refused loudly if it is
not. What lies after it was never promised: whole batches are kept, since a
reader may have seen the mark that a power cut took, and the rest is cut off.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import msgspec

from quicksilver.recorder.batches import ENTRY_BYTES, Entry, find_batch, load_entries, parse_entries
from quicksilver.recorder.errors import (
    DamagedLogError,
    DamagedSegmentError,
    OffsetsLostError,
    OtherVersionError,
    RecorderError,
)
from quicksilver.recorder.folders import (
    INDEX_SUFFIX,
    NEVER,
    data_path,
    group_of,
    index_path,
    segment_stems,
)
from quicksilver.recorder.reader import LogReader
from quicksilver.recorder.segment import Segment
from quicksilver.recorder.state_files import Mark, load_losses, load_mark
from quicksilver.stdx.ranges import RangeSet


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """Where a writer continues a log, and what it must mend first."""

    mark: Mark
    """From the log's first offset up to the next one to give."""
    segment: int | None = None
    """The segment to append to; None if a new one is to be begun."""
    end: int = 0
    """Where its last batch ends; what follows is cut off."""
    promised_end: int = 0
    """Where its last promised batch ends: what follows may never have reached the disk."""
    indexes: dict[int, list[Entry]] = {}
    """Indexes that are to be made anew."""
    leftovers: tuple[int, ...] = ()
    """Segments of which nothing was promised, or that retention had begun to remove."""


def find_proof(folder: Path, mark: Mark | None, remembered: int) -> int:
    """Return the offset after the last that anything on disk says was safe."""
    indexes = segment_stems(folder, INDEX_SUFFIX)
    named = load_entries(index_path(folder, indexes[-1]))[0] if indexes else []
    return max(
        0 if mark is None else mark.past,
        remembered,
        max((entry.past for entry in named), default=0),
    )


def examine(folder: Path, remembered: int) -> Opening:
    """Return how to go on with a log; ``remembered`` is what its memory file says is safe.

    Raises DamagedLogError, StateFileError, OtherVersionError. Bodies of batches
    that were promised are not read here.
    """
    group = group_of(folder)
    mark = load_mark(folder)
    if mark is None:
        LogReader(folder.parent, group).bounds()  # raises unless the log is new
        mark = Mark(0, 0)
    proof = find_proof(folder, mark, remembered)
    stems = segment_stems(folder)
    leftovers = [first for first, following in pairwise(stems) if following <= mark.first]
    stems = stems[len(leftovers) :]
    leftovers += [one for one in segment_stems(folder, INDEX_SUFFIX) if one < mark.first]
    lost = RangeSet()
    if proof > mark.first:
        lost.add(mark.first, proof)
        lost.discard(stems[0] if stems else proof, NEVER)
    indexes: dict[int, list[Entry]] = {}
    for first, following in pairwise(stems):
        if not _is_finished(folder, first, following):
            entries, lacking = survey(Segment(folder, first), following)
            lost = lost.union(lacking)
            if not lacking:
                indexes[first] = entries
    opening = Opening(mark=Mark(mark.first, proof, mark.serial), indexes=indexes)
    if stems:
        opening, lacking = _examine_last(folder, stems[-1], proof, opening)
        lost = lost.union(lacking)
    damage = lost.difference(load_losses(folder))
    if damage:
        raise DamagedLogError(_explain(folder, stems, *next(iter(damage))))
    return msgspec.structs.replace(opening, leftovers=(*leftovers, *opening.leftovers))


def survey(segment: Segment, end: int) -> tuple[list[Entry], RangeSet]:
    """Return the batches of a segment that are there, and the offsets of those that are not.

    A batch counts as there if its head is intact and its file long enough.
    """
    lacking = RangeSet([(segment.first, end)])
    found: list[Entry] = []
    named = segment.entries(end)
    try:
        handle = os.open(segment.path, os.O_RDONLY)
    except FileNotFoundError:
        return found, lacking
    try:
        size = os.fstat(handle).st_size
        for entry in named:
            if entry.end <= size and find_batch(handle, entry.start) == entry:
                found.append(entry)
                lacking.discard(entry.first, entry.past)
    finally:
        os.close(handle)
    return found, lacking


def _is_finished(folder: Path, first: int, following: int) -> bool:
    """Whether an index names all of a finished segment, by its last entry alone.

    A log of years has a hundred thousand segments: they are not read when it is opened.
    """
    try:
        with index_path(folder, first).open("rb") as file:
            file.seek(-ENTRY_BYTES, os.SEEK_END)
            last = parse_entries(file.read())
        size = data_path(folder, first).stat().st_size
    except OSError:
        return False
    return bool(last) and last[0].past == following and last[0].end == size


def _examine_last(
    folder: Path, first: int, proof: int, opening: Opening
) -> tuple[Opening, RangeSet]:
    """Return how to go on with the last segment, and what it lacks of what was promised."""
    segment = Segment(folder, first)
    entries, _ = survey(segment, NEVER)
    promised = [entry for entry in entries if entry.first < proof]
    lacking = RangeSet([(first, proof)] if first < proof else [])
    for entry in promised:
        lacking.discard(entry.first, entry.past)
    past = max(proof, first)
    mark = opening.mark
    if lacking:
        return msgspec.structs.replace(opening, mark=Mark(mark.first, past, mark.serial)), lacking
    kept = list(promised)
    for entry in entries[len(promised) :]:
        if entry.first != past or not _is_readable(segment, entry):
            break
        kept.append(entry)
        past = entry.past
    mark = Mark(mark.first, past, mark.serial)
    header = _header_end(segment.path)
    if not kept and header is None:
        # The machine stopped while the file was begun: nothing in it was promised.
        return msgspec.structs.replace(opening, mark=mark, leftovers=(first,)), lacking
    indexes = dict(opening.indexes)
    if load_entries(index_path(folder, first))[0] != kept:
        indexes[first] = kept
    begun = header or 0
    return (
        msgspec.structs.replace(
            opening,
            mark=mark,
            segment=first,
            end=kept[-1].end if kept else begun,
            promised_end=promised[-1].end if promised else begun,
            indexes=indexes,
        ),
        lacking,
    )


def _is_readable(segment: Segment, entry: Entry) -> bool:
    try:
        segment.read(entry)
    except (DamagedSegmentError, OffsetsLostError, OtherVersionError):
        return False
    return True


def _header_end(path: Path) -> int | None:
    """Return where the first batch of a segment begins; None if its header is not intact."""
    with path.open("rb") as file:
        found = find_batch(file.fileno(), 0)
    return None if found is None or found.rows else found.end


def _explain(folder: Path, stems: list[int], first: int, end: int) -> RecorderError:
    """Return the error that names the file in which promised rows are missing."""
    holders = [stem for stem in stems if stem <= first]
    if holders:
        segment = Segment(folder, holders[-1])
        segment.entries(end)
        problem = segment.lost(first, end)
        if not isinstance(problem, OffsetsLostError):
            return problem
    # The segment before these offsets is whole: theirs has gone.
    return DamagedSegmentError(data_path(folder, first), first, end, "the file is missing")
