"""The equations reproduce the dissertation's own numbers, and solve each other."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from quicksilver.analysis.model.equations import (
    PAPERS,
    PAPERS_LIGHT,
    acknowledgement_s,
    capped_rate,
    load,
    load_at,
    memory_bytes,
    pending_messages,
    predicted_rate,
    ring_hops,
    round_trip_linear,
    saturated_rate,
)
from quicksilver.recovery.domains import Hierarchy


def test_the_papers_values_give_the_papers_times() -> None:
    """Figure 4.24: the token takes about 0.2 s with 2 nodes and 0.8 s with 200; 4.4 gives
    0.8 s to acknowledge with the smallest group."""
    assert round_trip_linear(PAPERS, 2) == pytest.approx(0.195, abs=0.001)
    assert round_trip_linear(PAPERS, 200) == pytest.approx(0.868, abs=0.001)
    assert acknowledgement_s(PAPERS, round_trip_linear(PAPERS, 2)) == pytest.approx(
        0.828, abs=0.001
    )


def test_throughput_of_the_papers_model_falls_by_some_percent_to_200_nodes() -> None:
    """Figure 4.18: by about 5 %; the model they settled upon has 8,090 and 7,726 a second."""
    few, many = (
        predicted_rate(PAPERS, acknowledgement_s(PAPERS, round_trip_linear(PAPERS, n)))
        for n in (2, 200)
    )
    assert few == pytest.approx(8_080, rel=0.01)
    assert 0.93 < many / few < 0.98


def test_memory_grows_by_what_is_pending() -> None:
    """Equation 4.2 with Little's law (4.3): 7,000 messages/s and 1 s are 17.5 MB more."""
    pending = pending_messages(PAPERS, 7000.0, 1.0)
    assert memory_bytes(PAPERS, pending) == pytest.approx(20.311e6 + 17.5e6)


@pytest.mark.parametrize("p", [PAPERS, PAPERS_LIGHT, replace(PAPERS_LIGHT, waiting_s=0.1)])
@pytest.mark.parametrize("ack_s", [0.0, 0.8, 20.0])
def test_the_predicted_rate_takes_the_whole_processor(p: object, ack_s: float) -> None:
    """4.10 and 4.11 are the solutions of 4.8 for a load of 1."""
    rate = predicted_rate(p, ack_s)  # type: ignore[arg-type]  # parametrized
    assert load_at(p, rate, ack_s) == pytest.approx(1.0)  # type: ignore[arg-type]  # the same


def test_rate_out_of_memory_takes_the_whole_processor_too() -> None:
    assert load(PAPERS_LIGHT, saturated_rate(PAPERS_LIGHT, 50e6), 50e6) == pytest.approx(1.0)


def test_the_cap_fills_the_memory() -> None:
    rate = capped_rate(PAPERS, 2.0, 100e6)
    assert memory_bytes(PAPERS, pending_messages(PAPERS, rate, 2.0)) == pytest.approx(100e6)
    assert capped_rate(PAPERS, 2.0, 1e6) == 0.0
    assert capped_rate(PAPERS, 0.0, 100e6) == inf


def test_without_time_left_nothing_is_sent() -> None:
    assert predicted_rate(replace(PAPERS, idle_load=1.0), 1.0) == 0.0
    assert saturated_rate(PAPERS, 1e12) == 0.0


@pytest.mark.parametrize("nodes", [1, 2, 3, 5, 6, 10, 26, 50, 124, 200, 1000])
def test_hops_are_those_of_the_engines_rings(nodes: int) -> None:
    """Against the hierarchy that nodes really build; rings of a level differ by one node."""
    levels = Hierarchy(tuple(range(1, nodes + 1)), 5).levels
    exact = 0.0
    for level in levels:
        sizes = [len(ring.members) for ring in level]
        mean = sum(sizes) / len(sizes)
        exact += mean if mean > 1 else 0.0
    assert ring_hops(nodes) == pytest.approx(exact)
