"""``quicksilver sweep``: thousands of simulations on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quicksilver.cli import options
from quicksilver.cli.output import emit, plural, remark, say


def sweep(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.toml", help="File that says what to sweep.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder for the results. Default: out/sweep/NAME.",
            show_default=False,
        ),
    ] = None,
    master: options.Master = None,
    conf: options.Conf = None,
    as_json: options.Json = False,
) -> int:
    """Run simulations for all seeds and parameters of a file, on Spark.

    A sweep that was stopped goes on where it stopped. The exit code is 1 if any simulation
    failed; the first failures are listed with the commands that replay them.
    """
    import msgspec

    from quicksilver.experiments.sweep import load_sweep
    from quicksilver.spark.sessions import parse_conf, session
    from quicksilver.spark.sweep import RESULTS, TRACES, run_sweep, summarise, write_points

    asked = load_sweep(file)
    folder = out if out is not None else Path("out") / "sweep" / asked.name
    settings = parse_conf(conf or [])
    with session(f"quicksilver sweep {asked.name}", master=master, conf=settings) as spark:
        results = run_sweep(
            spark, asked, folder, lambda done, of: remark(f"{done:,}/{of:,} simulations")
        )
        summary = summarise(results)
        if asked.kind == "experiment":
            write_points(results, asked, folder)
    path = folder / RESULTS
    traces = None if asked.traces == "none" else str(folder / TRACES)
    if as_json:
        found = msgspec.to_builtins(summary)
        emit("summary", {**found, "results": str(path), "traces": traces})
    else:
        for row in summary.failures:
            say(f"{row['replay']}: {row['problem']}")
        say(f"{plural(summary.simulations, 'simulation')}, {summary.failed} failed; in {path}")
        if traces is not None:
            say(f"traces: {traces}")
    return 0 if not summary.failed else 1
