"""Fits find the parameters that runs were made with, and say when they cannot."""

from __future__ import annotations

from dataclasses import replace
from math import sin

import pytest
from msgspec import structs

pytest.importorskip("numpy")

from quicksilver.analysis.errors import BadInputError
from quicksilver.analysis.estimates import Estimate, least_squares, r_squared
from quicksilver.analysis.model.equations import (
    PAPERS_LIGHT,
    Parameters,
    acknowledgement_s,
    load,
    memory_bytes,
    pending_messages,
    round_trip_linear,
    round_trip_nested,
)
from quicksilver.analysis.model.fitting import better_form, fit_model, parameters_of
from quicksilver.analysis.model.load_fitting import choose_terms
from quicksilver.analysis.model.observations import Observation, check_alike, observe
from quicksilver.analysis.model.prediction import FORMS, draw_parameters, papers_predict, predict
from quicksilver.analysis.model.tables import facts_of, table_of

TRUE = replace(PAPERS_LIGHT, token_interval_s=0.5)
RATES = (500.0, 1000.0, 2000.0, 4000.0)


def made(
    nodes: int, offered: float, p: Parameters = TRUE, *, nested: bool = False, noise: float = 0.0
) -> Observation:
    """A run as the model itself would have it, with a little noise that is always the same."""
    # The interval between tokens differs by run, else factors could not be told apart.
    interval = p.token_interval_s * (1 + 0.5 * sin(nodes + offered))
    p = replace(p, token_interval_s=interval)
    trip = round_trip_nested(p, nodes) if nested else round_trip_linear(p, nodes)
    ack_s = acknowledgement_s(p, trip)
    rate = offered or 9000.0
    memory = memory_bytes(p, pending_messages(p, rate, ack_s))
    return Observation(
        origin=f"scale: {nodes} at {offered:g}",
        setting="here",
        nodes=nodes,
        offered=offered,
        rate=rate,
        memory=memory * (1 + noise * sin(7 * nodes + offered)),
        pending=pending_messages(p, rate, ack_s),
        ack_s=ack_s,
        latency_s=p.latency_s,
        token_interval_s=interval,
        round_trip_s=trip,
        load=min(1.0, load(p, rate, memory)),
    )


def sweep(**how: object) -> list[Observation]:
    return [
        *(made(n, 0.0, **how) for n in (2, 5, 10, 20, 50)),  # type: ignore[arg-type]  # keywords
        *(made(n, r, **how) for n in (2, 20) for r in RATES),  # type: ignore[arg-type]  # the same
    ]


def test_parameters_are_found_again() -> None:
    fitted = fit_model(sweep())
    assert fitted.value("4.2", "base_bytes") == pytest.approx(TRUE.base_bytes, rel=1e-6)
    assert fitted.value("4.2", "copies") == pytest.approx(TRUE.copies, rel=1e-6)
    assert fitted.value("4.3", "slope") == pytest.approx(1.0, rel=1e-6)
    assert fitted.value("4.4", "unexplained_s") == pytest.approx(TRUE.unexplained_s, rel=1e-6)
    assert fitted.value("4.5", "fixed_hop_s") == pytest.approx(TRUE.fixed_hop_s, rel=1e-6)
    assert fitted.value("4.5", "hop_s") == pytest.approx(TRUE.hop_s, rel=1e-6)
    assert fitted.value("4.8 kept", "message_s") == pytest.approx(TRUE.message_s, rel=1e-3)
    assert fitted.value("4.8 kept", "message_s_per_byte") == pytest.approx(
        TRUE.message_s_per_byte, rel=1e-3
    )
    assert not fitted.missing


def test_intervals_contain_the_truth_and_shrink_without_noise() -> None:
    found = fit_model(sweep(noise=0.02)).find("4.2")
    assert found is not None
    estimate = found.fit.estimates["copies"]
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < TRUE.copies < estimate.high
    assert 0.9 < (found.fit.r2 or 0.0) < 1.0
    exact = fit_model(sweep()).find("4.2")
    assert exact is not None
    assert exact.fit.rmse < found.fit.rmse / 100


@pytest.mark.parametrize(("nested", "word"), [(True, "nested"), (False, "linear")])
def test_the_form_of_the_rings_is_recognised(nested: bool, word: str) -> None:
    fitted = fit_model(sweep(nested=nested))
    assert better_form(fitted) == word
    assert any("fits better" in fact for fact in facts_of(fitted))


