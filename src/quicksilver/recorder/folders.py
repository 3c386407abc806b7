"""Where a recording is: one folder a group, named so that every group has a name."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, unquote

DATA_SUFFIX = ".arrows"
INDEX_SUFFIX = ".index"
LOCK = "recorder.lock"
_STEM = re.compile(r"[0-9]{20}")


def folder_of(path: Path, group: str) -> Path:
    """Return the folder of a group's log."""
    return path / f"group={quote(group, safe='')}"


def recorded_groups(path: Path) -> list[str]:
    """Return the groups that are recorded under a path, by name."""
    if not path.is_dir():
        return []
    return sorted(
        unquote(folder.name.removeprefix("group="))
        for folder in path.iterdir()
        if folder.name.startswith("group=") and folder.is_dir()
    )


def segment_stems(folder: Path) -> list[int]:
    """Return the first offsets of the segments in a folder, in order."""
    if not folder.is_dir():
        return []
    return sorted(
        int(one.stem)
        for one in folder.iterdir()
        if one.suffix == DATA_SUFFIX and _STEM.fullmatch(one.stem)
    )


def data_path(folder: Path, first: int) -> Path:
    """Return the file of the segment that begins with an offset."""
    return folder / f"{first:020d}{DATA_SUFFIX}"


def index_path(folder: Path, first: int) -> Path:
    """Return the index of the segment that begins with an offset."""
    return folder / f"{first:020d}{INDEX_SUFFIX}"
