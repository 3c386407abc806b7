"""``quicksilver sql``: ask a run's tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quicksilver.cli.options import Conf, Json, Master
from quicksilver.cli.output import emit, make_console, remark
from quicksilver.cli.problems import CommandError, MisuseError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_MAX = 10_000
"""Rows that are printed; who wants more writes them with Spark."""


def sql(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="Such as: select * from runs. 'tables' lists.")
    ],
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="DIR", help="Folder of runs, one run, or an experiment's."),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option("--gold", metavar="DIR", help="Tables that `quicksilver gold` keeps up."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=ROWS_MAX, help="Rows to show.")] = 100,
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Query traces: records, seconds of nodes and regions, latency, repairs, anomalies.

    Views: runs, trace, node_seconds, region_seconds, group_seconds, latency, ack_times,
    repairs; slow_receivers, convoys, oscillation, priority_inversions, hot_regions,
    partitions, late_alarms, failures.
    """
    from quicksilver.spark.sessions import parse_conf, session

    settings = parse_conf(conf or [])
    try:
        from quicksilver.analysis.inputs import find_traces
        from quicksilver.spark.telemetry.incremental import read_gold
        from quicksilver.spark.telemetry.reading import find_problems
        from quicksilver.spark.telemetry.views import make_views, register
    except ModuleNotFoundError as error:
        raise CommandError(f"sql needs {error.name}: pip install 'quicksilver[spark]'") from None
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
                    emit({"table": name, "columns": dict(table.dtypes)})
                else:
                    print(f"{name}: {', '.join(f'{c} {t}' for c, t in table.dtypes)}")
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
            emit(row.asDict(recursive=True))
    else:
        from rich.table import Table

        table = Table(*found.columns)
        for row in rows[:limit]:
            table.add_row(*(_cell(value) for value in row))
        make_console().print(table)
    if len(rows) > limit:
        remark(f"only the first {limit} rows are shown; --limit shows more")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:,.3f}" if isinstance(value, float) else str(value)
