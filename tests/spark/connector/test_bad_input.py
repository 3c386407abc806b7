"""Recordings that are not as they should be: one line each, and what is readable is read.

Readers are driven as Spark drives them, without Spark; ``make soak-spark`` also
does so with it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from quicksilver.recorder.folders import data_path, folder_of, index_path, segment_stems
from quicksilver.spark.connector.datasource import GroupSource
from quicksilver.spark.connector.source import ReadAllAvailable
from quicksilver.spark.errors import OptionError, reason
from tests.recorder.logs import become_version
from tests.spark.connector.test_source import log
from tests.spark.soaking import only_in_soak

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 100
Read = Callable[[dict[str, str]], int]


def read_batch(options: dict[str, str]) -> int:
    """How many rows a batch query gives."""
    source = GroupSource(options)
    reader: Any = source.reader(_columns(source))
    parts = list(reader.partitions()) or [None]  # what Spark does where there are none
    return sum(batch.num_rows for part in parts for batch in reader.read(part))


def read_stream(options: dict[str, str]) -> int:
    """How many rows a streaming query gives that ends when it has caught up."""
    source = GroupSource({"startingOffsets": "earliest", **options})
    reader: Any = source.streamReader(_columns(source))
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    return sum(
        batch.num_rows for part in reader.partitions(start, end) for batch in reader.read(part)
    )


def _columns(source: GroupSource) -> StructType:
    found = source.schema()
    assert isinstance(found, StructType)
    return found


BOTH = pytest.mark.parametrize("read", [read_batch, read_stream])


def _segment(path: Path) -> tuple[Path, Path]:
    """The second of a log's files and its index."""
    folder = folder_of(path, "a")
    stem = segment_stems(folder)[1]
    return data_path(folder, stem), index_path(folder, stem)


def remove(path: Path) -> None:
    for file in _segment(path):
        file.unlink()


def remove_data(path: Path) -> None:
    _segment(path)[0].unlink()


def truncate(path: Path) -> None:
    data = _segment(path)[0]
    data.write_bytes(data.read_bytes()[:-1500])


def change(path: Path) -> None:
    data = _segment(path)[0]
    content = bytearray(data.read_bytes())
    content[-100] ^= 255
    data.write_bytes(content)


def renew(path: Path) -> None:
    """Make it a segment of the next version."""
    become_version(path, "a", int(_segment(path)[0].stem), "3")


def remove_last(path: Path) -> None:
    folder = folder_of(path, "a")
    stem = segment_stems(folder)[-1]
    for file in (data_path(folder, stem), index_path(folder, stem)):
        file.unlink()


def cut_last(path: Path) -> None:
    folder = folder_of(path, "a")
    data = data_path(folder, segment_stems(folder)[-1])
    data.write_bytes(data.read_bytes()[:-1])


def unmark(path: Path) -> None:
    (folder_of(path, "a") / "mark").unlink()


DAMAGE = pytest.mark.parametrize(
    ("damage", "words", "left"),
    [
        (remove, "offsets 20 to 39 of group 'a' are lost: they are not in the log", 80),
        (remove_data, "offsets 20 to 39 of group 'a' are lost: they are not in the log", 80),
        (truncate, "the file is cut off: offsets 30 to 39 are damaged", 90),
        (change, "bytes have changed: offsets 30 to 39 are damaged", 90),
        (renew, "has version 3; this quicksilver reads 2: update it", 80),
        (remove_last, "offsets 80 to 99 of group 'a' are lost: they are not in the log", 80),
        (cut_last, "the file is cut off: offsets 90 to 99 are damaged", 90),
    ],
)

MISTAKES = pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribed": "a"}, "unknown option 'subscribed'; there is: path, subscribe"),
        ({"subscribe": "b"}, "holds no recorded group; there is: a; record one with"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":999}}'}, "offsets 999 to 999"),
        ({"subscribe": "a", "startingOffsets": "x"}, "write earliest, latest or"),
        ({"subscribe": "a", "schema": "no_such:Thing"}, "no_such:Thing cannot be imported"),
        ({"subscribe": "a", "schema": "json:JSONDecoder"}, "is no msgspec.Struct"),
        ({"subscribe": "a", "schema": "msgspec"}, "write module:Struct"),
    ],
)


@BOTH
@DAMAGE
def test_damage_is_told_and_the_rest_is_read(
    tmp_path: Path, read: Read, damage: Callable[[Path], None], words: str, left: int
) -> None:
    """Either failOnDataLoss."""
    log(tmp_path, "a", 0, ROWS)
    damage(tmp_path)
    with pytest.raises(Exception, match=words) as caught:
        read({"path": str(tmp_path), "subscribe": "a"})
    assert len(str(caught.value).splitlines()) == 1
    assert read({"path": str(tmp_path), "subscribe": "a", "failOnDataLoss": "false"}) == left


