"""Files as a service: what a component keeps, and which files of the machine it may open.

What a component keeps across the life of its process is its own. Of other files of this
machine objects may open none, unless it is said: a reference may come from anybody, for
example from a shared desktop. If it could name any database, opening it would show that
database to everybody.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from quicksilver.stdx.errors import QuicksilverError

NAME_BYTES_MAX = 180


class Storage:
    """Named files that can be read, appended to, and replaced as a whole.

    What was synced, or put in place by ``replace``, survives the end of the machine;
    what was appended survives the end of the process.
    """

    MISSING_HINT: ClassVar[str] = (
        "say where to keep it: object run --store DIR, live.platform(store=DIR)"
    )

    def read(self, name: str) -> bytes | None:
        """Return what a file has; None if there is none."""
        raise NotImplementedError

    def append(self, name: str, data: bytes) -> None:
        """Add to the end of a file, which is made if it is not there."""
        raise NotImplementedError

    def sync(self, name: str) -> None:
        """Return when all that was appended is on the disk."""
        raise NotImplementedError

    def replace(self, name: str, data: bytes) -> None:
        """Put a file in the place of another, as a whole or not at all; synced."""
        raise NotImplementedError


class DirectoryTakenError(QuicksilverError, OSError):
    """Another process, or another storage of this one, uses the directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__(str(directory))
        self.directory = directory

    def __str__(self) -> str:
        return f"{self.directory} is in use by another storage: give each its own directory"


class FileStorage(Storage):
    """Files in one directory, which it has for itself until it is closed.

    Writing and syncing happen where it is called: an executor waits for the disk.
    """

    def __init__(self, directory: Path | str) -> None:
        self._open: dict[str, int] = {}
        self._lock = -1
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            self._lock = -1
            raise DirectoryTakenError(self._directory) from None

    def _path(self, name: str) -> Path:
        """Return a path inside the directory, whatever the name is."""
        quoted = quote(name, safe="").replace(".", "%2E")
        if len(quoted) > NAME_BYTES_MAX:
            quoted = quoted[:100] + "~" + hashlib.sha256(name.encode()).hexdigest()[:32]
        return self._directory / quoted

    def read(self, name: str) -> bytes | None:
        """Return what a file has; None if there is none."""
        try:
            return self._path(name).read_bytes()
        except FileNotFoundError:
            return None

    def append(self, name: str, data: bytes) -> None:
        """Add to the end of a file."""
        file = self._open.get(name)
        if file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            file = self._open[name] = os.open(self._path(name), flags, 0o600)
            self._sync_directory()
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]

    def sync(self, name: str) -> None:
        """Return when all that was appended is on the disk."""
        file = self._open.get(name)
        if file is not None:
            os.fdatasync(file)

    def replace(self, name: str, data: bytes) -> None:
        """Put a file in the place of another, as a whole or not at all; synced."""
        path = self._path(name)
        fresh = path.with_name(path.name + ".new")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(file, view) :]
            os.fsync(file)
        finally:
            os.close(file)
        fresh.rename(path)
        self._sync_directory()
        self._close(name)  # it is another file now

    def _sync_directory(self) -> None:
        file = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def _close(self, name: str) -> None:
        file = self._open.pop(name, None)
        if file is not None:
            os.close(file)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close all files, and let somebody else have the directory."""
        for name in list(self._open):
            with contextlib.suppress(OSError):
                self._close(name)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class FileRefusedError(QuicksilverError):
    """A file that objects may not open here."""

    def __init__(self, path: str, roots: tuple[Path, ...]) -> None:
        super().__init__(path, roots)
        self.path = path
        self.roots = roots

    def __str__(self) -> str:
        places = ", ".join(map(str, self.roots)) or "nowhere"
        return f"{self.path!r} is not where objects may open files here: {places}"


class SharedFiles:
    """A service of the runtime: the directories that objects may open files in."""

    MISSING_HINT: ClassVar[str] = (
        "say what to share: object run --files DIR, live.platform(files=DIR)"
    )

    def __init__(self, *roots: str | Path) -> None:
        self._roots = tuple(Path(root).resolve() for root in roots)

    def find(self, path: str) -> Path:
        """Return a file by a path within the first directory, or an absolute one within any.

        Raises FileRefusedError; links are followed before it is judged.
        """
        if not self._roots or "\0" in path:
            raise FileRefusedError(path, self._roots)
        found = (self._roots[0] / path).resolve()
        if not any(found.is_relative_to(root) for root in self._roots):
            raise FileRefusedError(path, self._roots)
        return found
