"""How commands speak: JSON lines for programs, short lines for people.

What was asked for goes to standard output; remarks and errors go to standard error, so that
a pipe carries data only. With ``--json`` both are JSON, one object per line, and every
object has ``event``, which says what it is.

Text may contain what others sent: names, groups, payloads. Whatever a terminal would obey
in it is shown escaped, here and nowhere else; ``screen`` does the same for tables.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from quicksilver.stdx.text import printable

LINE_CHARS_MAX = 2000

_encode = msgspec.json.Encoder().encode


class _Form:
    """The form that the running command speaks in."""

    is_json = False


@contextmanager
def speaking(*, as_json: bool) -> Iterator[None]:
    """Have remarks and errors be JSON or text meanwhile; commands choose their answers' form."""
    before = _Form.is_json
    _Form.is_json = as_json
    try:
        yield
    finally:
        _Form.is_json = before


def is_json() -> bool:
    """Return whether the command was started with ``--json``."""
    return _Form.is_json


def emit(event: str, fields: Mapping[str, Any] | msgspec.Struct | None = None) -> None:
    """Print one JSON object as one line, at once; ``event`` says what it is."""
    sys.stdout.write(encode(event, fields) + "\n")
    sys.stdout.flush()


def encode(event: str, fields: Mapping[str, Any] | msgspec.Struct | None = None) -> str:
    """Return an object that ``emit`` would print."""
    found = msgspec.structs.asdict(fields) if isinstance(fields, msgspec.Struct) else fields or {}
    assert "event" not in found
    return _encode({"event": event, **found}).decode()


def encode_payload(payload: bytes, *, is_hex: bool = False) -> dict[str, str]:
    """Return bytes as JSON can carry them, and how to read them back."""
    if is_hex:
        return {"payload": payload.hex(), "encoding": "hex"}
    try:
        return {"payload": payload.decode(), "encoding": "utf-8"}
    except UnicodeDecodeError:
        return {"payload": base64.b64encode(payload).decode(), "encoding": "base64"}


def show_payload(payload: bytes) -> str:
    """Return bytes as text in one line, in which nothing is obeyed by a terminal."""
    text = payload.decode("utf-8", errors="backslashreplace")
    return printable(text, len(text))


def say(text: str) -> None:
    """Print a command's answer, or lines of it, at once."""
    sys.stdout.write(show_lines(text) + "\n")
    sys.stdout.flush()


def remark(text: str) -> None:
    """Print one line about what the command does, apart from its answer."""
    _tell("remark", text, {})


def tell_error(text: str, exit_code: int) -> None:
    """Print the one line with which a command fails."""
    _tell("error", text, {"exit_code": exit_code})


def _tell(event: str, text: str, fields: Mapping[str, Any]) -> None:
    line = printable(text, LINE_CHARS_MAX)
    if _Form.is_json:
        sys.stderr.write(encode(event, {"text": line, **fields}) + "\n")
    else:
        sys.stderr.write(f"quicksilver: {line}\n")
    sys.stderr.flush()


def show_lines(text: str) -> str:
    """Return text whose line breaks are kept and whose other control characters are escaped."""
    if text.isprintable():
        return text
    return "\n".join(printable(line, len(line)) for line in text.split("\n"))


def plural(count: int, noun: str) -> str:
    """Return ``"1 message"``, ``"1,000 messages"``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
