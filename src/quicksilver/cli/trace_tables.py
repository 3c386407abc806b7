"""``quicksilver gold`` and ``quicksilver sql``: tables of traces, kept up to date and queried."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli.options import Conf, Json, Master
from quicksilver.cli.output import emit, remark, say
from quicksilver.cli.problems import MisuseError, needing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


DEFAULT_OUT = Path("out/gold")
EVERY_S = 30.0


def gold(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder with traces: of runs, of one run, or of an experiment.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the tables.")] = DEFAULT_OUT,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep the tables up to date until Ctrl-C.")
    ] = False,
    every: Annotated[
        float,
        typer.Option(
            min=1.0, metavar="SECONDS", help="With --watch: how often to look for new files."
        ),
    ] = EVERY_S,
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Bring silver and gold tables, as Parquet, up to date with traces.

    Only files that are new since the last time are read. `quicksilver sql --gold DIR` queries
    the tables. With --watch the command goes on until Ctrl-C, while runs are still writing.
    """
    from quicksilver.spark.sessions import parse_conf, session

    settings = parse_conf(conf or [])
    with needing("gold", "spark"):
        from quicksilver.analysis.inputs import find_traces
        from quicksilver.spark.telemetry.incremental import start_gold
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
            _tell_gold(out, tables.files, as_json=as_json)
            raise
    _tell_gold(out, tables.files, as_json=as_json)


def _tell_gold(out: Path, files: int, *, as_json: bool) -> None:
    if as_json:
        emit("tables", {"out": str(out), "files": files})
    else:
        say(f"{out}: up to date, {files:,} new files")


ROWS_MAX = 10_000
"""Rows that are printed; who wants more writes them with Spark."""


def sql(
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY",
            help="A query, such as: select * from runs. The word tables lists all tables.",
        ),
    ],
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="DIR",
            help="Folder with traces: of runs, of one run, or of an experiment.",
        ),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option(
            "--gold", metavar="DIR", help="Folder of tables that `quicksilver gold` wrote."
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=ROWS_MAX, help="Largest number of rows to show.")
    ] = 100,
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Query traces: records, rates per second, latency, repairs, anomalies.

    Views: runs, trace, node_seconds, region_seconds, group_seconds, latency, ack_times,
    repairs; slow_receivers, convoys, oscillation, priority_inversions, hot_regions,
    partitions, late_alarms, failures.
    """
    from quicksilver.spark.sessions import parse_conf, session

    settings = parse_conf(conf or [])
    with needing("sql", "spark"):
        from quicksilver.analysis.inputs import find_traces
        from quicksilver.spark.telemetry.incremental import read_gold
        from quicksilver.spark.telemetry.reading import find_problems
        from quicksilver.spark.telemetry.views import make_views, register
    if (trace is None) == (gold is None):
        raise MisuseError("say where to look: --trace DIR or --gold DIR")
    folder, runs = find_traces(trace) if trace is not None else (Path(), [])
    for problem in find_problems(folder, runs):
        remark(problem)
    with session("quicksilver sql", master=master, conf=settings) as spark:
        if gold is not None:
            tables = register(read_gold(spark, gold))
        else:
            tables = make_views(spark, folder, runs)
        if query.strip().lower() == "tables":
            for name, table in tables.items():
                if as_json:
                    emit("table", {"table": name, "columns": dict(table.dtypes)})
                else:
                    say(f"{name}: {', '.join(f'{c} {t}' for c, t in table.dtypes)}")
            return
        _show(_ask(spark, query), limit, as_json=as_json)


def _ask(spark: Any, query: str) -> DataFrame:
    from pyspark.errors import AnalysisException, ParseException

    try:
        found: DataFrame = spark.sql(query)
    except (AnalysisException, ParseException) as error:
        first = str(error).strip().splitlines()[0]
        raise MisuseError(f"{first}; see: quicksilver sql tables --trace DIR") from None
    return found


def _show(found: DataFrame, limit: int, *, as_json: bool) -> None:
    rows = found.limit(limit + 1).collect()
    if as_json:
        for row in rows[:limit]:
            emit("row", {"row": row.asDict(recursive=True)})
    else:
        from quicksilver.cli.screen import SafeTable, make_console

        table = SafeTable(*found.columns)
        for row in rows[:limit]:
            table.add_row(*(_cell(value) for value in row))
        make_console().print(table)
    if len(rows) > limit:
        remark(f"only the first {limit} rows are shown; --limit shows more")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
