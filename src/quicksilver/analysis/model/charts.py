"""Figures 4.50 to 4.57: what the model says next to what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quicksilver.analysis.drawing import Chart, Series
from quicksilver.analysis.estimates import r_squared
from quicksilver.analysis.model.equations import (
    Parameters,
    acknowledgement_s,
    load_at,
    memory_bytes,
    pending_messages,
    ring_hops,
    round_trip_linear,
    round_trip_nested,
    saturated_rate,
)
from quicksilver.analysis.model.fitted import Equation, Fitted
from quicksilver.analysis.model.fitting import better_form, parameters_of
from quicksilver.analysis.model.observations import Observation, full_rate
from quicksilver.analysis.model.prediction import Bounds, Prediction, papers_predict, predict

FAR = (2, 10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000, 1500, 2000, 3000, 4000, 5000)
"""Sizes for which the extrapolation is drawn."""


def charts_of(fitted: Fitted, observations: Sequence[Observation]) -> list[Chart]:
    """Return the figures that there is data for."""
    nested = better_form(fitted) != "linear"
    light = parameters_of(fitted, nested=nested, saturated=False)
    limit = parameters_of(fitted, nested=nested, saturated=True)
    either = limit or light
    found: list[Chart | None] = []
    if either is not None:
        found.append(_memory(fitted, either, full_rate(observations), nested))
    found.append(_forms(fitted, observations))
    found.append(_round_trips(observations))
    if light is not None:
        found += _loads(fitted, light, observations, nested)
        found.append(
            _rates(
                light,
                observations,
                name="model-rate-light",
                number="4.54",
                title="Rate by 4.9, parameters of a sender with time to spare",
                paper="Extrapolating from a system that is not saturated is far too pessimistic.",
            )
        )
    if limit is not None:
        found.append(
            _rates(
                limit,
                observations,
                name="model-rate-saturated",
                number="4.55",
                title="Rate by 4.9, parameters of a saturated sender",
                paper="With α = 0 and 110 µs a message the model fits.",
            )
        )
    found += _extrapolations(fitted)
    return [chart for chart in found if chart is not None]


def _memory(
    fitted: Fitted, p: Parameters, some: Sequence[Observation], nested: bool
) -> Chart | None:
    """4.50: memory out of 4.2 to 4.5 and the measured rate."""
    known = [(o.nodes, o.memory, o.rate) for o in some if o.memory and o.rate]
    if len({nodes for nodes, _, _ in known}) < 2:
        return None
    both = []
    for form, is_nested in (("nested rings", True), ("4.5 as written", False)):
        q = parameters_of(fitted, nested=is_nested, saturated=True) or (
            p if is_nested == nested else None
        )
        if q is None:
            continue
        predicted = [
            (float(n), memory_bytes(q, pending_messages(q, rate, _ack(q, n, is_nested, fitted))))
            for n, _, rate in known
        ]
        both.append((form, predicted))
    measured = [(float(n), memory) for n, memory, _ in known]
    words = "; ".join(
        f"{form}: {_quality([m for _, m in measured], [v for _, v in predicted])}"
        for form, predicted in both
    )
    return Chart(
        name="model-memory",
        number="4.50",
        title="Memory of the sender, predicted and measured",
        x_label="nodes",
        y_label="MB",
        series=[
            Series(label="measured", points=_scaled(measured, 1e-6)),
            *(
                Series(
                    label=f"predicted, {form}",
                    points=_scaled(points, 1e-6),
                    is_line=True,
                    is_dashed="written" in form,
                )
                for form, points in both
            ),
        ],
        paper="Predictions closely match: simple linear equations are sufficient.",
        measured=words,
        is_log=True,
    )


def _ack(p: Parameters, nodes: int, nested: bool, fitted: Fitted) -> float:
    trip = round_trip_nested(p, nodes, fitted.ring_size) if nested else round_trip_linear(p, nodes)
    return acknowledgement_s(p, trip)


def _scaled(points: Sequence[tuple[float, float]], scale: float) -> list[tuple[float, float]]:
    return [(x, y * scale) for x, y in points]


def _quality(measured: Sequence[float], predicted: Sequence[float]) -> str:
    """How well a prediction does, in words."""
    misses = [abs(p / m - 1) for m, p in zip(measured, predicted, strict=True) if m]
    r2 = r_squared(measured, predicted)
    text = f"off by {100 * sum(misses) / len(misses):.1f} % on average" if misses else "no values"
    return text + (f", R² {r2:.3f}" if r2 is not None else "")


def _forms(fitted: Fitted, observations: Sequence[Observation]) -> Chart | None:
    """Both forms of 4.5 and what was measured, for each rate with enough sizes."""
    series: list[Series] = []
    words = []
    for linear in fitted.equations:
        number = linear.number.replace("4.5", "4.5 nested", 1)
        nested = fitted.find(number)
        if not linear.number.startswith("4.5") or "nested" in linear.number or nested is None:
            continue
        runs = set(linear.runs)
        points = [
            (float(o.nodes), 1e3 * o.round_trip_s)
            for o in observations
            if o.origin in runs and o.round_trip_s
        ]
        sizes = [n for n in FAR if n <= max(x for x, _ in points)] + [int(max(points)[0])]
        series += [
            Series(label=f"measured, {linear.remark}", points=points),
            Series(
                label="nested rings",
                points=[
                    (float(n), 1e3 * _trip(nested, ring_hops(n, fitted.ring_size))) for n in sizes
                ],
                is_line=True,
            ),
            Series(
                label="4.5 as written",
                points=[(float(n), 1e3 * _trip(linear, n - 1)) for n in sizes],
                is_line=True,
                is_dashed=True,
            ),
        ]
        words.append(
            f"{linear.remark}: R² {linear.fit.r2 or 0:.4f} as written, "
            f"{nested.fit.r2 or 0:.4f} with nested rings"
        )
    if not series:
        return None
    return Chart(
        name="model-round-trip",
        number="4.24, Equation 4.5",
        title="Token round-trip and both forms of Equation 4.5",
        x_label="nodes",
        y_label="ms",
        series=series,
        paper="The round-trip grows linearly, by 3.4 ms a node; deeper rings would make it "
        "logarithmic.",
        measured="; ".join(words) + ".",
        is_log=True,
    )


def _trip(equation: Equation, steps: float) -> float:
    return equation.fit["fixed_hop_s"] + steps * equation.fit["hop_s"]


def _round_trips(observations: Sequence[Observation]) -> Chart | None:
    """4.52: the token against the sender's load, at one size."""
    some = _of_one_size(observations)
    points = [(100 * o.load, 1e3 * o.round_trip_s) for o in some if o.load and o.round_trip_s]
    if len(points) < 2:
        return None
    first, last = min(points), max(points)
    return Chart(
        name="model-token-load",
        number="4.52",
        title="Token round-trip against the sender's load",
        x_label="sender's processor, %",
        y_label="ms",
        series=[Series(label=f"measured, {some[0].nodes} nodes", points=points)],
        paper="The round-trip grows with the sender's load, steeply near saturation: the sender "
        "is in the ring.",
        measured=f"{first[1]:.3g} ms at {first[0]:.0f} % and {last[1]:.3g} ms at {last[0]:.0f} %.",
    )


