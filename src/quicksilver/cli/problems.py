"""Which errors are a user's to read, and the one line that each becomes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from quicksilver.stdx.install import install_line
from quicksilver.stdx.text import printable

LINE_CHARS_MAX = 2000


class CommandError(Exception):
    """A command could not do what it was asked to; the text says what to do next."""


@contextmanager
def needing(what: str, extra: str) -> Iterator[None]:
    """Name the extra to install if an import in the block fails; ``what`` is what needs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise CommandError(f"{what} needs {error.name}: {install_line(extra)}") from None


class MisuseError(CommandError):
    """Options that do not fit together, or a value that cannot be used."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What the user reads, and what the shell sees."""

    line: str
    exit_code: int


def describe(error: Exception) -> Problem | None:
    """Return the problem behind an error; None when it is a bug of ours."""
    # Only a command that fails pays for importing these.
    import typer

    from quicksilver.membership.addresses import BadAddressPoolError
    from quicksilver.membership.store import StoreError
    from quicksilver.net.faults import FaultError
    from quicksilver.net.interfaces import InterfaceError
    from quicksilver.node.errors import AddressError, QuicksilverError

    # typer brings its own copy of click or uses an installed one, by version; the
    # base of its public error is the same class in both.
    click_error = typer.BadParameter.__mro__[2]
    if isinstance(error, click_error):
        return _describe_usage(error)
    if isinstance(error, MisuseError | FaultError | AddressError | BadAddressPoolError):
        return Problem(_one_line(error), 2)
    if isinstance(error, CommandError | QuicksilverError | InterfaceError | StoreError):
        return Problem(_one_line(error), 1)
    if isinstance(error, TimeoutError):
        return Problem(_one_line(error) or "no answer in time", 1)
    if isinstance(error, OSError):
        return Problem(_describe_system(error), 1)
    if _is_ours(error):
        return Problem(_one_line(error), 1)
    if type(error).__module__.startswith("pyspark."):
        from quicksilver.spark.errors import reason

        said = reason(error)
        return None if said is None else Problem(said, 1)
    return None


def find_shown_help(error: Exception) -> str | None:
    """Return the help that was asked for by typing no command; None for any other error.

    It is empty when typer has printed the help already.
    """
    if type(error).__name__ != "NoArgsIsHelpError":
        return None
    text = str(getattr(error, "message", ""))
    return f"{text}\n" if text else ""


def _describe_usage(error: Exception) -> Problem:
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    hint = f"; try: {context.command_path} --help" if context is not None else ""
    text = " ".join(message.split()).rstrip(".")
    return Problem(text + hint, int(getattr(error, "exit_code", 2)))


def _describe_system(error: OSError) -> str:
    reason = error.strerror or str(error)
    match error.errno:
        case errno.EADDRINUSE:
            return f"{_one_line(error) if error.strerror is None else reason}; choose another port"
        case errno.EMFILE | errno.ENFILE:
            return f"{reason}; raise the limit, for example: ulimit -n 65536"
        case _:
            where = f"{os.fspath(error.filename)}: " if error.filename else ""
            return f"{where}{reason}"


def _is_ours(error: Exception) -> bool:
    """Errors of lower layers state what happened and what to do in their text."""
    return type(error).__module__.startswith("quicksilver.") and isinstance(error, Exception)


def _one_line(error: Exception) -> str:
    # What others sent may be part of it.
    return printable(" ".join(str(error).split()), LINE_CHARS_MAX)
