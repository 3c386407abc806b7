"""The benchmark's own arithmetic, and one tiny run of it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from quicksilver.cli.bench.process import _sent_counts
from quicksilver.cli.bench.throughput import Plan, summarise
from quicksilver.cli.bench.workload import Tally


def test_a_tally_counts_and_notices_disorder_and_loss() -> None:
    """Verified means that a wrong stream is caught."""
    tally = Tally(2)
    tally.handle_run(0, 0, [b"a", b"b"])
    tally.handle_mixed([1, 0], [0, 2], [b"c", b"d"])
    assert (tally.count, tally.disorders) == (4, 0)
    tally.handle_run(1, 5, [b"e"])
    assert tally.disorders == 1
    assert tally.missing([4, 6]) == 1


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
    assert _sent_counts(groups, count, step) == sent


def test_the_slowest_receiver_counts() -> None:
    """Rates are of the slowest, losses of all together."""
    one = {"count": 100, "first": 0.0, "last": 1.0, "lost": 0, "disorders": 0, "cpu_s": 0.1,
           "rss_bytes": 5, "stats": {}}  # fmt: skip
    other = {**one, "last": 2.0, "lost": 3}
    sent = {"sent": [100], "cpu_s": 0.2, "rss_bytes": 7, "stats": {}}
    report = summarise(Plan(receivers=2, packet_bytes=1472), sent, [one, other])
    assert report["messages_per_second"] == 50
    assert report["lost"] == 3
    assert report["cpu_us_per_delivery"] == pytest.approx(2000)


@pytest.mark.integration
def test_a_tiny_run_prints_what_is_promised() -> None:
    """Real processes, the ceiling in the same run."""
    argv = [sys.executable, "-m", "quicksilver.cli.main", "bench", "throughput"]
    argv += ["--receivers", "1", "--groups", "3", "--seconds", "0.3", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    report = json.loads(done.stdout)
    assert report["lost"] == 0
    assert report["disorders"] == 0
    for name in (
        "messages_per_second",
        "cpu_us_per_delivery",
        "sender_rss_bytes",
        "receiver_rss_bytes",
        "ceiling_messages_per_second",
    ):
        assert report[name] > 0
