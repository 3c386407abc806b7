"""Options as people write them, and each mistake as one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.recorder.errors import OffsetsLostError
from quicksilver.spark.connector.offsets import Positions, limit_rows
from quicksilver.spark.connector.options import parse_sink_options, parse_source_options
from quicksilver.spark.errors import OptionError
from tests.recorder.logs import GROUP, filled

BASE = {"path": "/x", "subscribe": "a"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"subscribed": "a"}, "unknown option 'subscribed'; there is: path, subscribe"),
        ({"assign": '{"a":[0]}'}, "exactly one of subscribe, subscribePattern and assign"),
        ({"subscribe": ""}, "exactly one of"),
        ({"startingOffsets": "first"}, "write earliest, latest or"),
        ({"startingOffsets": '{"a": 3}'}, "write earliest, latest or"),
        ({"startingTimestamp": "yesterday"}, "milliseconds since 1970 or a date"),
        ({"maxOffsetsPerTrigger": "0"}, "a number from 1 on"),
        ({"failOnDataLoss": "no"}, "write true or false"),
        ({"path": ""}, "say where the recording is"),
    ],
)
def test_mistakes_of_reading(more: dict[str, str], words: str) -> None:
    """The option is named, and what to write."""
    with pytest.raises(OptionError, match=words):
        parse_source_options({**BASE, **more}, is_stream=False)


@pytest.mark.parametrize(
    ("given_options", "words"),
    [
        ({}, "option gms: say where"),
        ({"gms": "x"}, "is not a GMS address"),
        ({"gms": "h:1", "order": "random"}, "write content or arrival"),
        ({"gms": "h:1", "minMembers": "-1"}, "a number from 0 on"),
        ({"gms": "h:1", "recorders": "x"}, "is not a GMS address"),
        ({"gms": "h:1", "subscribe": "a"}, "unknown option 'subscribe'"),
    ],
)
def test_mistakes_of_writing(given_options: dict[str, str], words: str) -> None:
    """The same for the sink."""
    with pytest.raises(OptionError, match=words):
        parse_sink_options(given_options)


def test_names_of_options_may_be_written_in_any_case() -> None:
    """As everywhere in Spark."""
    found = parse_source_options(
        {"PATH": "/x", "Subscribe": "a, b", "FAILONDATALOSS": "False"}, is_stream=True
    )
    assert found.groups() == ["a", "b"]
    assert found.starting == "latest"
    assert not found.fails_on_loss


def test_ending_offsets_are_for_batch_queries() -> None:
    """A stream has no end."""
    with pytest.raises(OptionError, match="batch queries only"):
        parse_source_options({**BASE, "endingOffsets": "latest"}, is_stream=True)


groups = st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(0, 50), st.integers(0, 90)))


@given(groups=groups, rows_max=st.integers(1, 120))
def test_a_limit_is_shared_in_proportion(groups: dict[str, tuple[int, int]], rows_max: int) -> None:
    """Never more than the limit, never past an end, and progress whenever there is any to make."""
    start = {name: first for name, (first, _) in groups.items()}
    end = {name: first + more for name, (first, more) in groups.items()}
    found = limit_rows(start, end, rows_max)
    total = sum(end.values()) - sum(start.values())
    assert sum(found.values()) - sum(start.values()) == min(total, rows_max)
    assert all(start[name] <= found[name] <= end[name] for name in end)


def positions(path: Path, **options: str) -> Positions:
    base = {"path": str(path), "subscribe": GROUP}
    return Positions(parse_source_options({**base, **options}, is_stream=False))


def test_where_a_query_begins_and_ends(tmp_path: Path) -> None:
    """Earliest, latest, exact offsets with Kafka's -2 and -1, and times."""
    filled(tmp_path).close()
    assert positions(tmp_path).start() == {GROUP: 0}
    assert positions(tmp_path).end() == {GROUP: 60}
    for text, offset in (('{"prices":{"0":17}}', 17), ('{"prices":{"0":-2}}', 0)):
        assert positions(tmp_path, startingOffsets=text).start() == {GROUP: offset}
    assert positions(tmp_path, endingOffsets='{"prices":{"0":-1}}').end() == {GROUP: 60}
    assert positions(tmp_path, startingTimestamp="3").start() == {GROUP: 20}
    assert positions(tmp_path, startingTimestamp="1970-01-01T00:00:00.003").start() == {GROUP: 20}


def test_an_offset_that_is_not_there(tmp_path: Path) -> None:
    """Loud by default; the nearest that is there if asked so."""
    filled(tmp_path).close()
    with pytest.raises(OffsetsLostError, match="the log holds 0 to 59"):
        positions(tmp_path, startingOffsets='{"prices":{"0":99}}').start()
    mild = positions(tmp_path, startingOffsets='{"prices":{"0":99}}', failOnDataLoss="false")
    assert mild.start() == {GROUP: 60}
    with pytest.raises(OptionError, match="says nothing about group 'prices'"):
        positions(tmp_path, startingOffsets='{"other":{"0":1}}').start()


def test_a_recording_that_was_replaced_is_noticed(tmp_path: Path) -> None:
    """A checkpoint of another recording would skip everything, silently."""
    pyspark_source = pytest.importorskip("quicksilver.spark.connector.source")
    filled(tmp_path).close()
    base = {"path": str(tmp_path), "subscribe": GROUP}

    def reader(**more: str) -> object:
        options = parse_source_options({**base, **more}, is_stream=True)
        return pyspark_source.GroupStreamReader(options)

    limit = pyspark_source.ReadAllAvailable()
    with pytest.raises(OffsetsLostError, match="was the recording replaced"):
        reader().latestOffset({GROUP: 99}, limit)  # type: ignore[attr-defined]
    with pytest.raises(OffsetsLostError, match="the recording is gone"):
        reader().latestOffset({"other": 5}, limit)  # type: ignore[attr-defined]
    mild = reader(failOnDataLoss="false")
    assert mild.latestOffset({GROUP: 99}, limit) == {GROUP: 99}  # type: ignore[attr-defined]
