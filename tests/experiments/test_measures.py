"""Small functions that numbers depend on."""

from __future__ import annotations

from math import pi, sin

import pytest

from quicksilver.experiments.base import Context, ExperimentError
from quicksilver.experiments.calibration import _solve
from quicksilver.experiments.catalogue import EXPERIMENTS
from quicksilver.experiments.costs import fit_cold, slope
from quicksilver.experiments.gauges import latency_metrics, percentile, strongest_wave, variation
from quicksilver.experiments.machines import (
    MACHINES,
    find_machine,
    load_machine,
    save_machine,
)
from quicksilver.experiments.real import distribution_of_rounds, shares
from quicksilver.experiments.scenario import SharedParser
from quicksilver.lab.instruments import Observed, Usage, summarise_ages
from quicksilver.multicast.receiving.lost import REORDERED_S
from quicksilver.wire.packets import parse_body


def test_an_even_rate_does_not_vary() -> None:
    assert variation([5.0, 5.0, 5.0]) == 0.0
    assert variation([]) == 0.0
    assert variation([0.0, 10.0]) == pytest.approx(1.0)


def test_percentiles_of_few_values() -> None:
    assert percentile([], 0.5) == 0.0
    assert percentile([1.0, 2.0, 3.0], 0.5) == 2.0
    assert latency_metrics(summarise_ages([])) == {}
    assert latency_metrics(summarise_ages([0.001]))["latency_ms_p99"] == pytest.approx(1.0)


def test_costs_are_solved_from_three_shapes_of_packets() -> None:
    packet, byte, message = 8.0, 0.0002, 0.4

    def cost(messages: int, size: int) -> tuple[int, int, float]:
        return messages, size, packet + size * byte + messages * message

    shapes = [cost(59, 58_060), cost(1, 58_060), cost(1, 1_060)]
    assert _solve(shapes) == pytest.approx((packet, byte, message))


def test_a_machine_survives_its_file(tmp_path: object) -> None:
    path = tmp_path / "machine.json"  # type: ignore[operator]
    save_machine(path, MACHINES["papers"])
    assert load_machine(path) == MACHINES["papers"]
    assert find_machine("here", path).host.cpu == MACHINES["papers"].host.cpu


def test_a_file_that_is_no_machine_is_told_in_one_line(tmp_path: object) -> None:
    path = tmp_path / "machine.json"  # type: ignore[operator]
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ExperimentError, match="calibrate"):
        load_machine(path)
    with pytest.raises(ExperimentError, match="known are here"):
        find_machine("there")


def test_shared_parsing_is_parsing() -> None:
    parser = SharedParser()
    from quicksilver.wire.ids import NodeId
    from quicksilver.wire.packets import (
        FLAG_SINGLE,
        KIND_DATA,
        POSITION,
        encode_prefix,
        encode_single,
        stream_key,
    )

    head = encode_prefix(KIND_DATA, FLAG_SINGLE, stream_key(1, 2, 3, 4)) + POSITION.pack(0, 0)
    data = head + b"".join(encode_single(7, 0, [3, 3], [b"abc", b"def"]))
    body = parser(data, FLAG_SINGLE, NodeId(2), 0)
    plain = parse_body(data, FLAG_SINGLE, NodeId(2), 0)
    assert body is not None
    assert body.payloads == plain.payloads  # type: ignore[union-attr]
    assert parser(data, FLAG_SINGLE, NodeId(2), 0) is body


def test_a_wave_is_found_by_its_period() -> None:
    wave = [100 + 7 * sin(2 * pi * at * 0.25 / 8.0) for at in range(256)]
    period, amplitude = strongest_wave(wave, 0.25)
    assert period == pytest.approx(8.0)
    assert amplitude == pytest.approx(0.07)
    assert strongest_wave([5.0] * 64, 0.25)[1] == pytest.approx(0.0)
    assert strongest_wave([], 0.25) == (0.0, 0.0)


@pytest.mark.parametrize("value", [5.0, 0.1, 1 / 3, 1e-300])
def test_rounding_is_no_wave_and_does_not_choose_one(value: float) -> None:
    """The mean of equal values need not be that value; a pulse has all waves alike."""
    assert strongest_wave([value] * 63, 0.25) == (0.0, 0.0)
    for at in range(64):
        pulse = [0.0] * at + [value] + [0.0] * (63 - at)
        assert strongest_wave(pulse, 0.25)[0] == 16.0


def test_a_slope_is_never_below_zero() -> None:
    assert slope([(1, 3.0), (2, 5.0), (4, 9.0)]) == pytest.approx(2.0)
    assert slope([(1, 3.0), (2, 1.0)]) == 0.0
    assert slope([(1, 3.0)]) == 0.0


def test_cold_caches_cost_more_with_each_of_a_few_others_and_no_more_with_many() -> None:
    each, most = fit_cold([(0, 10.0), (1, 60.0), (3, 160.0), (7, 200.0), (11, 220.0)])
    assert each == pytest.approx(50.0)
    assert most == pytest.approx(200.0)


def usage(cpu_s: float, kernel_s: float, collector_s: float) -> Usage:
    return Usage(
        cpu_s=cpu_s,
        kernel_s=kernel_s,
        collector_s=collector_s,
        switches=0,
        rss_bytes=0,
        rss_max_bytes=0,
    )


def test_shares_are_of_the_processor_time_of_all() -> None:
    found = shares("sender", [usage(3.0, 1.0, 0.1), usage(1.0, 1.0, 0.1)])
    assert found["sender_kernel_percent"] == pytest.approx(50.0)
    assert found["sender_collector_percent"] == pytest.approx(5.0)
    assert shares("sender", []) == {"sender_kernel_percent": 0.0, "sender_collector_percent": 0.0}


def test_the_highest_rings_tokens_are_counted() -> None:
    observed = [
        Observed(round_bins={0: [(5, 9)], 1: [(7, 2)]}, slowest_rounds_s={1: [0.004]}),
        Observed(round_bins={1: [(7, 1), (8, 1)]}, slowest_rounds_s={1: [0.002]}),
        Observed(),
    ]
    found = distribution_of_rounds(observed)
    assert found["token_rtt_bins"] == [(7, 3), (8, 1)]
    assert found["token_rtt_ms_slowest_tenth"] == pytest.approx(3.0)
    assert distribution_of_rounds([Observed()]) == {}


@pytest.mark.slow
def test_a_lossy_point_times_packets_tokens_and_repairs() -> None:
    """What the figures of a perturbed receiver and the analytical model are made from."""
    experiment = EXPERIMENTS["loss"]
    settings = dict(experiment.settings) | {"warmup": 0.1, "seconds": 0.6, "every": 0.2}
    (point,) = experiment.points(
        axes={"nodes": [6], "perturbed": [True]}, settings=settings, place="sim", rounds=1, seed=1
    )
    found = experiment.run(point, Context(seed=1))
    assert 0 < found["packet_ms_mean"] < found["ack_ms_mean"]
    # Counted from when a packet leaves the card: late ones are waited for, then it is asked for.
    assert found["repair_ms_mean"] > 1e3 * REORDERED_S
    assert 0 < found["token_interval_ms"] <= 51
    assert found["disturbed_memory_bytes_mean"] > 0
    assert sum(count for _, count in found["token_rtt_bins"]) > 10
    assert found["token_rtt_ms_slowest_tenth"] > 0
