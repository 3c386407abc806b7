"""Which files of this machine objects may open: none, unless it is said.

A reference may come from anybody, for example from a shared desktop. If it could
name any database, opening it would show that database to everybody.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar


class FileRefusedError(Exception):
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
