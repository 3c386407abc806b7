"""``quicksilver gold``: keep the tables of traces up to date."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from quicksilver.cli.options import Conf, Json, Master
from quicksilver.cli.output import emit, remark, say
from quicksilver.cli.problems import CommandError

DEFAULT_OUT = Path("out/gold")
EVERY_S = 30.0


def gold(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder of runs, one run, or an experiment's.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the tables are.")] = DEFAULT_OUT,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on with what is written from now on.")
    ] = False,
    every: Annotated[
        float, typer.Option(min=1.0, metavar="SECONDS", help="With --watch: how often to look.")
    ] = EVERY_S,
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Bring silver and gold tables, as Parquet, up to date with traces.

    Only files that are new since the last time are read; `quicksilver sql --gold DIR`
    queries the tables. With --watch until Ctrl-C, while runs are still writing.
    """
    from quicksilver.spark.sessions import parse_conf, session

    settings = parse_conf(conf or [])
    try:
        from quicksilver.analysis.inputs import find_traces
        from quicksilver.spark.telemetry.incremental import start_gold
    except ModuleNotFoundError as error:
        raise CommandError(f"gold needs {error.name}: pip install 'quicksilver[spark]'") from None
    folder, runs = find_traces(trace)
    one_run = runs[0] if trace.name.startswith("run=") else "*"
    with session("quicksilver gold", master=master, conf=settings) as spark:
        query, tables = start_gold(
            spark, folder, out, run=one_run, every_s=every if watch else None, remark=remark
        )
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            # The batch under way is done again the next time.
            query.stop()
    if as_json:
        emit({"out": str(out), "files": tables.files})
    else:
        say(f"{out}: up to date, {tables.files:,} new files")
