"""``format("quicksilver")`` with real Spark and a real cluster: writing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from quicksilver import sync
from quicksilver.recorder.exactly_once import exactly_once_sync
from quicksilver.recorder.repeats import Repeats
from tests.cli.processes import running_gms
from tests.spark.connector.cluster import recording, rows, wait_rows
from tests.spark.connector.test_source import log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.integration]

LO = {"quicksilver.interface": "lo"}


@pytest.fixture(scope="module")
def gms() -> Iterator[str]:
    with running_gms() as address:
        yield address


def test_a_table_is_published_to_recorder_and_subscriber(
    spark: SparkSession, gms: str, tmp_path: Path
) -> None:
    """Topics by column, keys and headers; rows are on the recorder's disk when save returns."""
    with (
        sync.connect(gms, interface="lo", tune_gc=False) as node,
        recording(gms, tmp_path, "even", "odd") as recorder,
    ):
        heard = node.join("even")
        table = spark.range(1000).selectExpr(
            "cast(id as string) as value",
            "concat('k', id) as key",
            "if(id % 2 = 0, 'even', 'odd') as topic",
            "array(struct('h' as key, cast(cast(id as string) as binary) as value)) as headers",
        )
        (
            table.repartition(3)
            .write.format("quicksilver")
            .mode("append")
            .options(gms=gms, recorders=recorder.address, **LO)
            .save()
        )
        found = rows(tmp_path, "even")
        assert len(found) == 500
        assert {(row["value"], row["key"]) for row in found} == {
            (b"%d" % n, b"k%d" % n) for n in range(0, 1000, 2)
        }
        assert all(row["headers"] == [{"key": "h", "value": row["value"]}] for row in found)
        assert {row["value"] for row in rows(tmp_path, "odd")} == {
            b"%d" % n for n in range(1, 1000, 2)
        }
        live = list(exactly_once_sync(heard, timeout_s=1))
        assert sorted(row.value for row in live) == sorted(row["value"] for row in found)


def test_a_batch_that_is_run_again_is_recorded_once(
    spark: SparkSession, gms: str, tmp_path: Path
) -> None:
    """Its commit is lost, as by a crash: it is sent again under the same names, and dropped."""
    logs, out, work = tmp_path / "logs", tmp_path / "out", tmp_path / "work"
    log(logs, "in", 0, 300)
    repeats = Repeats()

    def publish() -> None:
        stream = (
            spark.readStream.format("quicksilver")
            .options(path=str(logs), subscribe="in", startingOffsets="earliest")
            .load()
        )
        query = (
            stream.select("key", "value")
            .repartition(2, "key")
            .writeStream.format("quicksilver")
            .options(gms=gms, topic="copy", **LO)
            .option("checkpointLocation", str(work))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)

    with (
        sync.connect(gms, interface="lo", tune_gc=False) as node,
        recording(gms, out, "copy"),
    ):
        heard = node.join("copy")
        publish()
        for commit in (work / "commits").glob("*0*"):
            commit.unlink()
        log(logs, "in", 300, 50)
        publish()
        wait_rows(out, "copy", 350)
        live = [row.value for row in exactly_once_sync(heard, 1, repeats)]
    expected = sorted(b"%d" % n for n in range(350))
    assert sorted(row["value"] for row in rows(out, "copy")) == expected
    assert sorted(live) == expected
    assert repeats.dropped == 300


def test_mistakes_end_in_one_clear_line(spark: SparkSession, gms: str) -> None:
    """When the query is planned, and when a task runs."""
    table = spark.range(3).selectExpr("cast(id as string) as value")

    def save(**options: str) -> None:
        table.write.format("quicksilver").mode("append").options(**options, **LO).save()

    with pytest.raises(Exception, match="say which group: option topic, or a column topic"):
        save(gms=gms)
    with pytest.raises(Exception, match="which has 0 members; rows would reach nobody"):
        save(gms=gms, topic="deserted", flushTimeoutSeconds="1")