@BOTH
@pytest.mark.parametrize("at", [0, 1, -1])
def test_an_index_is_not_missed(tmp_path: Path, read: Read, at: int) -> None:
    """The rows are in the segments; also those of the index that is written last."""
    log(tmp_path, "a", 0, ROWS)
    folder = folder_of(tmp_path, "a")
    index_path(folder, segment_stems(folder)[at]).unlink()
    assert read({"path": str(tmp_path), "subscribe": "a"}) == ROWS


@BOTH
def test_a_log_whose_end_is_unknown_is_told(tmp_path: Path, read: Read) -> None:
    """Whatever failOnDataLoss: nobody knows what would be read."""
    log(tmp_path, "a", 0, ROWS)
    unmark(tmp_path)
    for fails in ("true", "false"):
        with pytest.raises(Exception, match="mark is missing or damaged") as caught:
            read({"path": str(tmp_path), "subscribe": "a", "failOnDataLoss": fails})
        assert len(str(caught.value).splitlines()) == 1


@BOTH
@MISTAKES
def test_mistakes_are_told(tmp_path: Path, read: Read, options: dict[str, str], words: str) -> None:
    """By batch and streaming queries alike."""
    log(tmp_path, "a", 0, 10)
    with pytest.raises(Exception, match=words) as caught:
        read({"path": str(tmp_path), **options})
    assert len(str(caught.value).splitlines()) == 1


@BOTH
def test_a_folder_that_is_no_recording(tmp_path: Path, read: Read) -> None:
    with pytest.raises(Exception, match="no recorded group; record one with"):
        read({"path": str(tmp_path / "nowhere"), "subscribe": "a"})


@BOTH
def test_nothing_to_read_is_no_mistake(tmp_path: Path, read: Read) -> None:
    """A pattern that fits nothing yet, an empty range."""
    log(tmp_path, "a", 0, 10)
    assert read({"path": str(tmp_path), "subscribePattern": "z.*"}) == 0
    assert read({"path": str(tmp_path), "subscribe": "a", "startingOffsets": "latest"}) == 0


def test_columns_that_are_not_there_are_told(tmp_path: Path) -> None:
    """``.schema(...)`` cannot make others."""
    source = GroupSource({"path": str(tmp_path), "subscribe": "a"})
    asked = StructType([StructField("price", DoubleType())])
    for make in (source.reader, source.streamReader):
        with pytest.raises(OptionError, match=r"the columns are key:binary,.*: leave .schema\(\)"):
            make(asked)
    typed = {"schema": "tests.spark.connector.test_source:Quote"}
    with pytest.raises(OptionError, match="the columns are symbol, price, tags, topic"):
        GroupSource({"path": str(tmp_path), "subscribe": "a", **typed}).reader(asked)


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("value:string", {}, "say which group: option topic, or a column topic"),
        ("value:bigint", {"topic": "x"}, "column value is bigint: cast it to string or binary"),
        ("id:bigint", {"topic": "x"}, "column 'id' cannot be published; select value, key"),
        ("topic:string", {}, "there is no column value: select what is to be published"),
        ("value:string", {"topics": "x"}, "unknown option 'topics'"),
    ],
)
def test_tables_that_cannot_be_published(columns: str, options: dict[str, str], words: str) -> None:
    """By batch and streaming writes alike."""
    types = {"string": StringType(), "bigint": LongType()}
    name, _, kind = columns.partition(":")
    schema = StructType([StructField(name, types[kind])])
    source = GroupSource({"gms": "127.0.0.1:1", **options})
    for make in (source.writer, source.streamWriter):
        with pytest.raises(OptionError, match=words):
            make(schema, overwrite=False)


def test_the_reason_is_found_in_what_spark_makes_of_it() -> None:
    """A traceback before it, a plan or a state after it."""
    wrapped = RuntimeError(
        "[STREAM_FAILED] Query terminated\nTraceback (most recent call last):\n"
        "  File x\nquicksilver.recorder.errors.OffsetsLostError: offsets 1 to 2 are lost\n"
        "SQLSTATE: 38000\n+- plan"
    )
    assert reason(wrapped) == "offsets 1 to 2 are lost"
    assert reason(RuntimeError("quicksilver is not mentioned")) is None


@only_in_soak
@pytest.mark.spark
@pytest.mark.integration
@DAMAGE
def test_the_same_through_spark(
    spark: SparkSession,
    tmp_path: Path,
    damage: Callable[[Path], None],
    words: str,
    left: int,
) -> None:
    """Both kinds of queries end with the reason in Spark's error."""
    log(tmp_path / "logs", "a", 0, ROWS)
    damage(tmp_path / "logs")
    options = {"path": str(tmp_path / "logs"), "subscribe": "a"}
    with pytest.raises(Exception, match=r".") as caught:
        spark.read.format("quicksilver").options(**options).load().count()
    assert words in str(reason(caught.value))
    stream = (
        spark.readStream.format("quicksilver")
        .options(**options, startingOffsets="earliest")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "work"))
        .trigger(availableNow=True)
    )
    with pytest.raises(Exception, match=r".") as caught:
        stream.start().awaitTermination(60)
    assert words in str(reason(caught.value))
    mild = spark.read.format("quicksilver").options(**options, failOnDataLoss="false").load()
    assert mild.count() == left
