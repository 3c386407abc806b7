"""Traces become observations by way of the gold tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_run_of_one_sender_is_observed_in_si_units(spark: SparkSession) -> None:
    """Seconds in which the sender was busy count; rings of both levels add up."""
    from quicksilver.spark.telemetry.observations import observe_run, summarise

    tables = {
        "node_totals": spark.createDataFrame(
            [("r", 1, 300, 300_000, 0), ("r", 2, 0, 0, 300), ("r", 3, 0, 0, 300)],
            "run string, node long, sent_messages long, sent_bytes long, delivered_messages long",
        ),
        "node_seconds": spark.createDataFrame(
            [
                ("r", 1, 100.0, 5_000, 9e6, 40.0),
                ("r", 1, 200.0, 15_000, 11e6, 60.0),
                ("r", 1, 1.0, 0, 1e6, 1.0),
                ("r", 2, 0.0, 0, 8e6, 30.0),
            ],
            "run string, node long, sent_per_s double, pending_bytes long, memory_bytes double, "
            "cpu_percent double",
        ),
        "ack_times": spark.createDataFrame([("r", 4.0), ("r", 6.0)], "run string, ack_ms double"),
        "latencies": spark.createDataFrame([("r", 40, 3)], "run string, bin long, packets long"),
        "trace": spark.createDataFrame(
            [
                ("r", "RoundCompleted", 0, 2, 1.0, 0.002),
                ("r", "RoundCompleted", 0, 2, 2.0, 0.004),
                ("r", "RoundCompleted", 1, 2, 2.0, 0.010),
                ("r", "AckReceived", None, 1, 2.0, None),
            ],
            "run string, kind string, level long, node long, at double, seconds double",
        ),
    }
    (row,) = summarise(tables)
    assert (row["senders"], row["receivers"]) == (1, 2)
    found = observe_run(row)
    assert (found.nodes, found.message_bytes, found.rate) == (2, 1000.0, 150.0)
    assert (found.pending, found.memory, found.load) == (10.0, 10e6, 0.5)
    assert found.ack_s == pytest.approx(0.005)
    assert found.round_trip_s == pytest.approx(0.013)
    assert found.token_interval_s == pytest.approx(0.5)
    # Bin 40 is from 1.024 to 1.218 ms.
    assert found.latency_s == pytest.approx(0.00112, rel=0.01)
