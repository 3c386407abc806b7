"""Code from outside: refused unless allowed, hashed and right."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from quicksilver.live.references.library import (
    Fetch,
    LibraryCodeError,
    LibraryFetchError,
    LibraryHashError,
    LibraryHashMissingError,
    LibraryPolicy,
    LibraryRefusedError,
    make_module,
    read_library,
)
from quicksilver.live.references.model import LibraryAt

CODE = b"class Thing:\n    answer = 42\n"
HASH = hashlib.sha256(CODE).hexdigest()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "things.py"
    file.write_bytes(CODE)
    return file


def allow(path: Path) -> LibraryPolicy:
    return LibraryPolicy(sources=(f"{path.parent.as_uri()}/",))


def load_library(
    library: LibraryAt, policy: LibraryPolicy, fetch: Fetch | None = None
) -> ModuleType:
    """As a folder of a library's objects does it."""
    return make_module(library, read_library(library, policy, fetch=fetch))


def test_nothing_is_allowed_by_default(path: Path) -> None:
    """Even with the right hash."""
    with pytest.raises(LibraryRefusedError, match="not on this node's list"):
        load_library(LibraryAt(path.as_uri(), HASH), LibraryPolicy())


def test_an_allowed_library_with_its_hash_is_loaded(path: Path) -> None:
    """Both are needed, and both are there."""
    found = load_library(LibraryAt(path.as_uri(), HASH), allow(path))
    assert found.Thing.answer == 42
    exact = LibraryPolicy(sources=(path.as_uri(),))
    assert load_library(LibraryAt(path.as_uri(), HASH), exact).Thing


def test_without_a_hash_nothing_is_read(path: Path) -> None:
    """The reference must say which bytes it means."""
    path.unlink()
    with pytest.raises(LibraryHashMissingError):
        load_library(LibraryAt(path.as_uri(), None), allow(path))


def test_another_hash_is_refused_and_nothing_runs(path: Path, tmp_path: Path) -> None:
    """The error names both hashes."""
    path.write_bytes(f"open({str(tmp_path / 'ran')!r}, 'w')".encode())
    with pytest.raises(LibraryHashError) as caught:
        load_library(LibraryAt(path.as_uri(), HASH), allow(path))
    assert caught.value.actual != HASH
    assert HASH in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_what_was_hashed_is_what_runs() -> None:
    """A source that answers differently the second time is asked only once."""
    answers = iter([CODE, b"raise SystemExit"])
    policy = LibraryPolicy(sources=("https://good.example/",))
    url = "https://good.example/things.py"
    made = load_library(LibraryAt(url, HASH), policy, fetch=lambda *_: next(answers))
    assert made.Thing.answer == 42
    assert next(answers) == b"raise SystemExit"


@pytest.mark.parametrize(
    "url",
    [
        "https://good.example.evil.example/lib/a.py",
        "https://good.example@evil.example/lib/a.py",
        "https://user:secret@good.example/lib/a.py",
        "https://good.example:444/lib/a.py",
        "http://good.example/lib/a.py",
        "https://good.example/lib/../secret.py",
        "https://good.example/lib/%2e%2e/secret.py",
        "https://good.example/lib/%252e%252e/secret.py",
        "https://good.example/library/a.py",
        "https://good.example/lib/a.py?x=1",
        "https://good.example/lib/a.py#x",
        "https://good.example/lib//a.py",
        "https://good.example\\lib\\a.py",
        "https://good.example:x/lib/a.py",
        "file:///lib/a.py",
        "file://good.example/lib/a.py",
        "ftp://good.example/lib/a.py",
        "data:text/plain,x",
        "/lib/a.py",
        "",
    ],
)
def test_tricks_with_urls_do_not_help(url: str) -> None:
    """The list covers what is plainly below it, and nothing that could be read in two ways."""
    policy = LibraryPolicy(sources=("https://good.example/lib/",))
    assert policy.is_allowed("https://good.example/lib/deep/a.py")
    assert policy.is_allowed("https://good.example:443/lib/a.py")
    assert not policy.is_allowed(url)
    with pytest.raises(LibraryRefusedError):
        load_library(LibraryAt(url, HASH), policy)


def test_a_source_without_a_slash_is_one_file() -> None:
    """Not everything whose name begins like it."""
    policy = LibraryPolicy(sources=("file:///lib/a.py",))
    assert policy.is_allowed("file:///lib/a.py")
    assert not policy.is_allowed("file:///lib/a.pyc")


def test_a_missing_file_is_said(path: Path) -> None:
    """Without a traceback of ours."""
    path.unlink()
    with pytest.raises(LibraryFetchError, match="No such file"):
        load_library(LibraryAt(path.as_uri(), HASH), allow(path))


def test_a_large_library_is_refused(path: Path) -> None:
    """Before it is hashed."""
    policy = LibraryPolicy(sources=(path.as_uri(),), bytes_max=10)
    with pytest.raises(LibraryFetchError, match="more than 10 bytes"):
        load_library(LibraryAt(path.as_uri(), HASH), policy)


@pytest.mark.parametrize("code", [b"def", b"\x00", b"1/0", b"import no_such_module_at_all"])
def test_code_that_does_not_work_is_said(path: Path, code: bytes) -> None:
    """It is the library's fault, and says so in one line."""
    path.write_bytes(code)
    with pytest.raises(LibraryCodeError) as caught:
        load_library(LibraryAt(path.as_uri(), hashlib.sha256(code).hexdigest()), allow(path))
    assert "\n" not in str(caught.value)


@pytest.fixture
def server() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/lib/moved.py":
                self.send_response(302)
                self.send_header("Location", "/elsewhere/things.py")
                self.end_headers()
                return
            self.send_response(200)
            self.end_headers()
            self.wfile.write(CODE)

        def log_message(self, *_: object) -> None:
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{made.server_port}"
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.mark.slow
def test_a_library_comes_over_http(server: str) -> None:
    """With the same conditions; a redirection leads off the list and is not followed."""
    policy = LibraryPolicy(sources=(f"{server}/lib/",))
    assert load_library(LibraryAt(f"{server}/lib/things.py", HASH), policy).Thing
    with pytest.raises(LibraryFetchError, match="302"):
        load_library(LibraryAt(f"{server}/lib/moved.py", HASH), policy)
