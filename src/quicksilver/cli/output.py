"""How commands speak: JSON lines for programs, short lines for people.

What was asked for goes to standard output; remarks, and the progress of many runs, go
to standard error, so that a pipe carries data only.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Self

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


class RunProgress:
    """Shows on standard error how many runs are done: a bar on a terminal, else some lines."""

    def __init__(self, name: str, total: int, *, is_quiet: bool, lines_every: int = 0) -> None:
        """``lines_every``: without a terminal, how many runs a line stands for; 0: no lines."""
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._console = Console(stderr=True)
        self.has_bar = (
            self._console.is_terminal and not is_quiet and "NO_PROGRESS" not in os.environ
        )
        """Otherwise there are lines, or nothing."""
        self._name = name
        self._total = total
        self._count = 0
        self._lines_every = 0 if is_quiet else lines_every
        self._bar = Progress(
            TextColumn(name),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            disable=not self.has_bar,
        )
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    @property
    def next_one(self) -> str:
        """Return which run comes next, such as ``3/10``."""
        return f"{self._count + 1}/{self._total}"

    def describe(self, text: str) -> None:
        """Say beside the bar what is going on."""
        self._bar.update(self._task, description=text)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def advance(self, remark: str = "") -> None:
        """Count one run that is finished."""
        self._count += 1
        self._bar.update(self._task, advance=1, description=remark)
        if self._lines_every and not self.has_bar and not self._count % self._lines_every:
            self.say(f"{self._count}/{self._total} {self._name}, {remark}".rstrip(", "))
