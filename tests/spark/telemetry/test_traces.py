"""A trace of two nodes, through all tables, in a batch and as a stream."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quicksilver.spark.errors import BadInputError
from quicksilver.spark.telemetry.job import find_torn, find_traces
from quicksilver.trace import records
from quicksilver.trace.parquet import ParquetTrace
from tests.spark.soaking import only_in_soak

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AHEAD_S = 1000.0
"""How far the second node's clock is ahead."""


def sample(at: float, node: int, total: int, wall_s: float) -> records.NodeSampled:
    return records.NodeSampled(
        at,
        node,
        wall_s=wall_s,
        sent_messages=total,
        sent_bytes=total,
        delivered_messages=2 * total,
        delivered_bytes=2 * total,
        missing=0,
        repairs_received=0,
        repairs_sent=0,
        resent=0,
        duplicates=0,
        kernel_drops=0,
        pending_bytes=5,
        queued_bytes=0,
        memory_bytes=7,
        cpu_s=total / 1000,
        alarm_delay_s=0.001,
        inversion_s=0.0,
    )


def write(folder: Path, seconds: range) -> None:
    """Node 1 sends, node 2 receives; the times of day agree, but for 10 ms."""
    with ParquetTrace(folder, "r", "one") as one, ParquetTrace(folder, "r", "two") as two:
        for second in seconds:
            at = 100.25 + second
            there = at + AHEAD_S
            packet = second * records.SAMPLE_EVERY
            one(records.PacketSent(at, 1, 7, 1, packet))
            two(records.PacketArrived(there + 0.004, 2, 7, 1, 1, packet))
            # The same the other way, which takes as long.
            two(records.PacketSent(there, 2, 7, 1, packet))
            one(records.PacketArrived(at + 0.004, 1, 7, 1, 2, packet))
            one(records.AckReceived(at + 0.05, 1, 7, 1, packet + 1, 11, 2, 0.002))
            two(records.PacketsMissed(there, 2, 7, 1, 1, 3))
            one(records.RepairsSent(at, 1, 7, 1, 1, 2, 3))
            one(records.RoundCompleted(at, 1, 7, 1, 0, 0.02, 1, 0))
            one(sample(at, 1, 100 * second, at + 5000))
            two(sample(there, 2, 100 * second, at + 5000.01))


def test_paths_without_a_trace_are_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is no folder"):
        find_traces(tmp_path / "nothing")
    with pytest.raises(BadInputError, match="has no runs"):
        find_traces(tmp_path)
    (tmp_path / "run=empty").mkdir()
    with pytest.raises(BadInputError, match="no records"):
        find_traces(tmp_path / "run=empty")


def test_torn_files_are_found(tmp_path: Path) -> None:
    write(tmp_path, range(1))
    torn = tmp_path / "run=r" / "kind=PacketSent" / "torn-000000.parquet"
    torn.write_bytes(b"PAR1 and no end")
    assert find_traces(tmp_path) == (tmp_path, ["r"])
    assert find_torn(tmp_path, ["r"]) == [torn]


@pytest.mark.spark
def test_a_trace_becomes_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Clocks agree afterwards, nothing is counted twice, a torn file is left out."""
    from quicksilver.spark.telemetry.bins import percentile_ms
    from quicksilver.spark.telemetry.views import NAMES, make_views

    write(tmp_path, range(1, 6))
    place = tmp_path / "run=r" / "kind=PacketsMissed"
    (place / "torn-000000.parquet").write_bytes(b"PAR1 and no end")
    whole = next(iter(place.glob("two-*.parquet")))
    (place / "copy-000000.parquet").write_bytes(whole.read_bytes())
    tables = make_views(spark, tmp_path, ["r"])
    assert set(tables) == set(NAMES)
    delays = [(row["bin"], row["packets"]) for row in tables["latencies"].collect()]
    assert sum(count for _, count in delays) == 10
    assert percentile_ms(delays, 0.99) == pytest.approx(4.0, rel=0.2)
    assert tables["repairs"].collect()[0].asDict()["packets"] == 3
    losses = tables["region_seconds"].groupBy("node").sum("lost_packets").collect()
    assert {row["node"]: row[1] for row in losses} == {1: 0, 2: 15}
    acks = [row["ack_ms"] for row in tables["ack_times"].collect()]
    assert acks == pytest.approx([50.0] * 5)
    rates = [row["delivered_per_s"] for row in tables["node_seconds"].collect()]
    assert rates == pytest.approx([200.0] * 8)
    facts = tables["runs"].collect()[0]
    assert (facts["writers"], facts["is_whole"], facts["dropped"]) == (2, True, 0)
    assert tables["slow_receivers"].count() == 0


@only_in_soak
@pytest.mark.spark
def test_a_stream_gives_what_a_batch_gives(spark: SparkSession, tmp_path: Path) -> None:
    """In two steps; the last minute waits for more."""
    from quicksilver.spark.telemetry.job import update_gold
    from quicksilver.spark.telemetry.views import make_views

    folder, gold = tmp_path / "traces", tmp_path / "gold"
    write(folder, range(1, 100))
    first = update_gold(spark, folder, "r", gold)
    write(folder, range(100, 200))
    second = update_gold(spark, folder, "r", gold)
    assert 0 < first["node_totals"] < second["node_totals"]
    made = spark.read.parquet(str(gold / "run=r" / "region_seconds"))
    expected = make_views(spark, folder, ["r"])["region_seconds"]
    last = made.agg({"second": "max"}).collect()[0][0]
    assert made.exceptAll(expected).count() == 0
    assert expected.where(expected["second"] <= last).exceptAll(made).count() == 0
