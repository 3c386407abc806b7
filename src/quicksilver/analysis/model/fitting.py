"""Parameters out of runs, equation by equation, each with what it rests on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import isclose

from quicksilver.analysis.estimates import RESOLUTION, least_squares
from quicksilver.analysis.model.equations import Parameters, ring_hops
from quicksilver.analysis.model.fitted import (
    Equation,
    Fitted,
    Found,
    Missing,
    different,
    judge,
    known,
    mean_of,
    names_of,
    usable,
)
from quicksilver.analysis.model.load_fitting import fit_load
from quicksilver.analysis.model.observations import Observation, full_rate


def fit_model(observations: Sequence[Observation]) -> Fitted:
    """Fit everything that the runs have data for."""
    equations: list[Equation] = []
    missing: list[Missing] = []
    for fit in (_fit_memory, _fit_little, _fit_acknowledging, _fit_round_trips, fit_load):
        found, lacking = fit(observations)
        equations += found
        missing += lacking
    at_limit = full_rate(observations) or list(observations)
    return Fitted(
        setting=observations[0].setting,
        message_bytes=mean_of([o.message_bytes for o in observations]) or 0.0,
        ring_size=observations[0].ring_size,
        token_interval_s=mean_of([o.token_interval_s for o in at_limit if o.token_interval_s]),
        latency_s=mean_of([o.latency_s for o in at_limit if o.latency_s]),
        nodes_max=max(o.nodes for o in at_limit),
        equations=tuple(equations),
        missing=tuple(missing),
    )


def _fit_memory(observations: Sequence[Observation]) -> Found:
    """4.2: ``m0`` and ``cs`` by a line through memory against pending bytes."""
    some = usable(observations, lambda o: o.memory, lambda o: o.pending)
    held = [known(o.pending) * o.message_bytes for o in some]
    fit = None
    if len({round(h) for h in held}) > 1:
        columns = {"base_bytes": [1.0] * len(some), "copies": held}
        fit = least_squares(columns, [known(o.memory) for o in some])
    if fit is None:
        return [], [
            Missing(number="4.2", needs=different("amounts of unacknowledged data", "--rate"))
        ]
    equation = Equation(
        number="4.2",
        form="m = m0 + c · d · p",
        fit=fit,
        unit="MB",
        scale=1e-6,
        runs=names_of(some),
        remark="simulated memory is that of packets: no interpreter, no copies not yet freed"
        if some[0].setting not in ("real processes", "traces")
        else "",
    )
    return [equation], []


def _apart(some: Sequence[Observation]) -> tuple[list[Observation], list[Observation]]:
    """Return the runs with time to spare and the saturated ones."""
    return [o for o in some if not o.is_saturated], [o for o in some if o.is_saturated]


TIMED = (
    "runs that time acknowledgements and packets (simulated, or traces): "
    "quicksilver experiment scale --sim"
)


def _fit_little(observations: Sequence[Observation]) -> Found:
    """4.3 has no parameter: the slope through the origin must be 1.

    A saturated sender counts packets as sent that wait for their turn to leave; how
    long that is, is a parameter of ours.
    """
    some = usable(observations, lambda o: o.pending, lambda o: o.rate, lambda o: o.ack_s)
    light, saturated = _apart(some)
    found = []
    fit = least_squares(
        {"slope": [known(o.rate) * known(o.ack_s) for o in light]},
        [known(o.pending) for o in light],
    )
    if fit is not None:
        found.append(
            Equation(
                number="4.3",
                form="p = slope · µ · ΔA",
                fit=fit,
                unit="messages",
                runs=names_of(light),
            )
        )
    waits = [known(o.pending) / known(o.rate) - known(o.ack_s) for o in saturated]
    fit = least_squares({"waiting_s": [1.0] * len(waits)}, waits)
    if fit is not None:
        measured = [known(o.pending) for o in saturated]
        predicted = [known(o.rate) * (known(o.ack_s) + fit["waiting_s"]) for o in saturated]
        found.append(
            Equation(
                number="4.3 saturated",
                form="p = µ · (ΔA + ΔP)",
                fit=judge(fit, measured, predicted),
                unit="messages",
                runs=names_of(saturated),
            )
        )
    return found, [] if found else [Missing(number="4.3", needs=TIMED)]


def _fit_acknowledging(observations: Sequence[Observation]) -> Found:
    """4.4: ``ΔU`` is what is left; with free factors one sees whether ½ and 1 are right."""
    some = usable(
        observations,
        lambda o: o.ack_s,
        lambda o: o.latency_s,
        lambda o: o.token_interval_s,
        lambda o: o.round_trip_s,
    )
    found = []
    light, saturated = _apart(some)
    for mark, part in (("", light), (" saturated", saturated)):
        found += _acknowledging_forms(part, mark)
    return found, [] if found else [Missing(number="4.4", needs=TIMED)]


def _acknowledging_forms(some: Sequence[Observation], mark: str) -> list[Equation]:
    sums = [
        known(o.latency_s) + known(o.token_interval_s) / 2 + known(o.round_trip_s) for o in some
    ]
    measured = [known(o.ack_s) for o in some]
    rest = [m - k for m, k in zip(measured, sums, strict=True)]
    fit = least_squares({"unexplained_s": [1.0] * len(some)}, rest)
    if fit is None:
        return []
    whole = judge(fit, measured, [k + fit["unexplained_s"] for k in sums])
    found = [
        Equation(
            number=f"4.4{mark}",
            form="ΔA = ΔL + ½ ΔT + ΔR + ΔU",
            fit=whole,
            unit="ms",
            scale=1e3,
            runs=names_of(some),
        )
    ]
    columns = {
        "unexplained_s": [1.0] * len(some),
        "interval_factor": [known(o.token_interval_s) for o in some],
        "round_trip_factor": [known(o.round_trip_s) for o in some],
    }
    differs = all(max(c) > 1.05 * min(c) for name, c in columns.items() if name != "unexplained_s")
    if len(some) > len(columns) and differs:
        targets = [m - known(o.latency_s) for m, o in zip(measured, some, strict=True)]
        free = least_squares(columns, targets)
        if free is not None:
            found.append(
                Equation(
                    number=f"4.4{mark} free",
                    form="ΔA = ΔL + a · ΔT + b · ΔR + ΔU",
                    fit=free,
                    unit="ms",
                    scale=1e3,
                    runs=names_of(some),
                    remark="the papers have a = ½, b = 1",
                )
            )
    return found


def _fit_round_trips(observations: Sequence[Observation]) -> Found:
    """4.5 as written, and with the hops of nested rings, for each rate with enough sizes."""
    by_rate: defaultdict[float | None, list[Observation]] = defaultdict(list)
    for o in usable(observations, lambda o: o.round_trip_s):
        by_rate[o.offered].append(o)
    several = {rate: some for rate, some in by_rate.items() if len({o.nodes for o in some}) > 1}
    if not several:
        return [], [Missing(number="4.5", needs=different("numbers of nodes", "--nodes"))]
    found = []
    # The full rate gives the model's parameters, or else the rate with the most sizes.
    ordered = sorted(
        several, key=lambda rate: (rate != 0, -len({o.nodes for o in several[rate]}), rate or 0)
    )
    for place, rate in enumerate(ordered):
        mark = "" if place == 0 else f" at {rate:,.0f}/s" if rate else " at an unknown rate"
        found += _round_trip_forms(several[rate], mark, rate)
    return found, []


def _round_trip_forms(some: Sequence[Observation], mark: str, rate: float | None) -> list[Equation]:
    times = [known(o.round_trip_s) for o in some]
    ones = [1.0] * len(some)
    linear = least_squares({"fixed_hop_s": ones, "hop_s": [o.nodes - 1.0 for o in some]}, times)
    nested = least_squares(
        {"fixed_hop_s": ones, "hop_s": [ring_hops(o.nodes, o.ring_size) for o in some]}, times
    )
    where = "full rate" if rate == 0 else f"{rate:,.0f} messages/s" if rate else "unknown rate"
    found = []
    for number, form, fit in (
        ("4.5", "ΔR = ΔS1 + (n − 1) · ΔR1", linear),
        ("4.5 nested", "ΔR = ΔS1 + hops(n) · ΔR1", nested),
    ):
        if fit is not None:
            found.append(
                Equation(
                    number=number + mark,
                    form=form,
                    fit=fit,
                    unit="ms",
                    scale=1e3,
                    runs=names_of(some),
                    remark=where,
                )
            )
    return found


def better_form(fitted: Fitted) -> str | None:
    """Return which form of 4.5 predicts runs better that it was not fitted to.

    None where the runs do not say: too few sizes to leave one out, or sizes for which
    both forms are the same line (in one ring every node is a hop).
    """
    linear, nested = fitted.find("4.5"), fitted.find("4.5 nested")
    if linear is None or nested is None:
        return None
    a, b = linear.fit.left_out_rmse, nested.fit.left_out_rmse
    if a is None or b is None or isclose(a, b, rel_tol=1e-6, abs_tol=_indistinct(linear)):
        return None
    return "nested" if b < a else "linear"


def _indistinct(equation: Equation) -> float:
    """Return a difference of times that is not one: what measuring the largest leaves open."""
    fit = equation.fit
    return RESOLUTION * max(abs(fit[name]) for name in fit.names)


def sources_of(fitted: Fitted, *, nested: bool, saturated: bool) -> dict[str, str]:
    """Return for each fitted parameter the equation that it is taken from.

    Several equations estimate the same parameter. Which one counts is a matter of the
    form and of the equations that there are, never of how well they fit.
    """
    trip = "4.5 nested" if nested else "4.5"
    first, second = ("4.4 saturated", "4.4") if saturated else ("4.4", "4.4 saturated")
    timing = first if fitted.find(first) is not None else second
    sources = {
        "base_bytes": "4.2",
        "copies": "4.2",
        "unexplained_s": timing,
        "fixed_hop_s": trip,
        "hop_s": trip,
        "idle_load": "4.8 kept",
        "load_per_byte": "4.8 kept",
        "message_s": "4.9" if saturated else "4.8 kept",
    }
    if saturated:
        sources["waiting_s"] = "4.3 saturated"
    else:
        sources["message_s_per_byte"] = "4.8 kept"
    return sources


OPTIONAL = frozenset({"waiting_s", "idle_load", "load_per_byte", "message_s_per_byte"})
"""Parameters that are zero where no run tells them from it."""


def parameters_of(fitted: Fitted, *, nested: bool, saturated: bool) -> Parameters | None:
    """Return the parameters for the equations; None where one is missing."""
    if fitted.token_interval_s is None or fitted.latency_s is None:
        return None
    values: dict[str, float] = {}
    for name, number in sources_of(fitted, nested=nested, saturated=saturated).items():
        value = fitted.value(number, name)
        if value is not None:
            values[name] = value
        elif name not in OPTIONAL:
            return None
    return Parameters(
        message_bytes=fitted.message_bytes,
        latency_s=fitted.latency_s,
        token_interval_s=fitted.token_interval_s,
        **values,
    )
