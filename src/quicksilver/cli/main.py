"""Entry point of the ``quicksilver`` command.

Commands raise; here a known error becomes one line on standard error and an
exit code: 1 when something did not work, 2 when the command line made no
sense, 130 after Ctrl-C, 143 after SIGTERM. A traceback means a bug of ours.

Only what the typed command needs is imported: the version is printed without any of it.
"""

from __future__ import annotations

import importlib.util
import io
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

EXIT_FAILED = 1
EXIT_MISUSED = 2


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that is not UTF-8 shows what it cannot write as an escape.
            stream.reconfigure(errors="backslashreplace")
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(sys.argv[1:]))


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    from quicksilver.lab.ending import interruption

    raise interruption(number)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    if list(arguments) == ["--version"]:
        from quicksilver import __version__

        sys.stdout.write(f"quicksilver {__version__}\n")
        return 0
    from quicksilver.cli.output import speaking

    with speaking(as_json="--json" in _options_in(arguments)):
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    if any(importlib.util.find_spec(package) is None for package in ("typer", "rich")):
        from quicksilver.cli.output import tell_error
        from quicksilver.stdx.install import install_line

        tell_error(f"the command line needs: {install_line('cli')}", EXIT_FAILED)
        return EXIT_FAILED
    _die_with_parent()
    try:
        return _invoke(arguments)
    except KeyboardInterrupt as error:
        from quicksilver.lab.ending import exit_code_of

        return exit_code_of(error)
    except BrokenPipeError:
        # Whoever read our output went away, as `| head` does: nothing to say,
        # and nothing may be flushed into the closed pipe at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED


def _invoke(arguments: Sequence[str]) -> int:
    from quicksilver.cli.app import invoke

    try:
        return invoke(arguments)
    except BrokenPipeError:
        raise
    except Exception as error:
        from quicksilver.cli.output import tell_error
        from quicksilver.cli.problems import describe, find_shown_help

        shown = find_shown_help(error)
        if shown is not None:
            sys.stdout.write(shown)
            return EXIT_MISUSED
        problem = describe(error)
        if problem is None:
            raise
        sys.stdout.flush()
        tell_error(problem.line, problem.exit_code)
        return problem.exit_code


def _options_in(arguments: Sequence[str]) -> Sequence[str]:
    """Return the words before ``--``; after it nothing is an option."""
    words = list(arguments)
    return words[: words.index("--")] if "--" in words else words


def _die_with_parent() -> None:
    # Few commands are children of others: the rest need not import how that is done.
    if "QUICKSILVER_PARENT" in os.environ:
        from quicksilver.lab.child import die_with_parent

        die_with_parent()


if __name__ == "__main__":
    main()
