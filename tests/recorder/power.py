"""A disk whose power can be cut between any two steps.

Changes are made to real files and noted besides: which bytes and which names were
synced. After a cut, ``aftermath`` makes a folder as a file system may leave it. Of
what was not synced, each block is there or not or garbage, and of the changes of
names since the last sync of their folder some first ones are there.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import BinaryIO

from quicksilver.recorder.disk import Disk

BLOCK = 4096


class PowerCutError(BaseException):
    """No code that runs sees a power cut: no ``except Exception`` may catch it."""


class _File:
    """The bytes of one file, whatever its name."""

    def __init__(self) -> None:
        self.now = bytearray()
        self.synced = b""


Names = dict[Path, _File]


class CuttableDisk(Disk):
    """A disk that is cut off before its ``steps``-th change."""

    def __init__(self, root: Path, steps: int) -> None:
        super().__init__(does_sync=True)
        self.root = root
        self.steps = steps
        self.taken = 0
        self._changes: list[Names] = []
        """What the names were after each change since they were synced."""
        self._files: dict[int, _File] = {}
        """By the handles under which they are open, or were."""
        self._now: Names = {}
        for path in root.rglob("*"):
            if path.is_file():
                file = self._now[path] = _File()
                file.now += path.read_bytes()
                file.synced = bytes(file.now)
        self._synced: Names = dict(self._now)

    def _step(self) -> None:
        if self.taken == self.steps:
            raise PowerCutError
        self.taken += 1

    def _renamed(self) -> None:
        self._changes.append(dict(self._now))

    def _of(self, file: BinaryIO) -> _File:
        return self._files[file.fileno()]

    # The steps

    def make_folder(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)

    def create(self, path: Path) -> BinaryIO:
        self._step()
        file = super().create(path)
        self._files[file.fileno()] = self._now[path] = _File()
        self._renamed()
        return file

    def open(self, path: Path) -> BinaryIO:
        file = super().open(path)
        self._files[file.fileno()] = self._now[path]
        return file

    def write_at(self, file: BinaryIO, position: int, *parts: bytes | memoryview) -> int:
        data = b"".join(parts)
        # A write is two steps: it may stop in the middle.
        for start, stop in ((0, len(data) // 2), (len(data) // 2, len(data))):
            self._step()
            super().write_at(file, position + start, data[start:stop])
            now = self._of(file).now
            now.extend(bytes(max(0, position + stop - len(now))))
            now[position + start : position + stop] = data[start:stop]
        return position + len(data)

    def truncate(self, file: BinaryIO, size: int) -> None:
        self._step()
        super().truncate(file, size)
        del self._of(file).now[size:]

    def sync(self, file: BinaryIO) -> None:
        self._step()
        one = self._of(file)
        one.synced = bytes(one.now)

    def sync_folder(self, folder: Path) -> None:
        self._step()
        self._synced, self._changes = dict(self._now), []

    def rename(self, old: Path, new: Path) -> None:
        self._step()
        super().rename(old, new)
        self._now[new] = self._now.pop(old)
        self._renamed()

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)
        if self._now.pop(path, None) is not None:
            self._renamed()

    # Afterwards

    def aftermath(self, chance: random.Random) -> None:
        """Leave the files as they may be when the power is back."""
        states = [self._synced, *self._changes]
        names = chance.choice(states)
        for path in self.root.rglob("*"):
            if path.is_file():
                path.unlink()
        for path, file in names.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_survivor(file, chance))


def _survivor(file: _File, chance: random.Random) -> bytes:
    """Return what is left of a file whose last changes were perhaps not written."""
    synced, now = file.synced, bytes(file.now)
    if synced == now:
        return now
    size = chance.choice([len(synced), len(now), chance.randint(*sorted((len(synced), len(now))))])
    left = bytearray(size)
    for start in range(0, size, BLOCK):
        stop = min(start + BLOCK, size)
        before = synced[start:stop].ljust(stop - start, b"\0")
        after = now[start:stop].ljust(stop - start, b"\0")
        garbage = bytearray(before)
        if before != after:
            # Only what was being written can be garbage.
            for at in range(stop - start):
                if before[at] != after[at]:
                    garbage[at] = chance.randrange(256)
        left[start:stop] = chance.choice([before, after, garbage])
    return bytes(left)
