"""The commands, put together.

Command modules import nothing heavy at their top: what a command needs it
imports when it runs, so that ``quicksilver --help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from quicksilver.cli import (
    demo,
    doctor,
    experiment,
    gms,
    model,
    overlap,
    pub,
    record,
    report,
    sim,
    soak,
    sub,
    sweep,
    tables,
    top,
    up,
)
from quicksilver.cli import object as object_
from quicksilver.cli.bench import command as bench

app = typer.Typer(
    name="quicksilver",
    help="Reliable multicast for many groups, without a broker.",
    epilog="Start with: quicksilver demo. Then: quicksilver gms, and pub and sub in other windows.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from quicksilver import __version__

        print(f"quicksilver {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    del version


app.command("demo")(demo.demo)
app.add_typer(gms.app, name="gms")
app.command("pub")(pub.pub)
app.command("sub")(sub.sub)
app.command("record")(record.record)
app.command("up")(up.up)
app.command("top")(top.top)
app.command("doctor")(doctor.doctor)
app.command("sim")(sim.sim)
app.command("soak")(soak.soak)
app.command("experiment")(experiment.experiment)
app.command("report")(report.report)
app.command("gold")(tables.gold)
app.command("sql")(tables.sql)
app.add_typer(model.app, name="model")
app.add_typer(object_.app, name="object")
app.add_typer(overlap.app, name="overlap")
app.command("sweep")(sweep.sweep)
app.add_typer(bench.app, name="bench")


def invoke(arguments: Sequence[str]) -> int:
    """Run a command line; returns the exit code, raises what went wrong."""
    outcome: Any = typer.main.get_command(app).main(
        args=list(arguments), prog_name="quicksilver", standalone_mode=False
    )
    return outcome if isinstance(outcome, int) else 0