def _of_one_size(observations: Sequence[Observation]) -> list[Observation]:
    """The size of which there are the most different rates."""
    by_size: dict[int, list[Observation]] = {}
    for o in observations:
        if o.rate is not None:
            by_size.setdefault(o.nodes, []).append(o)
    return max(by_size.values(), key=lambda some: len({o.offered for o in some}), default=[])


def _loads(
    fitted: Fitted, p: Parameters, observations: Sequence[Observation], nested: bool
) -> list[Chart | None]:
    """4.51 and 4.53: load against rate, the acknowledgement predicted or measured."""
    some = [o for o in _of_one_size(observations) if o.load and o.rate and o.ack_s]
    if len({o.offered for o in some}) < 2:
        return []
    measured = [(o.rate or 0.0, 100 * (o.load or 0.0)) for o in some]

    def chart(
        name: str, number: str, title: str, paper: str, ack: Callable[[Observation], float]
    ) -> Chart:
        predicted = [(o.rate or 0.0, 100 * load_at(p, o.rate or 0.0, ack(o))) for o in some]
        return Chart(
            name=name,
            number=number,
            title=title,
            x_label="messages/s",
            y_label="sender's processor, %",
            series=[
                Series(label=f"measured, {some[0].nodes} nodes", points=measured),
                Series(label="predicted by 4.8", points=predicted, is_line=True),
            ],
            paper=paper,
            measured=_quality([y for _, y in measured], [y for _, y in predicted]),
        )

    return [
        chart(
            "model-load",
            "4.51",
            "Load, the round-trip predicted",
            "Too high at low rates: the round-trip was estimated under full load.",
            lambda o: _ack(p, o.nodes, nested, fitted),
        ),
        chart(
            "model-load-measured",
            "4.53",
            "Load, the acknowledgement measured",
            "With measured round-trips the curve is realistic: delays, not memory, bend it.",
            lambda o: o.ack_s or 0.0,
        ),
    ]


