"""Entry point of the ``quicksilver`` command.

Commands raise; here a known error becomes one line on standard error and an
exit code: 1 when something did not work, 2 when the command line made no
sense, 130 after Ctrl-C. A traceback means a bug of ours.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

NEEDS_EXTRA = "the command line needs: pip install 'quicksilver[cli]'"

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that is not UTF-8 shows what it cannot write as an escape.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    try:
        import rich  # noqa: F401  # only to see whether the extra is installed
        import typer  # noqa: F401  # the same
    except ModuleNotFoundError:
        print(NEEDS_EXTRA, file=sys.stderr)
        return EXIT_FAILED

    from quicksilver.cli.app import invoke
    from quicksilver.cli.problems import describe
    from quicksilver.lab.child import die_with_parent

    die_with_parent()
    try:
        return invoke(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output went away, as `| head` does: nothing to say,
        # and nothing may be flushed into the closed pipe at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except Exception as error:
        problem = describe(error)
        if problem is None:
            raise
        sys.stdout.flush()
        print(f"quicksilver: {problem.line}", file=sys.stderr)
        return problem.exit_code


if __name__ == "__main__":
    main()
