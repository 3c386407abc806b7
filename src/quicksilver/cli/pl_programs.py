"""Which program a command means: a file, or one of the library by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quicksilver.cli.problems import CommandError, needing

SUFFIX = ".pl"

Program = Annotated[
    str,
    typer.Argument(
        metavar="PROGRAM",
        help="A program: a file (*.pl), or the name of one in the library, such as cleanup.",
    ),
]


def read_program(named: str) -> tuple[str, str]:
    """Return what messages call a program, and its text; CommandError if there is none."""
    with needing("the Properties Language", "properties"):
        import lark  # noqa: F401 - the parser; better said here than in the middle

        from quicksilver.properties import library
        from quicksilver.properties.check.symbols import suggest
    path = Path(named)
    if path.suffix == SUFFIX or "/" in named or path.is_file():
        try:
            return named, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise CommandError(f"{named} is not text in UTF-8") from None
    if named in library.names():
        return named, library.text_of(named)
    hint = suggest(named, library.names())
    raise CommandError(
        f"there is no program {named}; {hint or 'quicksilver pl list shows those of the library'}"
    )
