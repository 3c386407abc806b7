"""The fitted model in words: a table next to the papers' values, and what stands out."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.analysis.estimates import Estimate
from quicksilver.analysis.model.equations import PAPERS, PAPERS_LIGHT
from quicksilver.analysis.model.fitted import Equation, Fitted
from quicksilver.analysis.model.fitting import better_form

LETTERS = {
    "base_bytes": ("m0", "MB", 1e-6),
    "copies": ("c", "", 1.0),
    "slope": ("slope", "", 1.0),
    "waiting_s": ("ΔP", "ms", 1e3),
    "unexplained_s": ("ΔU", "ms", 1e3),
    "interval_factor": ("a", "", 1.0),
    "round_trip_factor": ("b", "", 1.0),
    "fixed_hop_s": ("ΔS1", "ms", 1e3),
    "hop_s": ("ΔR1", "ms", 1e3),
    "idle_load": ("θ0", "%", 100.0),
    "message_s": ("β", "µs", 1e6),
    "load_per_byte": ("σ", "% per MB", 1e8),
    "message_s_per_byte": ("α", "µs per MB", 1e12),
}
"""The papers' letter, a unit to read it in, and the factor from SI."""

PAPERS_VALUES: dict[tuple[str, str], float] = {
    ("4.2", "base_bytes"): PAPERS.base_bytes,
    ("4.2", "copies"): PAPERS.copies,
    ("4.3", "slope"): 1.0,
    ("4.4", "unexplained_s"): PAPERS.unexplained_s,
    ("4.4 saturated", "unexplained_s"): PAPERS.unexplained_s,
    ("4.4 free", "interval_factor"): 0.5,
    ("4.4 free", "round_trip_factor"): 1.0,
    ("4.4 free", "unexplained_s"): PAPERS.unexplained_s,
    ("4.5", "fixed_hop_s"): PAPERS.fixed_hop_s,
    ("4.5", "hop_s"): PAPERS.hop_s,
    **{
        (number, name): getattr(PAPERS_LIGHT, name)
        for number in ("4.6", "4.8", "4.8 kept")
        for name in ("idle_load", "message_s", "load_per_byte", "message_s_per_byte")
    },
    ("4.9", "message_s"): PAPERS.message_s,
}

HEAD = ("equation", "parameter", "fitted (95 % interval)", "papers", "R²", "left over", "runs")


def number(value: float) -> str:
    """Return a number with as many digits as a person reads."""
    if abs(value) < 1e-9:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-4 else f"{value:.1e}"


def show(estimate: Estimate, scale: float, unit: str) -> str:
    """Return a value with its interval."""
    text = number(scale * estimate.value)
    if estimate.low is not None and estimate.high is not None:
        text += f" ({number(scale * estimate.low)} to {number(scale * estimate.high)})"
    return f"{text} {unit}".strip()


def papers_value(equation: str, name: str) -> str:
    """Return what the papers have for a parameter, if anything."""
    value = PAPERS_VALUES.get((equation.split(" at ", maxsplit=1)[0], name))
    if value is None:
        return "–"
    _, unit, scale = LETTERS[name]
    return f"{number(scale * value)} {unit}".strip()


def table_of(fitted: Fitted) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the head and the rows of the table of parameters."""
    rows = []
    for equation in fitted.equations:
        for place, name in enumerate(equation.fit.names):
            letter, unit, scale = LETTERS[name]
            facts = _facts(equation) if place == 0 else ("", "", "")
            rows.append(
                (
                    f"{equation.number}: {equation.form}" if place == 0 else "",
                    letter,
                    show(equation.fit.estimates[name], scale, unit),
                    papers_value(equation.number, name),
                    *facts,
                )
            )
    return HEAD, rows


def _facts(equation: Equation) -> tuple[str, str, str]:
    fit = equation.fit
    left = f"{number(equation.scale * fit.rmse)} {equation.unit}"
    r2 = f"{fit.r2:.4f}" if fit.r2 is not None else "–"
    return r2, left, describe_runs(equation.runs)


def describe_runs(runs: tuple[str, ...]) -> str:
    """Return how many runs of which experiments a fit rests on."""
    counts: dict[str, int] = {}
    for run in runs:
        name = run.split(":")[0]
        counts[name] = counts.get(name, 0) + 1
    return ", ".join(f"{count} of {name}" for name, count in counts.items())


def facts_of(fitted: Fitted) -> list[str]:
    """Return what the fit says about the model, a sentence each."""
    found = []
    linear, nested = fitted.find("4.5"), fitted.find("4.5 nested")
    if linear is not None and nested is not None:
        form = better_form(fitted)
        a, b = linear.fit.left_out_rmse, nested.fit.left_out_rmse
        if form is not None and a is not None and b is not None:
            found.append(
                f"Equation 4.5 with {'nested rings' if form == 'nested' else 'a line'} fits "
                f"better: runs that were left out are missed by {1e3 * min(a, b):.3g} ms, by the "
                f"other form by {1e3 * max(a, b):.3g} ms."
            )
        else:
            found.append(
                "Too few sizes to say which form of Equation 4.5 fits better; three or more, some "
                "beyond one ring, would: quicksilver experiment scale --senders 1 "
                "--nodes 2,5,10,20,50."
            )
    single = [e.number for e in fitted.equations if not e.fit.has_intervals]
    if single:
        found.append(
            f"No interval can be given for {', '.join(single)}: as many parameters as runs."
        )
    kept = fitted.find("4.8 kept")
    if kept is not None:
        dropped = [
            letter
            for name, letter in (
                ("idle_load", "θ0"),
                ("load_per_byte", "σ"),
                ("message_s_per_byte", "α"),
            )
            if name not in kept.fit.names
        ]
        if dropped:
            found.append(
                "Left out of extrapolation, because zero is in their interval or they are "
                f"negative: {', '.join(dropped)}."
            )
    return found
