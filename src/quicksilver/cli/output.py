"""How commands speak: JSON lines for programs, short lines for people.

What was asked for goes to standard output; remarks go to standard error, so
that a pipe carries data only.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from quicksilver.stdx.text import printable

if TYPE_CHECKING:
    from rich.console import Console

PIPE_COLUMNS = 110
"""Width of tables where there is no terminal to measure."""

LINE_CHARS_MAX = 2000

_encode = msgspec.json.Encoder().encode


def emit(value: Any) -> None:
    """Print one JSON object as one line, at once."""
    sys.stdout.write(_encode(value).decode() + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Print one line of a command's answer, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def remark(text: str) -> None:
    """Print one line about what the command does, apart from its answer."""
    sys.stderr.write(f"quicksilver: {printable(text, LINE_CHARS_MAX)}\n")
    sys.stderr.flush()


def plural(count: int, noun: str) -> str:
    """Return ``"1 message"``, ``"1,000 messages"``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def make_console() -> Console:
    """Return a console for tables, as wide as the terminal."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else PIPE_COLUMNS)
