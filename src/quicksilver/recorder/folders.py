"""Where a recording is: one folder a group, named so that every group has a name."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, unquote

DATA_SUFFIX = ".arrows"
INDEX_SUFFIX = ".index"
LOCK = "recorder.lock"
NEVER = 1 << 62
"""An offset that no log reaches: the end of a segment that is being written."""
_STEM = re.compile(r"[0-9]{20}")


def folder_of(path: Path, group: str) -> Path:
    """Return the folder of a group's log."""
    return path / f"group={quote(group, safe='')}"


def group_of(folder: Path) -> str:
    """Return the group whose log is in a folder."""
    return unquote(folder.name.removeprefix("group="))


def recorded_groups(path: Path) -> list[str]:
    """Return the groups that are recorded under a path, by name."""
    if not path.is_dir():
        return []
    return sorted(
        group_of(folder)
        for folder in path.iterdir()
        if folder.name.startswith("group=") and folder.is_dir()
    )


def segment_stems(folder: Path, suffix: str = DATA_SUFFIX) -> list[int]:
    """Return the first offsets of the segments in a folder, or of their indexes, in order."""
    if not folder.is_dir():
        return []
    return sorted(
        int(one.stem)
        for one in folder.iterdir()
        if one.suffix == suffix and _STEM.fullmatch(one.stem)
    )


def with_ends(stems: list[int]) -> list[tuple[int, int]]:
    """Return segments with the offset before which each of them ends."""
    return list(zip(stems, [*stems[1:], NEVER][: len(stems)], strict=True))


def data_path(folder: Path, first: int) -> Path:
    """Return the file of the segment that begins with an offset."""
    return folder / f"{first:020d}{DATA_SUFFIX}"


def index_path(folder: Path, first: int) -> Path:
    """Return the index of the segment that begins with an offset."""
    return folder / f"{first:020d}{INDEX_SUFFIX}"
