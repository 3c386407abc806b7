"""``format("quicksilver")`` with real Spark: reading."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from quicksilver.recorder.folders import data_path, folder_of, index_path, segment_stems
from quicksilver.recorder.retention import load_commits
from quicksilver.recorder.writer import LogConfig, LogWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.spark


class Quote(msgspec.Struct):
    """What the typed form decodes."""

    symbol: str
    price: float
    tags: list[str] = []


def log(path: Path, group: str, first: int, count: int, *, at_ms: int = 0) -> None:
    """Append numbered messages to a group's log, in batches of ten."""
    writer = LogWriter(path, group, LogConfig(segment_bytes=4_000, does_sync=False))
    for start in range(first, first + count, 10):
        rows = range(start, min(start + 10, first + count))
        writer.pending.append(
            [b"%d" % n for n in rows],
            cluster=7,
            sender=3,
            sequences=rows,
            batch=2,
            at_us=(at_ms + start) * 1000,
            keys=[b"k%d" % (n % 2) for n in rows],
            headers=[[("n", b"%d" % n)] for n in rows],
        )
        writer.flush()
    writer.close()


def read(spark: SparkSession, path: Path, **options: str) -> DataFrame:
    return spark.read.format("quicksilver").options(path=str(path), **options).load()


def start(
    spark: SparkSession, path: Path, checkpoint: Path, name: str, **options: str
) -> StreamingQuery:
    """Run a streaming query to the end of the logs."""
    stream = spark.readStream.format("quicksilver").options(path=str(path), **options).load()
    query = (
        stream.selectExpr("topic", "offset", "cast(value as string) as value")
        .writeStream.format("parquet")
        .option("path", str(checkpoint / "out"))
        .option("checkpointLocation", str(checkpoint / "checkpoint"))
        .queryName(name)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(60)
    return query


def written(spark: SparkSession, checkpoint: Path) -> list[tuple[Any, ...]]:
    found = spark.read.parquet(str(checkpoint / "out")).collect()
    return sorted((row.topic, row.offset, row.value) for row in found)


def expected(group: str, past: int, first: int = 0) -> list[tuple[str, int, str]]:
    return [(group, number, str(number)) for number in range(first, past)]


def test_columns_are_those_of_kafka_and_more_on_request(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No registration; key, value, topic, partition, offset, timestamp."""
    log(tmp_path, "a", 0, 25, at_ms=1_700_000_000_000)
    plain = read(spark, tmp_path, subscribe="a")
    assert plain.columns == ["key", "value", "topic", "partition", "offset", "timestamp"]
    first = plain.orderBy("offset").first()
    assert first is not None
    assert (bytes(first.key), bytes(first.value), first.topic, first.partition, first.offset) == (
        b"k0",
        b"0",
        "a",
        0,
        0,
    )
    assert first.timestamp.year == 2023
    more = read(spark, tmp_path, subscribe="a", includeHeaders="true", includeSender="true")
    row = more.where("offset = 7").first()
    assert row is not None
    assert (row.sender, row.sequence, row.view) == (3, 7, 2)
    assert [(one.key, bytes(one.value)) for one in row.headers] == [("n", b"7")]


def test_ranges_of_batch_queries(spark: SparkSession, tmp_path: Path) -> None:
    """Starting and ending offsets and times, several groups, more partitions."""
    log(tmp_path, "a", 0, 95)
    log(tmp_path, "b", 0, 15)
    some = read(
        spark,
        tmp_path,
        subscribe="a,b",
        startingOffsets='{"a":{"0":40},"b":{"0":-2}}',
        endingOffsets='{"a":{"0":60},"b":{"0":-1}}',
        minPartitions="4",
    )
    counts = {row.topic: row["count"] for row in some.groupBy("topic").count().collect()}
    assert counts == {"a": 20, "b": 15}
    assert some.rdd.getNumPartitions() >= 3
    late = read(spark, tmp_path, subscribe="a", startingTimestamp="50", endingTimestamp="80")
    assert sorted(row.offset for row in late.select("offset").collect()) == list(range(50, 80))


def test_a_stream_goes_on_where_it_was_and_finds_new_groups(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Admission control, a pattern, a restart from the checkpoint, and lag in the reports."""
    logs, work = tmp_path / "logs", tmp_path / "work"
    log(logs, "fx.a", 0, 95)
    options = {
        "subscribePattern": "fx\\..*",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "40",
        "consumer": "test",
    }
    query = start(spark, logs, work, "first", **options)
    sizes = [progress["numInputRows"] for progress in query.recentProgress]
    assert [size for size in sizes if size] == [40, 40, 15]
    last = query.recentProgress[-1]["sources"][0]
    assert msgspec.json.decode(last["latestOffset"]) == {"fx.a": 95}
    assert written(spark, work) == expected("fx.a", 95)
    log(logs, "fx.a", 95, 10)
    log(logs, "fx.b", 0, 20)
    start(spark, logs, work, "second", **options)
    assert written(spark, work) == expected("fx.a", 105) + expected("fx.b", 20)
    committed = load_commits(folder_of(logs, "fx.a"))["test"]
    assert 95 <= committed <= 105


def test_the_same_offsets_are_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    """A batch whose commit is lost is run again, although newer rows have arrived."""
    logs, work = tmp_path / "logs", tmp_path / "work"
    log(logs, "a", 0, 50)
    start(spark, logs, work, "before", subscribe="a", startingOffsets="earliest")
    for commit in (work / "checkpoint" / "commits").glob("*0*"):
        commit.unlink()
    log(logs, "a", 50, 30)
    query = start(spark, logs, work, "again", subscribe="a", startingOffsets="earliest")
    replayed = query.recentProgress[0]["sources"][0]
    assert msgspec.json.decode(replayed["endOffset"]) == {"a": 50}
    assert written(spark, work) == expected("a", 80)


def test_lost_offsets_stop_a_query_or_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    """failOnDataLoss: loud by default, and what is readable is read if asked so."""
    log(tmp_path, "a", 0, 100)
    folder = folder_of(tmp_path, "a")
    middle = segment_stems(folder)[1]
    following = segment_stems(folder)[2]
    data_path(folder, middle).unlink()
    index_path(folder, middle).unlink()
    with pytest.raises(Exception, match=f"offsets {middle} to {following - 1} of group 'a'"):
        read(spark, tmp_path, subscribe="a").count()
    left = read(spark, tmp_path, subscribe="a", failOnDataLoss="false").count()
    assert left == 100 - (following - middle)


def test_mistakes_end_in_one_clear_line(spark: SparkSession, tmp_path: Path) -> None:
    """Spark wraps what we raise; the last line of it is ours."""
    log(tmp_path, "a", 0, 5)
    with pytest.raises(Exception, match="unknown option 'subscribed'; there is:"):
        read(spark, tmp_path, subscribed="a")
    with pytest.raises(Exception, match="holds no recorded group; there is: a; record one"):
        read(spark, tmp_path, subscribe="nothing").count()
    with pytest.raises(Exception, match=r"option schema: .* cannot be imported"):
        read(spark, tmp_path, subscribe="a", schema="no_such_module:Thing")


def test_structs_become_columns_and_nothing_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    """What does not decode is in the rescue column."""
    writer = LogWriter(tmp_path, "q", LogConfig(does_sync=False))
    good = msgspec.msgpack.encode(Quote("EURUSD", 1.08, ["x"]))
    writer.pending.append(
        [good, b"\xc1 broken"], cluster=7, sender=1, sequences=[0, 1], batch=1, at_us=1
    )
    writer.close()
    name = "tests.spark.connector.test_source:Quote"
    found = read(spark, tmp_path, subscribe="q", schema=name).orderBy("offset").collect()
    assert (found[0].symbol, found[0].price, found[0].tags, found[0]._rescued) == (
        "EURUSD",
        1.08,
        ["x"],
        None,
    )
    assert (found[1].symbol, bytes(found[1]._rescued)) == (None, b"\xc1 broken")
