"""Code from outside: refused, unless its source is allowed and its bytes are the ones meant.

A library is named by a reference, and a reference may come from anywhere. Three
things must hold before any of its code runs: somebody on this node allowed the
place it comes from, the reference says the SHA-256 of its bytes, and the bytes
have it. They are read once; what was hashed is what is compiled. The static
check of a reference never gets here.
"""

from __future__ import annotations

import hashlib
import hmac
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from quicksilver.live.references.errors import LiveReferenceError
from quicksilver.live.references.model import LibraryAt
from quicksilver.live.references.names import is_sha256

SCHEMES: Final = ("file", "http", "https")

Fetch = Callable[[str, int, float], bytes]
"""Given a URL, a limit of bytes and of seconds, returns at most one byte more than the limit."""


class LibraryError(LiveReferenceError):
    """A library was not loaded; no code of it has run, unless it raised while loading."""

    reason: str = "cannot be loaded"
    """What is wrong, in words that follow its URL."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url

    def __str__(self) -> str:
        shown = self.url if len(self.url) <= 200 else self.url[:197] + "..."
        return f"the library {shown} {self.reason}"


class LibraryRefusedError(LibraryError):
    """No source on the allow-list covers this place."""

    reason = "is refused: its source is not on this node's list of allowed ones"


class LibraryHashMissingError(LibraryError):
    """The reference does not say which bytes are meant."""

    reason = "is refused: the reference does not say its SHA-256"


class LibraryHashError(LibraryError):
    """The bytes are not the ones that the reference means."""

    def __init__(self, url: str, expected: str, actual: str) -> None:
        super().__init__(url)
        self.expected = expected
        self.actual = actual
        self.reason = f"is refused: its SHA-256 is {actual}, not {expected[:64]}"


class LibraryFetchError(LibraryError):
    """The bytes could not be read."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(url)
        self.problem = problem
        self.reason = f"cannot be read: {problem}"


class LibraryCodeError(LibraryError):
    """The bytes are those meant but are no working code."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(url)
        self.problem = problem
        self.reason = f"does not work: {problem}"


class LibraryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What this node allows. The default allows nothing."""

    sources: tuple[str, ...] = ()
    """Allowed places: a URL that ends in ``/`` covers all below it, another only itself."""

    bytes_max: int = 4 << 20
    """A larger library is refused before it is hashed."""

    seconds_max: float = 20.0
    """How long to wait for a network."""

    def is_allowed(self, url: str) -> bool:
        """Whether some source covers a place. What cannot be read unambiguously is not."""
        wanted = _normalise(url)
        if wanted is None:
            return False
        for source in self.sources:
            allowed = _normalise(source)
            if allowed is None or allowed[:2] != wanted[:2]:
                continue
            is_tree = allowed[2].endswith("/")
            if wanted[2] == allowed[2] or (is_tree and wanted[2].startswith(allowed[2])):
                return True
        return False


def _normalise(url: str) -> tuple[str, str, str] | None:
    """Return scheme, place and path; None for anything that could be read in two ways."""
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    path = unquote(parts.path)
    is_plain = (
        parts.scheme in SCHEMES
        and "@" not in parts.netloc
        and not parts.fragment
        and not parts.query
        and "\\" not in path
        and "%" not in path
        and path.startswith("/")
        and not any(step in {"..", "."} for step in path.split("/"))
        and "//" not in path
        and path.isprintable()
    )
    if not is_plain:
        return None
    if parts.scheme == "file" and parts.netloc not in {"", "localhost"}:
        return None
    host = "" if parts.scheme == "file" else (parts.hostname or "")
    if parts.scheme != "file" and not host:
        return None
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, f"{host}:{port or default}", path


def make_module(library: LibraryAt, source: bytes) -> ModuleType:
    """Return the module that bytes make which ``read_library`` returned; raises LibraryError.

    The module is not entered into ``sys.modules``: two libraries of one name do
    not meet, and nothing can be replaced by loading one.
    """
    assert library.sha256 is not None
    name = f"quicksilver_library_{library.sha256[:16]}"
    module = ModuleType(name, f"The library at {library.url}.")
    module.__file__ = library.url
    try:
        exec(compile(source, library.url, "exec"), module.__dict__)  # noqa: S102  # the point of it: allowed and hashed
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise LibraryCodeError(library.url, " ".join(problem.split())) from error
    return module


def read_library(library: LibraryAt, policy: LibraryPolicy, *, fetch: Fetch | None = None) -> bytes:
    """Return a library's bytes, once they are known to be the ones meant; raises LibraryError."""
    url = library.url
    if not policy.is_allowed(url):
        raise LibraryRefusedError(url)
    if library.sha256 is None:
        raise LibraryHashMissingError(url)
    if not is_sha256(library.sha256):
        raise LibraryHashError(url, library.sha256, "64 hexadecimal digits")
    try:
        data = (fetch or fetch_bytes)(url, policy.bytes_max, policy.seconds_max)
    except (OSError, ValueError) as error:
        problem = str(error) or type(error).__name__
        raise LibraryFetchError(url, " ".join(problem.split())) from None
    if len(data) > policy.bytes_max:
        raise LibraryFetchError(url, f"it has more than {policy.bytes_max} bytes")
    actual = hashlib.sha256(data).hexdigest()
    if not hmac.compare_digest(actual, library.sha256):
        raise LibraryHashError(url, library.sha256, actual)
    return data


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """An allowed place that points elsewhere would make the list meaningless."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def fetch_bytes(url: str, bytes_max: int, seconds_max: float) -> bytes:
    """Read a file or a URL, at most one byte more than allowed; raises OSError."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        with Path(unquote(parts.path)).open("rb") as file:
            return file.read(bytes_max + 1)
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(url, timeout=seconds_max) as answer:
            data: bytes = answer.read(bytes_max + 1)
    except urllib.error.HTTPError as error:
        error.close()
        raise
    return data