def _rates(
    p: Parameters,
    observations: Sequence[Observation],
    *,
    name: str,
    number: str,
    title: str,
    paper: str,
) -> Chart | None:
    """4.54 and 4.55: the rate out of the measured memory."""
    some = [o for o in full_rate(observations) if o.memory is not None and o.rate]
    if len({o.nodes for o in some}) < 2:
        return None
    measured = [(float(o.nodes), o.rate or 0.0) for o in some]
    predicted = [(float(o.nodes), saturated_rate(p, o.memory or 0.0)) for o in some]
    return Chart(
        name=name,
        number=number,
        title=title,
        x_label="nodes",
        y_label="thousand messages/s",
        series=[
            Series(label="measured", points=_scaled(measured, 1e-3)),
            Series(label="predicted by 4.9", points=_scaled(predicted, 1e-3), is_line=True),
        ],
        paper=paper,
        measured=_quality([y for _, y in measured], [y for _, y in predicted]),
        is_log=True,
    )


def _extrapolations(fitted: Fitted) -> list[Chart | None]:
    """4.56 and 4.57: thousands of nodes, without and with limits of memory."""
    ours = predict(fitted, FAR)
    if not ours:
        return []
    names = list(dict.fromkeys(p.form for p in ours))

    def chart(
        name: str, number: str, title: str, paper: str, get: Callable[[Prediction], Bounds]
    ) -> Chart:
        series = []
        for form in names:
            some = [p for p in ours if p.form == form]
            series.append(
                Series(
                    label=form,
                    points=[(float(p.nodes), 1e-3 * get(p).value) for p in some],
                    is_line=True,
                    is_dashed="written" in form,
                    band=[
                        (float(p.nodes), 1e-3 * low, 1e-3 * high)
                        for p in some
                        if (low := get(p).low) is not None and (high := get(p).high) is not None
                    ],
                )
            )
        last = {form: get([p for p in ours if p.form == form][-1]) for form in names}
        theirs = papers_predict(FAR)
        part = " and ".join(
            f"{100 * get(_at(theirs, form, FAR[-1])).value / get(_at(theirs, form, 2)).value:.0f} %"
            for form in ("papers, 4.10", "papers, 4.11")
        )
        return Chart(
            name=name,
            number=number,
            title=title,
            x_label="nodes",
            y_label="thousand messages/s",
            series=series,
            paper=f"{paper} Their values give {part} of the rate of 2 nodes at {FAR[-1]:,}.",
            measured=f"at {FAR[-1]:,} nodes "
            + "; ".join(f"{form}: {bound.value:,.0f}/s" for form, bound in last.items())
            + f" (measured up to {fitted.nodes_max:,} nodes).",
        )

    return [
        chart(
            "model-extrapolated",
            "4.56",
            "Throughput, extrapolated",
            "Performance drops significantly due to memory overheads alone.",
            lambda p: p.rate_uncapped,
        ),
        chart(
            "model-extrapolated-capped",
            "4.57",
            "Throughput, extrapolated, with limits of memory",
            "In larger systems the memory limit is the dominant factor.",
            lambda p: p.rate,
        ),
    ]


def _at(predictions: Sequence[Prediction], form: str, nodes: int) -> Prediction:
    return next(p for p in predictions if p.form == form and p.nodes == nodes)
