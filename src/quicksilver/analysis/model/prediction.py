"""What the fitted model says of groups that nobody has run, and how sure it is.

Intervals are of the parameters alone: they are drawn, as their covariances say, and
the middle 95 % of what comes out is given. That the model itself may be wrong far
from the runs is not in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import msgspec
import numpy as np

from quicksilver.analysis.estimates import Fit
from quicksilver.analysis.model.equations import (
    PAPERS,
    PAPERS_LIGHT,
    Parameters,
    acknowledgement_s,
    capped_rate,
    memory_bytes,
    pending_messages,
    predicted_rate,
    round_trip_linear,
    round_trip_nested,
)
from quicksilver.analysis.model.fitted import Fitted
from quicksilver.analysis.model.fitting import parameters_of, sources_of
from quicksilver.multicast.config import EngineConfig

MEMORY_MAX = 100e6
"""The papers' limit of a sender's memory (Figure 4.57)."""

DRAWS = 1000
NODES_MAX = 10_000_000


class Bounds(msgspec.Struct, frozen=True):
    """A prediction; without an interval where the parameters have none."""

    value: float
    low: float | None = None
    high: float | None = None


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """A group of one size by one form of the model."""

    nodes: int
    form: str
    round_trip_s: Bounds
    ack_s: Bounds
    rate_uncapped: Bounds
    """Equation 4.10 or 4.11."""
    rate_cap: Bounds
    """Equation 4.12."""
    rate_window: Bounds | None = None
    """What our window of unacknowledged data allows; the papers' system has none."""
    rate: Bounds
    """The smallest of these."""
    memory_bytes: Bounds
    is_measured: bool
    """Whether groups as large were among the runs."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """One way to put the equations together."""

    name: str
    is_nested: bool
    is_saturated: bool


FORMS = (
    Form(name="4.10, nested rings", is_nested=True, is_saturated=True),
    Form(name="4.10, as written", is_nested=False, is_saturated=True),
    Form(name="4.11, nested rings", is_nested=True, is_saturated=False),
    Form(name="4.11, as written", is_nested=False, is_saturated=False),
)


def outcome(
    p: Parameters,
    nodes: int,
    *,
    nested: bool,
    ring_size: int,
    memory_max: float,
    window_bytes: float = inf,
) -> dict[str, float]:
    """Put the equations together for one size of the group."""
    trip = round_trip_nested(p, nodes, ring_size) if nested else round_trip_linear(p, nodes)
    ack_s = max(0.0, acknowledgement_s(p, trip))
    held_s = ack_s + p.waiting_s
    free = predicted_rate(p, ack_s)
    cap = capped_rate(p, ack_s, memory_max)
    window = window_bytes / (p.message_bytes * held_s) if held_s > 0 else inf
    rate = min(free, cap, window)
    return {
        "round_trip_s": trip,
        "ack_s": ack_s,
        "rate_uncapped": free,
        "rate_cap": cap,
        "rate_window": window,
        "rate": rate,
        "memory_bytes": memory_bytes(p, pending_messages(p, rate, ack_s)),
    }


def predict(
    fitted: Fitted, sizes: Sequence[int], *, memory_max: float = MEMORY_MAX, draws: int = DRAWS
) -> list[Prediction]:
    """Predict all sizes by all forms for which there are parameters."""
    found = []
    for form in FORMS:
        middle = parameters_of(fitted, nested=form.is_nested, saturated=form.is_saturated)
        if middle is None:
            continue
        middle = bounded(middle)
        drawn = draw_parameters(fitted, form, middle, draws)
        found += [_predict_one(fitted, form, middle, drawn, nodes, memory_max) for nodes in sizes]
    return found


def papers_predict(sizes: Sequence[int], memory_max: float = MEMORY_MAX) -> list[Prediction]:
    """The papers' own predictions, with their values."""
    found = []
    for name, p in (("papers, 4.10", PAPERS), ("papers, 4.11", PAPERS_LIGHT)):
        for nodes in sizes:
            values = outcome(p, nodes, nested=False, ring_size=5, memory_max=memory_max)
            bounds = {key: Bounds(value) for key, value in values.items() if value < inf}
            found.append(Prediction(nodes=nodes, form=name, is_measured=nodes <= 200, **bounds))
    return found


def _predict_one(
    fitted: Fitted,
    form: Form,
    middle: Parameters,
    drawn: Sequence[Parameters],
    nodes: int,
    memory_max: float,
) -> Prediction:
    def run(p: Parameters) -> dict[str, float]:
        return outcome(
            p,
            nodes,
            nested=form.is_nested,
            ring_size=fitted.ring_size,
            memory_max=memory_max,
            window_bytes=window_bytes(),
        )

    values, others = run(middle), [run(p) for p in drawn]
    bounds = {}
    for key, value in values.items():
        if others:
            low, high = np.percentile(
                [other[key] for other in others], [2.5, 97.5], method="nearest"
            )
            bounds[key] = Bounds(value, float(low), float(high))
        else:
            bounds[key] = Bounds(value)
    return Prediction(nodes=nodes, form=form.name, is_measured=nodes <= fitted.nodes_max, **bounds)


def draw_parameters(fitted: Fitted, form: Form, middle: Parameters, draws: int) -> list[Parameters]:
    """Return parameters as they might be, each equation's by its covariance.

    None at all where no equation has intervals: all have as many parameters as runs.
    """
    sources = sources_of(fitted, nested=form.is_nested, saturated=form.is_saturated)
    columns: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
    for seed, number in enumerate(dict.fromkeys(sources.values())):
        equation = fitted.find(number)
        if equation is None or not equation.fit.has_intervals:
            continue
        samples = _draw(equation.fit, np.random.default_rng(seed), draws)
        columns |= {name: drawn for name, drawn in samples.items() if sources.get(name) == number}
    if not columns:
        return []
    return [
        bounded(replace(middle, **{name: float(column[i]) for name, column in columns.items()}))
        for i in range(draws)
    ]


def _draw(
    fit: Fit, rng: np.random.Generator, draws: int
) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Draw the values of one equation.

    In units of their standard errors, as they differ by ten orders of magnitude; values
    that are known exactly vary with no other.
    """
    covariance = np.array(fit.covariance)
    errors = np.sqrt(np.maximum(0.0, np.diag(covariance)))
    products = np.outer(errors, errors)
    related = np.eye(len(errors))
    np.divide(covariance, products, out=related, where=products > 0)
    drawn = rng.multivariate_normal(np.zeros(len(errors)), related, size=draws)
    return {name: fit[name] + errors[at] * drawn[:, at] for at, name in enumerate(fit.names)}


def bounded(p: Parameters) -> Parameters:
    """Return parameters with no cost below zero, which a fitted or a drawn one may be."""
    return replace(
        p,
        copies=max(0.0, p.copies),
        hop_s=max(0.0, p.hop_s),
        waiting_s=max(0.0, p.waiting_s),
        message_s=max(1e-12, p.message_s),
        load_per_byte=max(0.0, p.load_per_byte),
        message_s_per_byte=max(0.0, p.message_s_per_byte),
    )


def window_bytes() -> int:
    """What a sender of ours leaves unacknowledged in a region at most, by default."""
    return EngineConfig().window_bytes_max
