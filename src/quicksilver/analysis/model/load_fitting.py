"""What messages and memory cost the sender's processor: equations 4.6 to 4.9."""

from __future__ import annotations

from collections.abc import Sequence

from quicksilver.analysis.estimates import Estimate, Fit, least_squares
from quicksilver.analysis.model.fitted import (
    Equation,
    Found,
    Missing,
    different,
    judge,
    known,
    names_of,
    usable,
)
from quicksilver.analysis.model.observations import Observation

TERMS = {
    "idle_load": "θ0",
    "message_s": "β · µ",
    "load_per_byte": "σ · m",
    "message_s_per_byte": "α · m · µ",
}
LOAD_TERMS = ("idle_load", "message_s", "load_per_byte", "message_s_per_byte")


def _load_columns(some: Sequence[Observation], terms: Sequence[str]) -> dict[str, list[float]]:
    full = {
        "idle_load": [1.0] * len(some),
        "message_s": [known(o.rate) for o in some],
        "load_per_byte": [known(o.memory) for o in some],
        "message_s_per_byte": [known(o.rate) * known(o.memory) for o in some],
    }
    return {name: full[name] for name in terms}


def fit_load(observations: Sequence[Observation]) -> Found:
    """4.6, 4.8 and 4.9: what a message and what memory cost the sender."""
    some = usable(observations, lambda o: o.load, lambda o: o.rate, lambda o: o.memory)
    light = [o for o in some if not o.is_saturated]
    saturated = [o for o in some if o.is_saturated]
    found: list[Equation] = []
    missing: list[Missing] = []
    if len({round(known(o.rate)) for o in light}) > 1:
        found += _load_forms(light)
    else:
        missing.append(
            Missing(number="4.6–4.8", needs=different("rates below the limit", "--rate"))
        )
    if saturated:
        found.append(_saturated_form(saturated, found))
    else:
        missing.append(
            Missing(
                number="4.9",
                needs="runs with a saturated sender (≥ 95 %): quicksilver experiment scale "
                "--senders 1 --nodes 2,5,10,20,50",
            )
        )
    return found, missing


def _load_forms(light: Sequence[Observation]) -> list[Equation]:
    loads = [known(o.load) for o in light]
    found = []
    for number, form, terms in (
        ("4.6", "θ = θ0 + ω · µ + σ · m", LOAD_TERMS[:3]),
        ("4.8", "θ = θ0 + β · µ + σ · m + α · m · µ", LOAD_TERMS),
    ):
        fit = least_squares(_load_columns(light, terms), loads)
        if fit is not None:
            found.append(_load_equation(number, form, fit, light))
    kept, fit = choose_terms(light)
    if fit is not None:
        remark = "terms whose interval has zero in it, or that are negative, are left out"
        found.append(
            _load_equation(
                "4.8 kept", f"θ = {' + '.join(TERMS[name] for name in kept)}", fit, light, remark
            )
        )
    return found


def _load_equation(
    number: str, form: str, fit: Fit, some: Sequence[Observation], remark: str = ""
) -> Equation:
    return Equation(
        number=number, form=form, fit=fit, unit="%", scale=100.0, runs=names_of(some), remark=remark
    )


def choose_terms(light: Sequence[Observation]) -> tuple[tuple[str, ...], Fit | None]:
    """Drop one by one the terms of 4.8 that the runs do not tell from zero.

    Rate and memory rise together, so that most sweeps cannot tell what each costs; a
    parameter that could as well be zero must not be extrapolated from. The cost of a
    message stays.
    """
    terms: tuple[str, ...] = LOAD_TERMS
    while True:
        fit = least_squares(_load_columns(light, terms), [known(o.load) for o in light])
        if fit is not None:
            weak = [
                (_strength(fit.estimates[name]), name)
                for name in terms
                if name != "message_s"
                and (not fit.estimates[name].is_distinct_from_zero or fit[name] < 0)
            ]
            if not weak:
                return terms, fit
            dropped = min(weak)[1]
        elif len(terms) == 1:
            return terms, None
        else:
            dropped = terms[-1]
        terms = tuple(name for name in terms if name != dropped)


def _strength(estimate: Estimate) -> float:
    """Return how many standard errors a value is above zero.

    To a thousandth: of terms that are all about zero, rounding must not choose one.
    """
    if not estimate.standard_error:
        return 0.0
    return round(estimate.value / estimate.standard_error, 3)


def _saturated_form(saturated: Sequence[Observation], found: Sequence[Equation]) -> Equation:
    """4.9 with α = 0, as the papers settled: what a message costs at the limit."""
    kept = next((e for e in found if e.number == "4.8 kept"), None)
    per_byte = kept.fit[name] if kept and (name := "load_per_byte") in kept.fit.estimates else 0.0
    idle = kept.fit[name] if kept and (name := "idle_load") in kept.fit.estimates else 0.0
    costs = [(known(o.load) - idle - per_byte * known(o.memory)) / known(o.rate) for o in saturated]
    fit = least_squares({"message_s": [1.0] * len(costs)}, costs)
    assert fit is not None
    rates = [known(o.rate) for o in saturated]
    predicted = [(1.0 - idle - per_byte * known(o.memory)) / fit["message_s"] for o in saturated]
    return Equation(
        number="4.9",
        form="µ = (1 − θ0 − σ · m) / β, α = 0",
        fit=judge(fit, rates, predicted),
        unit="messages/s",
        runs=names_of(saturated),
    )
