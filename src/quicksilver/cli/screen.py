"""Tables and progress on a terminal; the only module that uses ``rich``.

A node may be called ``x[/oops]`` or ``\\x1b[2J``. Here such text is text: no console reads
markup, and every cell is escaped. Colours are asked for with ``styled``.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from quicksilver.cli.output import show_lines
from quicksilver.stdx.text import printable

PIPE_COLUMNS = 110
"""Width of tables where there is no terminal to measure."""


def make_console(*, is_error: bool = False) -> Console:
    """Return a console as wide as the terminal, which reads no markup."""
    stream = sys.stderr if is_error else sys.stdout
    return Console(
        width=None if stream.isatty() else PIPE_COLUMNS,
        stderr=is_error,
        markup=False,
        emoji=False,
        highlight=False,
    )


def styled(text: object, style: str = "") -> Text:
    """Return text in a colour, escaped."""
    return Text(show_lines(str(text)), style=style)


def stack(*parts: RenderableType) -> RenderableType:
    """Return things that are shown one below the other."""
    return Group(*parts)


def make_live() -> Live:
    """Return a screen that shows one thing after the other, by its method `update`."""
    return Live(console=make_console(), auto_refresh=False, screen=True)


class SafeTable(Table):
    """A table whose cells are shown as they are."""

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row; texts are escaped, and neither markup nor control characters count."""
        super().add_row(
            *(
                Text(printable(cell, len(cell))) if isinstance(cell, str) else cell
                for cell in cells
            ),
            **options,
        )


class RunProgress:
    """Shows on standard error how many runs are done: a bar on a terminal, else some lines."""

    def __init__(self, name: str, total: int, *, is_quiet: bool, lines_every: int = 0) -> None:
        """``lines_every``: without a terminal, print a line after so many runs; 0: no lines."""
        self._console = make_console(is_error=True)
        self.has_bar = (
            self._console.is_terminal and not is_quiet and "NO_PROGRESS" not in os.environ
        )
        """Otherwise there are lines, or nothing."""
        self._name = name
        self._total = total
        self._count = 0
        self._lines_every = 0 if is_quiet else lines_every
        self._bar = Progress(
            TextColumn(name, markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
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
        self._bar.update(self._task, description=printable(text))

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._console.print(styled(line), soft_wrap=True)

    def advance(self, remark: str = "") -> None:
        """Count one run that is finished."""
        self._count += 1
        self._bar.update(self._task, advance=1, description=printable(remark))
        if self._lines_every and not self.has_bar and not self._count % self._lines_every:
            self.say(f"{self._count}/{self._total} {self._name}, {remark}".rstrip(", "))
