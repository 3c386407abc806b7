"""The benchmark's own arithmetic, and one tiny run of it."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec
import pytest

from quicksilver.cli.bench.measures import Plan, summarise
from quicksilver.lab.instruments import Observed, Usage
from quicksilver.lab.load import ReceiverResult, SenderResult


def test_the_slowest_receiver_counts() -> None:
    """Rates are of the slowest, losses of all together."""
    usage = Usage(
        cpu_s=0.1, kernel_s=0.0, collector_s=0.0, switches=0, rss_bytes=5, rss_max_bytes=5
    )
    one = ReceiverResult(
        count=100,
        lost=0,
        disorders=0,
        first_at=0.0,
        last_at=1.0,
        wall_s=1.0,
        usage=usage,
        counters={},
        changes={},
        latency=None,
        recovery_s=None,
        losses=0,
        observed=Observed(),
    )
    other = msgspec.structs.replace(one, last_at=2.0, lost=3)
    sent = SenderResult(
        sent=[100],
        seconds=1.0,
        usage=msgspec.structs.replace(usage, cpu_s=0.2),
        rss_empty_bytes=5,
        collections=0,
        counters={},
        observed=Observed(),
    )
    result = summarise(Plan(receivers=2, packet_bytes=1472), sent, [one, other])
    assert result["messages_per_second"] == 50
    assert result["lost"] == 3
    assert result["cpu_us_per_delivery"] == pytest.approx(2000)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("command", "ways"),
    [("unicast", ("multicast", "copies", "tree")), ("hybrid", ("off", "on"))],
)
def test_ways_to_send_are_compared_in_one_run(command: str, ways: tuple[str, ...]) -> None:
    """Real processes; the packets that the sender counts show which way was taken."""
    argv = [sys.executable, "-m", "quicksilver.cli.main", "bench", command, "--json"]
    argv += ["--receivers", "3", "--seconds", "0.3", "--rounds", "1"]
    argv += ["--regions", "3"] if command == "hybrid" else []
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    result = json.loads(done.stdout)
    assert result["lost"] == 0
    assert result[f"ratio_{ways[0]}"] == 1.0
    for way in ways:
        assert result[f"messages_per_second_{way}"] > 0


@pytest.mark.integration
def test_a_tiny_run_prints_what_is_promised() -> None:
    """Real processes, the ceiling in the same run."""
    argv = [sys.executable, "-m", "quicksilver.cli.main", "bench", "throughput"]
    argv += ["--receivers", "1", "--groups", "3", "--seconds", "0.3", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    result = json.loads(done.stdout)
    assert result["lost"] == 0
    assert result["disorders"] == 0
    for name in (
        "messages_per_second",
        "cpu_us_per_delivery",
        "sender_rss_bytes",
        "receiver_rss_bytes",
        "ceiling_messages_per_second",
    ):
        assert result[name] > 0
