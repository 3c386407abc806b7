"""``quicksilver experiment``: the papers' evaluation, point by point."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quicksilver.cli.options import Json
from quicksilver.cli.output import emit, remark, say
from quicksilver.cli.problems import MisuseError
from quicksilver.stdx.install import install_line

if TYPE_CHECKING:
    from quicksilver.experiments.base import Experiment, Place, Point, Row, Value

DEFAULT_OUT = Path("out/experiments")


def experiment(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|list|all",
            help="Name of an experiment. list shows the names; all runs every experiment.",
            show_default=False,
        ),
    ],
    nodes: Annotated[
        str | None, typer.Option(metavar="N,N…", help="Numbers of nodes to measure with.")
    ] = None,
    senders: Annotated[
        str | None, typer.Option(metavar="N,N…", help="Numbers of senders to measure with.")
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(metavar="R,R…", help="Messages per second; 0 sends as many as possible."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0.01, metavar="NUMBER", help="How many seconds to measure each point for."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set anything else. With several values, separated by commas, each is measured. "
            "Can be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the results. Default: out/experiments/NAME.",
            show_default=False,
        ),
    ] = None,
    real: Annotated[bool, typer.Option("--real", help="Run with real processes.")] = False,
    sim: Annotated[bool, typer.Option("--sim", help="Run in the simulator.")] = False,
    auto: Annotated[
        bool, typer.Option("--auto", help="Run each point where the experiment prefers it.")
    ] = False,
    rounds: Annotated[int, typer.Option(min=1, help="How often to run each point.")] = 1,
    seed: Annotated[
        int, typer.Option(help="Seed of the first round; each further round adds 1.")
    ] = 1,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume/--fresh", help="Keep points that are finished, or run all of them again."
        ),
    ] = True,
    jobs: Annotated[
        int, typer.Option(min=1, help="Number of simulated points to run at a time.")
    ] = 1,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Machine to simulate, as the experiment calibrate wrote it."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a small sweep, to see it work.")
    ] = False,
    traces: Annotated[
        bool,
        typer.Option("--traces/--no-traces", help="Whether to write trace records of each point."),
    ] = True,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="DIR",
            help="Folder for trace records, with one run per point.",
            show_default="traces/ in the folder of results",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run an experiment of the papers: throughput, tokens, losses, freezes, groups, memory.

    Finished points are kept, so that an experiment that was stopped goes on where it stopped.
    """
    from quicksilver.experiments.catalogue import EXPERIMENTS, find_experiment

    if name == "list":
        _list(as_json=as_json)
        return
    place = _place_of(real=real, sim=sim, auto=auto)
    chosen = list(EXPERIMENTS.values()) if name == "all" else [find_experiment(name)]
    asked = {"nodes": nodes, "senders": senders, "rate": rate}
    for each in chosen:
        axes, settings = _parameters_of(
            each, asked, seconds, set_ or (), quick=quick, is_lenient=name == "all"
        )
        here = place
        if here is not None and here not in each.places:
            if name == "all":
                continue
            raise MisuseError(f"{each.name} runs only in: {', '.join(each.places)}")
        folder = out / each.name if out and name == "all" else out or DEFAULT_OUT / each.name
        _run(
            each,
            list(each.points(axes=axes, settings=settings, place=here, rounds=rounds, seed=seed)),
            folder,
            axes=tuple(axes),
            fresh=not resume,
            jobs=jobs,
            model=model,
            with_traces=traces,
            trace=trace,
            as_json=as_json,
        )


def _place_of(*, real: bool, sim: bool, auto: bool) -> Place | None:
    if real + sim + auto > 1:
        raise MisuseError("--real, --sim and --auto exclude each other")
    return "real" if real else "sim" if sim else None


def _list(*, as_json: bool) -> None:
    from quicksilver.experiments.catalogue import EXPERIMENTS

    if as_json:
        for each in EXPERIMENTS.values():
            emit(
                "experiment",
                {
                    "name": each.name,
                    "figures": each.figures,
                    "varies": each.varies,
                    "places": each.places,
                    "sweep": {k: list(v) for k, v in each.sweep.items()},
                    "settings": dict(each.settings),
                    "claim": each.claim,
                },
            )
        return
    from quicksilver.cli.screen import SafeTable, make_console

    table = SafeTable("name", "figures", "what it varies", "where", title="quicksilver experiment")
    for each in EXPERIMENTS.values():
        table.add_row(each.name, each.figures, each.varies, ", ".join(each.places))
    make_console().print(table)


