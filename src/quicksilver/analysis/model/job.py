"""Fitting as a job: runs in, parameters, figures and a page out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from quicksilver.analysis.drawing import as_image, draw_chart
from quicksilver.analysis.errors import BadInputError
from quicksilver.analysis.inputs import find_traces, is_experiment
from quicksilver.analysis.model.charts import charts_of
from quicksilver.analysis.model.fitted import Equation, Fitted
from quicksilver.analysis.model.fitting import fit_model
from quicksilver.analysis.model.observations import Observation, check_alike, read_points
from quicksilver.analysis.model.prediction import NODES_MAX
from quicksilver.analysis.model.tables import facts_of, table_of
from quicksilver.analysis.page import Picture, Section, Table, render

PARAMETERS = "parameters.json"
PAGE = "model.html"
VERSION = 1
PARAMETERS_BYTES_MAX = 16 << 20

ReadTraces = Callable[[Sequence[Path]], Sequence[Observation]]
"""Reads folders of traces, which are too large for this package: Spark does."""
Remark = Callable[[str], None]


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What ``parameters.json`` contains."""

    version: int
    model: Fitted


def observe_all(
    paths: Sequence[Path], read_traces: ReadTraces, remark: Remark
) -> list[Observation]:
    """Return what all folders offer; raises BadInputError if that is nothing."""
    found: list[Observation] = []
    traced: list[Path] = []
    for path in paths:
        if is_experiment(path):
            found += read_points(path, remark)
        else:
            # Looked at before Spark is started, which takes a while.
            find_traces(path)
            traced.append(path)
    if traced:
        found += read_traces(traced)
    if not found:
        raise BadInputError(
            "no run of one undisturbed sender to fit; make some with: "
            "quicksilver experiment scale --senders 1 --nodes 2,5,10,20,50"
        )
    check_alike(found)
    return found


def fit_runs(
    paths: Sequence[Path], out: Path, *, read_traces: ReadTraces, remark: Remark = lambda _: None
) -> Fitted:
    """Fit, draw and write everything; returns the model."""
    observations = observe_all(paths, read_traces, remark)
    fitted = fit_model(observations)
    if not fitted.equations:
        needs = "; ".join(f"{each.number} needs {each.needs}" for each in fitted.missing)
        raise BadInputError(f"too little to fit any equation: {needs}")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"{out}: {error.strerror}; choose another --out") from None
    text = msgspec.json.encode(Stored(version=VERSION, model=fitted))
    (out / PARAMETERS).write_bytes(msgspec.json.format(text, indent=2) + b"\n")
    section = section_of(fitted, observations, out, paths)
    page = render("quicksilver: the analytical model", [section])
    (out / PAGE).write_text(page, encoding="utf-8")
    return fitted


def section_of(
    fitted: Fitted, observations: Sequence[Observation], out: Path, paths: Sequence[Path]
) -> Section:
    """Return the page's content, its figures drawn."""
    section = Section(
        name="model",
        title=f"Equations 4.2 to 4.12, fitted to {len(observations)} runs ({fitted.setting})",
        origin="quicksilver model fit " + " ".join(map(str, paths)),
        claim="Memory at the sender follows from what waits for acknowledgement, that from the "
        "token's round-trip, and the processor time that memory costs limits the rate "
        "(dissertation 4.3.6).",
    )
    section.remarks += facts_of(fitted)
    section.remarks += [f"Not fitted: {each.number} needs {each.needs}." for each in fitted.missing]
    head, rows = table_of(fitted)
    section.tables.append(Table(head=head, rows=rows))
    for chart in charts_of(fitted, observations):
        draw_chart(out, chart)
        section.pictures.append(
            Picture(
                image=as_image(out / f"{chart.name}.svg"),
                title=f"{chart.title} (Figure {chart.number})",
                paper=chart.paper,
                measured=chart.measured,
            )
        )
    return section


def load_parameters(path: Path) -> Fitted:
    """Read what ``model fit`` wrote; raises BadInputError."""
    again = "write it again with: quicksilver model fit RUN..."
    try:
        if path.is_dir():
            path = path / PARAMETERS
        if path.stat().st_size > PARAMETERS_BYTES_MAX:
            raise BadInputError(f"{path} is too large to be parameters; {again}")
        stored = msgspec.json.decode(path.read_bytes(), type=Stored)
    except OSError as error:
        raise BadInputError(f"{path}: {error.strerror}; {again}") from None
    except msgspec.MsgspecError as error:
        raise BadInputError(f"{path}: {error}; {again}") from None
    if stored.version != VERSION:
        raise BadInputError(f"{path} has version {stored.version}, not {VERSION}; {again}")
    for equation in stored.model.equations:
        _check_shape(path, equation, again)
    return stored.model


def _check_shape(path: Path, equation: Equation, again: str) -> None:
    """Covariances fit their names: a file may have been changed by hand."""
    fit = equation.fit
    width = len(fit.names)
    is_square = len(fit.covariance) == width and all(len(row) == width for row in fit.covariance)
    if not is_square or set(fit.names) != set(fit.estimates):
        raise BadInputError(f"{path}: equation {equation.number} is incomplete; {again}")


def parse_sizes(text: str) -> list[int]:
    """Read numbers of nodes, comma-separated; raises BadInputError."""
    try:
        sizes = [int(part) for part in text.replace("_", "").split(",") if part.strip()]
    except ValueError:
        sizes = []
    if not sizes or not all(1 <= size <= NODES_MAX for size in sizes):
        raise BadInputError(
            f"--nodes takes whole numbers from 1 to {NODES_MAX:,}, comma-separated: "
            "--nodes 1000,2000,5000"
        )
    return sizes
