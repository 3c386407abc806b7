"""The steps by which files are changed, one method each.

All that a recorder writes goes through here, so a test can stop it between any
two steps and take away what was not synced. Reading needs no such care.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

FRESH_SUFFIX = ".new"


class Disk:
    """The file system; raises OSError, also when a disk is full."""

    def __init__(self, *, does_sync: bool = True) -> None:
        self.does_sync = does_sync
        """False: the kernel decides when bytes reach the disk."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder, and have its name written to disk."""
        if folder.is_dir():
            return
        folder.mkdir(parents=True, exist_ok=True)
        self.sync_folder(folder.parent)

    def create(self, path: Path) -> BinaryIO:
        """Make a file that does not exist yet."""
        return path.open("x+b", buffering=0)

    def open(self, path: Path) -> BinaryIO:
        """Open a file that exists, to change it."""
        return path.open("r+b", buffering=0)

    def write_at(self, file: BinaryIO, position: int, *parts: bytes | memoryview) -> int:
        """Write parts one after the other; return where they end."""
        left = [memoryview(part) for part in parts if len(part)]
        while left:
            count = os.pwritev(file.fileno(), left, position)
            position += count
            while left and count >= len(left[0]):
                count -= len(left.pop(0))
            if left:
                left[0] = left[0][count:]
        return position

    def truncate(self, file: BinaryIO, size: int) -> None:
        """Cut a file off."""
        file.truncate(size)

    def sync(self, file: BinaryIO) -> None:
        """Wait until what was written is safe."""
        if self.does_sync:
            os.fdatasync(file.fileno())

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names of a folder's files are safe."""
        if not self.does_sync:
            return
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file another's name, in one step."""
        old.replace(new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it is there."""
        path.unlink(missing_ok=True)

    def replace(self, path: Path, data: bytes) -> None:
        """Put new content in a file's place; the old one stays until the new one is safe."""
        fresh = path.with_name(path.name + FRESH_SUFFIX)
        self.remove(fresh)  # of a process that was stopped
        with self.create(fresh) as file:
            self.write_at(file, 0, data)
            self.sync(file)
        self.rename(fresh, path)
        self.sync_folder(path.parent)
