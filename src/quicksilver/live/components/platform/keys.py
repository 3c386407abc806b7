"""Keys of groups of nodes: kept by each node, known by name, never in a reference.

A key is a file of 64 hexadecimal digits that only its owner can read. Nodes that
have the same key under the same name can read each other.
"""

from __future__ import annotations

import re
import secrets
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, Final

KEY_BYTES: Final = 32
SUFFIX: Final = ".key"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DIGITS = re.compile(r"[0-9a-fA-F]{64}\s*")


class NoKeyError(Exception):
    """A key that this node does not have, or may not use."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(name, problem)
        self.name = name
        self.problem = problem

    def __str__(self) -> str:
        return f"the key {self.name!r} {self.problem}"


class KeyRing:
    """The keys of one node, by name, and what makes sessions different from each other."""

    MISSING_HINT: ClassVar = "say where keys are: object run --keys DIR, live.platform(keys=DIR)"

    def __init__(
        self,
        keys: Mapping[str, bytes],
        *,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        for name, key in keys.items():
            if len(key) != KEY_BYTES:
                raise NoKeyError(name, f"has {len(key)} bytes, not {KEY_BYTES}")
        self._keys = dict(keys)
        self._entropy = entropy

    @classmethod
    def load(cls, directory: Path) -> KeyRing:
        """Read all ``NAME.key`` files of a directory; raises OSError or NoKeyError."""
        paths = sorted(path for path in directory.iterdir() if path.suffix == SUFFIX)
        return cls({path.stem: read_key(path) for path in paths})

    def find(self, name: str) -> bytes:
        """Return a key; raises NoKeyError."""
        key = self._keys.get(name)
        if key is None:
            known = ", ".join(sorted(self._keys)) or "none"
            raise NoKeyError(name, f"is not on this node's key ring; it has: {known}")
        return key

    def draw(self, count: int) -> bytes:
        """Return bytes that nobody has drawn before."""
        return self._entropy(count)


def read_key(path: Path) -> bytes:
    """Read a key file; raises NoKeyError if others can read it or it holds no key."""
    with path.open("rb") as file:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise NoKeyError(path.stem, f"can be read by others: chmod 600 {path}")
        data = file.read(200)
    text = data.decode("ascii", "replace")
    if not _DIGITS.fullmatch(text):
        raise NoKeyError(path.stem, f"is not 64 hexadecimal digits: {path}")
    return bytes.fromhex(text.strip())


def create_key(directory: Path, name: str) -> Path:
    """Write a new key file; raises FileExistsError rather than replace one, and NoKeyError."""
    if not _NAME.fullmatch(name):
        raise NoKeyError(name, "needs a name of letters, digits, - and _")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / f"{name}{SUFFIX}"
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(secrets.token_hex(KEY_BYTES) + "\n", encoding="ascii")
    return path
