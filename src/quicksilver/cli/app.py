"""The commands, put together.

Only the module of the command that was typed is imported, and command modules import
nothing heavy at their top: what a command needs it imports when it runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

COMMANDS = {
    "demo": "demo:demo",
    "gms": "gms:app",
    "scope": "scope:app",
    "controller": "controller:controller",
    "pub": "pub:pub",
    "sub": "sub:sub",
    "record": "record:record",
    "up": "up:up",
    "top": "top:top",
    "doctor": "doctor:doctor",
    "sim": "sim:sim",
    "soak": "soak:soak",
    "experiment": "experiment:experiment",
    "report": "report:report",
    "gold": "trace_tables:gold",
    "sql": "trace_tables:sql",
    "model": "model:app",
    "object": "object:app",
    "pl": "pl:app",
    "overlap": "overlap:app",
    "sweep": "sweep:sweep",
    "bench": "bench.command:app",
}
"""Where each command is: a module of this package, and a function or a group of commands in it."""

COMPLETE_VARIABLE = "_QUICKSILVER_COMPLETE"
"""Set by the shell's completion, which may ask about any command."""


def _show_version(wanted: bool) -> None:
    if wanted:
        from quicksilver import __version__
        from quicksilver.cli.output import say

        say(f"quicksilver {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    del version


def make_app(names: Iterable[str] = tuple(COMMANDS)) -> typer.Typer:
    """Return the command line with these commands."""
    app = typer.Typer(
        name="quicksilver",
        help="Reliable multicast for many groups, without a broker.",
        epilog="Start with: quicksilver demo. Then run quicksilver gms, and quicksilver sub and "
        "quicksilver pub in other windows.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name in names:
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(import_module(f"quicksilver.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def invoke(arguments: Sequence[str]) -> int:
    """Run a command line; returns the exit code, raises what went wrong."""
    typed = next((word for word in arguments if not word.startswith("-")), "")
    is_known = typed in COMMANDS and COMPLETE_VARIABLE not in os.environ
    command: Any = typer.main.get_command(make_app([typed]) if is_known else make_app())
    if COMPLETE_VARIABLE in os.environ:
        command.main(prog_name="quicksilver")
    # Not `main`, which makes the same of Ctrl-C and of every other signal.
    try:
        with command.make_context("quicksilver", list(arguments)) as context:
            outcome = command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    return outcome if isinstance(outcome, int) else 0
