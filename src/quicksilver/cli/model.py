"""``quicksilver model``: the papers' analytical model, fitted to runs and extrapolated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quicksilver.cli.options import Conf, Json, Master
from quicksilver.cli.output import emit, remark, say
from quicksilver.cli.problems import CommandError, needing

if TYPE_CHECKING:
    from quicksilver.analysis.model.observations import Observation

app = typer.Typer(
    no_args_is_help=True,
    help="Fit the papers' analytical model (equations 4.2 to 4.12) to runs, and extrapolate it.",
)
DEFAULT_OUT = Path("out/model")


def _need_extra() -> None:
    with needing("model", "analysis"):
        import matplotlib  # noqa: F401  # only to see whether the extra is installed
        import numpy  # noqa: F401  # the same


@app.command()
def fit(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folders of experiments (scale, light, tokenrate, agree) or of traces.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="Folder for the parameters, the figures and the page."),
    ] = DEFAULT_OUT,
    master: Master = None,
    conf: Conf = None,
    as_json: Json = False,
) -> None:
    """Fit the model's parameters to runs, and draw predictions next to measurements.

    Writes parameters.json, model.html and the figures (the papers' 4.50 to 4.57). Spark reads
    traces; experiments need no Spark.
    """
    _need_extra()
    from quicksilver.analysis.model.job import PAGE, PARAMETERS, fit_runs
    from quicksilver.analysis.model.tables import facts_of, table_of
    from quicksilver.spark.sessions import parse_conf, session

    settings = parse_conf(conf or [])

    def read_traces(paths: Sequence[Path]) -> list[Observation]:
        with session("quicksilver model", master=master, conf=settings) as spark:
            from quicksilver.spark.telemetry.observations import observe_runs

            return [each for path in paths for each in observe_runs(spark, path, remark)]

    fitted = fit_runs(runs, out, read_traces=read_traces, remark=remark)
    figures = sorted(path.name for path in out.glob("model-*.svg"))
    if as_json:
        emit(
            "model",
            {
                "parameters": str(out / PARAMETERS),
                "page": str(out / PAGE),
                "figures": figures,
                "model": fitted,
            },
        )
        return
    from quicksilver.cli.screen import SafeTable, make_console

    head, rows = table_of(fitted)
    table = SafeTable(*head, title=f"the model, fitted to runs ({fitted.setting})")
    for row in rows:
        table.add_row(*row)
    make_console().print(table)
    for fact in facts_of(fitted):
        say(fact)
    for missing in fitted.missing:
        say(f"not fitted: {missing.number} needs {missing.needs}")
    say(f"{out / PARAMETERS}, {out / PAGE}, {len(figures)} figures")


@app.command()
def predict(
    parameters: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="The file parameters.json that `quicksilver model fit` wrote."
        ),
    ],
    nodes: Annotated[str, typer.Option(metavar="N,N…", help="Numbers of nodes to predict for.")],
    memory_max: Annotated[
        float,
        typer.Option(
            min=1.0, metavar="MB", help="Megabytes that a sender may use (equation 4.12)."
        ),
    ] = 100.0,
    as_json: Json = False,
) -> None:
    """Predict for groups of any size, with intervals and the limit that memory sets.

    Each form of the model has a line of its own; "papers" uses the papers' own values.
    """
    _need_extra()
    from quicksilver.analysis.model.job import load_parameters, parse_sizes
    from quicksilver.analysis.model.prediction import papers_predict, predict

    sizes = parse_sizes(nodes)
    fitted = load_parameters(parameters)
    ours = predict(fitted, sizes, memory_max=1e6 * memory_max)
    if not ours:
        needs = "; ".join(f"{each.number} needs {each.needs}" for each in fitted.missing)
        raise CommandError(f"{parameters} lacks what a prediction needs: {needs}")
    both = [*ours, *papers_predict(sizes, 1e6 * memory_max)]
    if as_json:
        found = {"parameters": str(parameters), "setting": fitted.setting, "predictions": both}
        emit("predictions", found)
        return
    from quicksilver.cli.screen import SafeTable, make_console

    table = SafeTable(
        "nodes", "form", "token, ms", "ack, ms", "messages/s", "limited by", "memory, MB"
    )
    for each in both:
        table.add_row(
            f"{each.nodes:,}{'' if each.is_measured else ' *'}",
            each.form,
            _bounds(each.round_trip_s, 1e3),
            _bounds(each.ack_s, 1e3),
            _bounds(each.rate, 1.0),
            _limit(each),
            _bounds(each.memory_bytes, 1e-6),
        )
    make_console().print(table)
    say(
        f"* beyond what was measured ({fitted.nodes_max:,} nodes). In brackets: 95 % intervals, "
        "for errors of the parameters only."
    )


def _bounds(bounds: object, scale: float) -> str:
    from quicksilver.analysis.model.prediction import Bounds
    from quicksilver.analysis.model.tables import number

    assert isinstance(bounds, Bounds)
    text = number(scale * bounds.value)
    if bounds.low is not None and bounds.high is not None:
        text += f" ({number(scale * bounds.low)}–{number(scale * bounds.high)})"
    return text


def _limit(prediction: object) -> str:
    """What limits the rate: the processor, memory (4.12), or our window."""
    from quicksilver.analysis.model.prediction import Prediction

    assert isinstance(prediction, Prediction)
    rate = prediction.rate.value
    if rate >= prediction.rate_uncapped.value:
        return "processor"
    return "memory (4.12)" if rate >= prediction.rate_cap.value else "window"
