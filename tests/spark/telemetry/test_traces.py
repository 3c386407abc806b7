"""A trace of two nodes, through all tables, in a batch and in steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quicksilver.trace import records
from quicksilver.trace.parquet import ParquetTrace
from tests.docs.parsing import texts
from tests.spark.soaking import only_in_soak

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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


def group(at: float, node: int, *, sent: int, received: int) -> records.GroupSampled:
    return records.GroupSampled(
        at,
        node,
        group=3,
        group_name="prices",
        regions=(7,),
        groups=1,
        seconds=0.5,
        sent_messages=sent,
        sent_bytes=10 * sent,
        received_messages=received,
        received_bytes=10 * received,
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
            one(group(at, 1, sent=100, received=0))
            two(group(there, 2, sent=0, received=100))
            one(sample(at, 1, 100 * second, at + 5000))
            two(sample(there, 2, 100 * second, at + 5000.01))


def plain(table: DataFrame) -> list[str]:
    """Rows that can be compared: an offset of clocks is a sum of floats in some order."""
    rows = table.drop("time").collect()
    return sorted(str([round(v, 6) if isinstance(v, float) else v for v in row]) for row in rows)


def foreign() -> bytes:
    """A Parquet file of somebody else, with a column of our name and another type."""
    import pyarrow
    import pyarrow.parquet

    sink = pyarrow.BufferOutputStream()
    columns = {"at": ["noon"], "node": [1], "writer": ["w"], "number": [1]}
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    return bytes(sink.getvalue())


@pytest.mark.spark
def test_a_trace_becomes_tables(spark: SparkSession, tmp_path: Path) -> None:
    """Clocks agree afterwards, nothing is counted twice, what cannot be read is left out."""
    from quicksilver.spark.telemetry.transforms import GOLD
    from quicksilver.spark.telemetry.views import SQL_VIEWS, make_views
    from quicksilver.stdx.bins import percentile_ms

    write(tmp_path, range(1, 6))
    place = tmp_path / "run=r" / "kind=PacketsMissed"
    (place / "torn-000000.parquet").write_bytes(b"PAR1 and no end")
    (place / "foreign-000000.parquet").write_bytes(foreign())
    (place / "empty-000000.parquet").touch()
    newer = tmp_path / "run=r" / "kind=FromTheFuture"
    newer.mkdir()
    whole = next(iter(place.glob("two-*.parquet")))
    (place / "copy-000000.parquet").write_bytes(whole.read_bytes())
    (newer / "two-000099.parquet").write_bytes(whole.read_bytes())
    tables = make_views(spark, tmp_path, ["r"])
    assert set(tables) == {"trace", *GOLD, "waves", *SQL_VIEWS}
    delays = [(row["bin"], row["packets"]) for row in tables["latencies"].collect()]
    assert sum(count for _, count in delays) == 10
    assert percentile_ms(delays, 0.99) == pytest.approx(4.0, rel=0.2)
    assert tables["repairs"].collect()[0].asDict()["packets"] == 3
    losses = tables["region_seconds"].groupBy("node").sum("lost_packets").collect()
    assert {row["node"]: row[1] for row in losses} == {1: 0, 2: 15}
    (query,) = texts("docs/figures.md", "sql")
    assert [tuple(row) for row in spark.sql(query).collect()] == [("prices", 15)]
    acks = [row["ack_ms"] for row in tables["ack_times"].collect()]
    assert acks == pytest.approx([50.0] * 5)
    rates = [row["delivered_per_s"] for row in tables["node_seconds"].collect()]
    assert rates == pytest.approx([200.0] * 8)
    groups = tables["group_seconds"].where("node = 2").collect()
    assert {(r["group_name"], r["received_messages"], r["received_per_s"]) for r in groups} == {
        ("prices", 100, 200.0)
    }
    facts = tables["runs"].collect()[0]
    assert (facts["writers"], facts["is_whole"], facts["dropped"]) == (2, True, 0)
    assert tables["trace"].where("kind = 'FromTheFuture'").count() == 5


@only_in_soak
@pytest.mark.spark
def test_steps_give_what_a_batch_gives(spark: SparkSession, tmp_path: Path) -> None:
    """Files that come late, a copy of a file, a torn one; a batch that is tried again."""
    from quicksilver.spark.telemetry.incremental import read_gold, update_gold
    from quicksilver.spark.telemetry.transforms import GOLD
    from quicksilver.spark.telemetry.views import make_views

    folder, gold = tmp_path / "traces", tmp_path / "gold"
    said: list[str] = []
    write(folder, range(1, 70))
    assert update_gold(spark, folder, gold, remark=said.append) > 0
    write(folder, range(100, 130))
    place = folder / "run=r" / "kind=PacketsMissed"
    (place / "torn-000000.parquet").write_bytes(b"PAR1 and no end")
    update_gold(spark, folder, gold, remark=said.append)
    assert [line for line in said if "torn" in line]
    write(folder, range(70, 100))
    whole = next(iter(place.glob("two-*.parquet")))
    (place / "copy-000000.parquet").write_bytes(whole.read_bytes())
    # As after a crash between the last write and the commit of the second batch.
    (gold / "_checkpoint" / "commits" / "1").unlink()
    for crc in (gold / "_checkpoint" / "commits").glob(".1.crc"):
        crc.unlink()
    update_gold(spark, folder, gold, remark=said.append)
    assert update_gold(spark, folder, gold, remark=said.append) == 0
    made, expected = read_gold(spark, gold), make_views(spark, folder, ["r"])
    for name in ("trace", *GOLD):
        rows = plain(made[name])
        assert rows == plain(expected[name]), name
        assert rows, name


@only_in_soak
@pytest.mark.spark
def test_a_clock_that_proves_wrong_makes_the_run_anew(spark: SparkSession, tmp_path: Path) -> None:
    """Of node 2 the first file has no sample: where its clock is shows later."""
    from quicksilver.spark.telemetry.incremental import read_gold, update_gold
    from quicksilver.spark.telemetry.views import make_views

    folder, gold = tmp_path / "traces", tmp_path / "gold"
    said: list[str] = []
    with ParquetTrace(folder, "r", "early") as early:
        early(sample(101.0, 1, 1, 5101.0))
        early(records.RoundCompleted(AHEAD_S + 101.0, 2, 7, 1, 0, 0.02, 1, 0))
    update_gold(spark, folder, gold, remark=said.append)
    write(folder, range(1, 9))
    update_gold(spark, folder, gold, remark=said.append)
    assert any("made anew" in line for line in said)
    made, expected = read_gold(spark, gold), make_views(spark, folder, ["r"])
    for name in ("trace", "region_seconds", "latencies"):
        assert plain(made[name]) == plain(expected[name]), name