def _parameters_of(
    experiment: Experiment,
    asked: Mapping[str, str | None],
    seconds: float | None,
    changes: Sequence[str],
    *,
    quick: bool,
    is_lenient: bool,
) -> tuple[dict[str, list[Value]], dict[str, Value]]:
    """Return the axes and the other settings of a sweep."""
    axes = {k: list(v) for k, v in (experiment.quick if quick else experiment.sweep).items()}
    settings = dict(experiment.settings) | (dict(experiment.quick_settings) if quick else {})
    given = {key: text for key, text in asked.items() if text is not None}
    if seconds is not None:
        given["seconds"] = str(seconds)
    for change in changes:
        key, equals, text = change.partition("=")
        if not equals:
            raise MisuseError(f"--set {change[:40]!r}: write it as KEY=VALUE")
        given[key.strip()] = text.strip()
    for key, text in given.items():
        if key not in settings and key not in axes:
            if is_lenient:
                continue
            known = ", ".join(sorted({*settings, *axes}))
            raise MisuseError(f"{experiment.name} has no setting {key[:40]!r}; it has {known}")
        example = axes[key][0] if key in axes else settings[key]
        values = [_parse_value(key, part, example) for part in text.split(",")]
        if key in axes or len(values) > 1:
            settings.pop(key, None)
            axes[key] = values
        else:
            settings[key] = values[0]
    for key in axes:
        settings.pop(key, None)
    return axes, settings


def _parse_value(key: str, text: str, example: Value) -> Value:
    text = text.strip()
    try:
        if isinstance(example, bool):
            if text.lower() not in {"true", "false", "yes", "no", "on", "off", "1", "0"}:
                raise ValueError(text)
            return text.lower() in {"true", "yes", "on", "1"}
        if isinstance(example, int):
            value = int(text)
        elif isinstance(example, float):
            value = float(text)  # type: ignore[assignment]  # both are numbers
        else:
            return text
    except ValueError:
        kinds = {bool: "true or false", int: "a whole number", float: "a number"}
        kind = kinds[type(example)]
        raise MisuseError(f"{key}={text[:40]!r}: expected {kind}, such as {example}") from None
    if value < 0:
        raise MisuseError(f"{key}={text[:40]!r}: must not be negative")
    return value


def _run(
    experiment: Experiment,
    points: Sequence[Point],
    folder: Path,
    *,
    axes: tuple[str, ...],
    fresh: bool,
    jobs: int,
    model: Path | None,
    with_traces: bool,
    trace: Path | None,
    as_json: bool,
) -> None:
    from quicksilver.cli.screen import RunProgress
    from quicksilver.experiments.runner import run_facts, run_points
    from quicksilver.experiments.store import PointStore, render_markdown

    if model is not None:
        from quicksilver.experiments.machines import load_machine

        load_machine(model)
    store = PointStore(folder, trace)
    store.open(fresh=fresh)
    if with_traces and importlib.util.find_spec("pyarrow") is None:
        if trace is not None:
            raise MisuseError(f"--trace needs pyarrow: {install_line('record')}")
        remark(f"no traces are written; to write them: {install_line('record')}")
        with_traces = False
    command = shlex.join(["quicksilver", *sys.argv[1:]])
    store.write_run(run_facts(experiment, {"command": command, "points": len(points)}))
    with RunProgress(experiment.name, len(points), is_quiet=as_json) as progress:

        def begin(point: Point) -> None:
            what = ", ".join(f"{axis}={point.parameters[axis]}" for axis in point.axes)
            progress.describe(f"{point.place} {what}")
            if not progress.has_bar:
                remark(f"{experiment.name} {progress.next_one}: {point.place} {what}")

        for _ in run_points(
            points,
            store,
            jobs=jobs,
            model=model,
            with_traces=with_traces,
            on_start=begin,
        ):
            progress.advance()
    wanted = {point.id for point in points}
    rows = [found.row() for found in store.finished() if found.point in wanted]
    store.write_summary(render_markdown(experiment, rows, axes, command))
    if as_json:
        for row in rows:
            emit("point", row)
        return
    _show(experiment, rows, axes)
    say(f"results: {folder}")


def _show(experiment: Experiment, rows: Sequence[Row], axes: Sequence[str]) -> None:
    from quicksilver.cli.screen import SafeTable, make_console
    from quicksilver.experiments.store import table_of

    head, body = table_of(experiment, rows, axes)
    table = SafeTable(title=f"{experiment.name}: {experiment.title}", padding=(0, 0))
    for title in head:
        table.add_column(title, overflow="fold", justify="right")
    for cells in body:
        table.add_row(*cells)
    console = make_console()
    console.print(table)
    console.print(f"papers ({experiment.figures}): {experiment.claim}")
    for finding in experiment.findings(rows):
        word = {True: "yes", False: "NO", None: "–"}[finding.holds]
        console.print(f"{word:>4}  {finding.what}: {finding.measured}")
