"""What senders and receivers measure: arithmetic that reports rest on."""

from __future__ import annotations

import gc

import msgspec
import pytest

from quicksilver.lab.instruments import (
    CollectorTime,
    Observed,
    OrderCheck,
    recovery_s,
    summarise_ages,
    take_usage,
)
from quicksilver.lab.load import count_sent


def test_an_order_check_counts_and_notices_disorder_and_loss() -> None:
    """Verified means that a wrong stream is caught."""
    check = OrderCheck(2)
    check.handle_run(0, 0, [b"a", b"b"])
    check.handle_mixed([1, 0], [0, 2], [b"c", b"d"])
    assert (check.count, check.disorders) == (4, 0)
    check.handle_run(1, 5, [b"e"])
    assert check.disorders == 1
    assert check.missing([4, 6]) == 1


@pytest.mark.parametrize(("groups", "count"), [(1, 7), (256, 3), (1000, 0), (1000, 9), (8192, 70)])
def test_the_sender_knows_what_went_where(groups: int, count: int) -> None:
    """The same counts as replaying the sender's loop."""
    step = 256
    sent = [0] * groups
    place = 0
    for _ in range(count):
        if groups <= step:
            sent = [n + 1 for n in sent]
            continue
        for group in range(place, min(groups, place + step)):
            sent[group] += 1
        place = place + step if place + step < groups else 0
    assert count_sent(groups, count, step) == sent


def test_the_collectors_time_is_what_it_takes() -> None:
    watch = CollectorTime()
    gc.callbacks.append(watch.note)
    try:
        assert watch.seconds == 0.0
        gc.collect()
        assert watch.seconds > 0.0
    finally:
        gc.callbacks.remove(watch.note)


def test_usage_is_what_was_used_in_between_and_memory_as_it_is() -> None:
    collector = CollectorTime()
    before = take_usage(collector)
    collector.seconds = 2.0
    used = take_usage(collector).since(before)
    assert used.collector_s == 2.0
    assert 0 <= used.cpu_s < 5.0
    assert used.rss_bytes > 1 << 20


def test_rounds_of_rings_survive_the_way_to_the_parent() -> None:
    """Keys of mappings are text in JSON; levels of rings are numbers again afterwards."""
    said = Observed(rounds={1: (3, 0.5)}, round_bins={1: [(4, 3)]}, slowest_rounds_s={1: [0.9]})
    plain = msgspec.json.decode(msgspec.json.encode(said))
    assert msgspec.convert(plain, Observed, strict=False) == said


def test_ages_are_summed_up() -> None:
    found = summarise_ages([0.001 * (number + 1) for number in range(1000)])
    assert found is not None
    assert found.p50_s == pytest.approx(0.501)
    assert found.p999_s == found.max_s == pytest.approx(1.0)
    assert summarise_ages([]) is None


def test_recovery_is_the_age_of_the_oldest_of_late_messages_that_come_together() -> None:
    usual = [(at / 1000, 0.0005) for at in range(3000)]
    losses = [(1.0, 0.030), (1.0, 0.029), (1.0, 0.028), (2.0, 0.050), (2.001, 0.010)]
    found, count = recovery_s(usual + losses)
    assert count == 2
    assert found == pytest.approx(0.040)


def test_without_late_messages_there_is_no_recovery() -> None:
    assert recovery_s([(at / 1000, 0.0005) for at in range(100)]) == (None, 0)
    assert recovery_s([]) == (None, 0)
