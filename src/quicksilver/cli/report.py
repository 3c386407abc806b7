"""``quicksilver report``: runs as a page with the papers' figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quicksilver.cli.options import Conf, Json, Master
from quicksilver.cli.output import emit, remark, say
from quicksilver.cli.problems import needing

if TYPE_CHECKING:
    from quicksilver.analysis.page import Section

DEFAULT_OUT = Path("out/report")


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folders of experiments, of traces, or of one traced run.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the page and its figures.")
    ] = DEFAULT_OUT,
    timelines: Annotated[
        bool,
        typer.Option(
            help="Whether to show a timeline of each experiment's last point, from its trace."
        ),
    ] = True,
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Make an HTML page with figures, also as PNG and SVG files, from experiments and traces.

    The page can be read offline. Each figure stands next to what the papers claim. A trace
    becomes a timeline of losses, repairs, tokens and views.
    """
    from quicksilver.spark.sessions import parse_conf, session

    settings = parse_conf(conf or [])
    with needing("report", "analysis"):
        import matplotlib  # noqa: F401  # only to see whether the extra is installed

        from quicksilver.analysis.report.job import make_report
    before = {path: path.stat().st_mtime_ns for path in out.glob("*.svg")}

    def tell_traces(traced: Mapping[Path, Sequence[str]]) -> list[Section]:
        with session("quicksilver report", master=master, conf=settings) as spark:
            from quicksilver.spark.telemetry.run_report import tell_runs

            return tell_runs(spark, traced, out, remark)

    page = make_report(runs, out, tell_traces=tell_traces, timelines=timelines)
    # The folder may have figures of an earlier report, too.
    figures = sorted(
        path.name for path in out.glob("*.svg") if path.stat().st_mtime_ns != before.get(path)
    )
    if as_json:
        emit("report", {"page": str(page), "figures": figures})
    else:
        say(f"{page}: {len(figures)} figures, each also as SVG and PNG in {out}")