def test_what_memory_costs_is_left_open_where_it_moves_with_the_rate() -> None:
    """Memory in proportion to the rate, and nothing else: σ and ω are one."""
    runs = [
        replace(made(10, rate), memory=rate * 1e3, load=rate * 1e-5 * (1 + 0.01 * sin(rate)))
        for rate in (1000.0, 2000.0, 3000.0, 5000.0, 8000.0)
    ]
    fitted = fit_model(runs)
    kept = fitted.find("4.8 kept")
    assert kept is not None
    assert kept.fit.names == ("message_s",)
    assert any("Left out of extrapolation" in fact for fact in facts_of(fitted))


def test_one_run_gives_values_without_intervals_and_says_what_is_missing() -> None:
    fitted = fit_model([made(10, 1000.0)])
    assert [each.number for each in fitted.missing] == ["4.2", "4.5", "4.6–4.8", "4.9"]
    assert all("quicksilver experiment" in each.needs for each in fitted.missing)
    found = fitted.find("4.4")
    assert found is not None
    assert found.fit.estimates["unexplained_s"].low is None
    assert predict(fitted, [1000]) == []


def test_two_sizes_do_not_say_which_form_is_better() -> None:
    fitted = fit_model([made(2, 0.0), made(10, 0.0)])
    assert any("Too few sizes" in fact for fact in facts_of(fitted))


def test_predictions_have_intervals_that_contain_them() -> None:
    fitted = fit_model(sweep(noise=0.02))
    found = predict(fitted, [100, 5000], draws=200)
    assert {p.nodes for p in found} == {100, 5000}
    for each in found:
        assert each.rate.low is not None
        assert each.rate.high is not None
        assert each.rate.low <= each.rate.value * 1.001
        assert each.rate.value <= each.rate.high * 1.001
        assert not each.is_measured
    linear = [p for p in found if p.form == "4.11, as written"]
    assert linear[1].rate.value < linear[0].rate.value


@pytest.mark.parametrize("variance", [0.0, 1e-300])
def test_a_perfect_fit_is_no_reason_to_take_a_parameter_from_elsewhere(variance: float) -> None:
    """Whether what a fit leaves over is exactly zero depends on the processor."""
    fitted = fit_model(sweep(noise=0.02))
    limit = fitted.find("4.9")
    assert limit is not None
    (estimate,) = limit.fit.estimates.values()
    exact = structs.replace(
        limit,
        fit=structs.replace(
            limit.fit,
            covariance=((variance,),),
            estimates={"message_s": structs.replace(estimate, standard_error=variance**0.5)},
        ),
    )
    equations = tuple(exact if each is limit else each for each in fitted.equations)
    fitted = structs.replace(fitted, equations=equations)
    for each in predict(fitted, [100, 5000], draws=200):
        assert each.rate.low is not None
        assert each.rate.high is not None
        assert each.rate.low <= each.rate.value * 1.001
        assert each.rate.value <= each.rate.high * 1.001


def test_drawn_parameters_are_the_same_whether_or_not_another_equation_is_exact() -> None:
    fitted = fit_model(sweep(noise=0.02))
    first = fitted.find("4.2")
    assert first is not None
    zeros = ((0.0, 0.0), (0.0, 0.0))
    exact = structs.replace(first, fit=structs.replace(first.fit, covariance=zeros))
    equations = tuple(exact if each is first else each for each in fitted.equations)
    middle = parameters_of(fitted, nested=True, saturated=False)
    assert middle is not None
    some, others = (
        draw_parameters(model, FORMS[2], middle, 20)
        for model in (fitted, structs.replace(fitted, equations=equations))
    )
    assert [p.message_s for p in some] == [p.message_s for p in others]
    assert {p.copies for p in others} == {middle.copies}
    assert len({p.copies for p in some}) == 20


def test_runs_that_agree_to_the_last_bit_leave_an_error_that_is_not_rounding() -> None:
    """A cost that is not there must not be found by the rounding of a fit."""
    xs = [0.1 * n for n in range(1, 9)]
    columns = {"one": [1.0] * 8, "x": xs, "square": [x * x for x in xs]}
    fit = least_squares(columns, [0.3 + 0.7 * x for x in xs])
    assert fit is not None
    assert not fit.estimates["square"].is_distinct_from_zero
    assert fit.estimates["x"].is_distinct_from_zero
    assert all((each.standard_error or 0.0) > 1e-11 for each in fit.estimates.values())
    assert list(choose_terms([made(n, r) for n in (2, 9) for r in RATES])[0]) == [
        "message_s",
        "load_per_byte",
        "message_s_per_byte",
    ]


def test_small_values_are_distinct_from_zero() -> None:
    assert Estimate(value=2e-200, low=1e-200, high=3e-200).is_distinct_from_zero
    assert Estimate(value=-2e-200, low=-3e-200, high=-1e-200).is_distinct_from_zero
    assert not Estimate(value=0.0, low=0.0, high=0.0).is_distinct_from_zero


def test_nearly_dependent_columns_are_fitted_to_many_digits() -> None:
    xs = [1.0 + 1e-6 * n for n in range(10)]
    fit = least_squares({"a": [1.0] * 10, "b": xs}, [2.0 + 3.0 * x for x in xs])
    assert fit is not None
    assert fit["b"] == pytest.approx(3.0, rel=1e-6)


@pytest.mark.parametrize("sizes", [(2, 10), (2, 3, 4, 5)])
def test_sizes_for_which_both_forms_are_one_line_do_not_choose_between_them(
    sizes: tuple[int, ...],
) -> None:
    """Both fit as well as the other, but for rounding."""
    fitted = fit_model([made(n, 0.0, noise=0.02) for n in sizes])
    assert better_form(fitted) is None
    assert any("Too few sizes" in fact for fact in facts_of(fitted))


def test_the_papers_prediction_is_limited_by_memory_in_large_groups() -> None:
    """Figure 4.57."""
    few, many = (
        next(p for p in papers_predict([n]) if p.form == "papers, 4.10") for n in (200, 5000)
    )
    assert few.rate == few.rate_uncapped
    assert many.rate == many.rate_cap


def test_runs_of_different_machines_are_not_mixed() -> None:
    with pytest.raises(BadInputError, match="different machines \\(here, papers\\)"):
        check_alike([made(2, 0.0), replace(made(2, 0.0), setting="papers")])
    with pytest.raises(BadInputError, match="messages of 100, 1000 bytes"):
        check_alike([made(2, 0.0), replace(made(2, 0.0), message_bytes=100.0)])


def test_points_become_observations_in_si_units() -> None:
    row = {
        "experiment": "scale",
        "point": "p",
        "place": "sim",
        "machine": "here",
        "nodes": 5,
        "senders": 1,
        "rate": 0.0,
        "size": 1000,
        "partition_size": 0,
        "messages_per_second": 100.0,
        "sent_messages_per_second": 110.0,
        "ack_ms_mean": 5.0,
        "token_rtt_ms": 2.0,
        "token_interval_ms": 50.0,
        "packet_ms_mean": 0.5,
        "pending_messages_mean": 3.0,
        "sender_memory_bytes_mean": 3000.0,
        "sender_cpu_percent": 99.0,
    }
    found = observe(row)
    assert (found.nodes, found.rate, found.ack_s, found.round_trip_s) == (5, 100.0, 0.005, 0.002)
    assert (found.latency_s, found.token_interval_s, found.ring_size) == (0.0005, 0.05, 5)
    assert found.is_saturated
    bare = observe({"experiment": "scale", "point": "p", "place": "real", "nodes": 2})
    assert bare.rate is None
    assert bare.ack_s is None


def test_squares_agree_with_a_line_by_hand() -> None:
    fit = least_squares({"a": [1.0] * 4, "b": [0.0, 1.0, 2.0, 3.0]}, [1.0, 3.0, 5.0, 7.0])
    assert fit is not None
    assert (fit["a"], fit["b"]) == (pytest.approx(1.0), pytest.approx(2.0))
    assert fit.r2 == pytest.approx(1.0)
    assert least_squares({"a": [1.0, 1.0], "b": [2.0, 2.0]}, [1.0, 2.0]) is None
    assert least_squares({"a": []}, []) is None
    assert r_squared([5.0, 5.0], [4.0, 6.0]) is None


def test_leaving_one_out_agrees_with_doing_so() -> None:
    xs, ys = [0.0, 1.0, 2.0, 4.0, 7.0], [1.0, 2.2, 2.8, 5.1, 7.7]
    misses = []
    for out in range(5):
        rest = [i for i in range(5) if i != out]
        fit = least_squares({"a": [1.0] * 4, "b": [xs[i] for i in rest]}, [ys[i] for i in rest])
        assert fit is not None
        misses.append(ys[out] - fit["a"] - fit["b"] * xs[out])
    whole = least_squares({"a": [1.0] * 5, "b": xs}, ys)
    assert whole is not None
    assert whole.left_out_rmse == pytest.approx((sum(m * m for m in misses) / 5) ** 0.5)


def test_the_table_stands_next_to_the_papers_values() -> None:
    head, rows = table_of(fit_model(sweep()))
    assert "papers" in head
    by_letter = {(row[0].split(":")[0], row[1]): row for row in rows}
    assert by_letter["4.5", "ΔS1"][3] == "191 ms"
    assert parameters_of(fit_model(sweep()), nested=True, saturated=False) is not None
