"""Rows as messages: what the columns make is what one row at a time would make."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.analysis.errors import BadInputError
from quicksilver.recorder.envelope import Origin, pack_envelope, parse_envelope
from quicksilver.spark.connector.packing import Packer, normalise

QUERY = b"0123456789abcdef"
HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

rows = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.none() | st.binary(max_size=5),
        st.binary(max_size=20),
        st.none() | st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)), max_size=2),
    ),
    min_size=1,
    max_size=20,
)


def parts(given_rows: list[tuple[Any, ...]], cut: int) -> Iterator[pa.RecordBatch]:
    """The rows in two batches, as a task gets them."""
    for part in (given_rows[:cut], given_rows[cut:]):
        if part:
            yield normalise(to_batch(part), None)


def to_batch(given_rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    topics, keys, values, headers = zip(*given_rows, strict=True)
    shaped = [
        None if one is None else [{"key": key, "value": value} for key, value in one]
        for one in headers
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(topics, pa.string()),
            pa.array(keys, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array(shaped, HEADERS),
        ],
        names=["topic", "key", "value", "headers"],
    )


@given(given_rows=rows, cut=st.integers(0, 20))
def test_envelopes_are_what_single_rows_make(given_rows: list[tuple[Any, ...]], cut: int) -> None:
    """One format, two ways to write it; rows are numbered for each group."""
    found: dict[str, list[bytes]] = {}
    for topic, messages in Packer(QUERY, 9, 2).messages(parts(given_rows, cut), by_content=False):
        found.setdefault(topic, []).extend(messages)
    expected: dict[str, list[bytes]] = {}
    for topic, key, value, headers in given_rows:
        messages = expected.setdefault(topic, [])
        origin = Origin(QUERY, 2, 9, len(messages))
        messages.append(pack_envelope(origin, value, key, headers))
    assert found == expected


@given(
    given_rows=rows, cuts=st.tuples(st.integers(0, 20), st.integers(0, 20)), seed=st.integers(0, 99)
)
def test_a_partition_has_one_order_whatever_order_it_comes_in(
    given_rows: list[tuple[Any, ...]], cuts: tuple[int, int], seed: int
) -> None:
    """A shuffle hands rows over in any order, another one when it is run again."""
    mixed = list(given_rows)
    random.Random(seed).shuffle(mixed)
    one, other = (
        list(Packer(QUERY, 0, 0).messages(parts(order, cut), by_content=True))
        for order, cut in zip((given_rows, mixed), cuts, strict=True)
    )
    assert one == other
    envelopes = [parse_envelope(message) for _, messages in one for message in messages]
    assert sorted(found.value for found in envelopes if found is not None) == sorted(
        row[2] for row in given_rows
    )


def test_rows_that_cannot_be_sent_are_named() -> None:
    """A null is a mistake of the query."""
    batch = pa.RecordBatch.from_pylist(
        [{"topic": "a", "value": b"1"}, {"topic": None, "value": b""}]
    )
    with pytest.raises(BadInputError, match="null in column topic"):
        normalise(batch, None)
    assert normalise(batch, "b").column("topic").to_pylist() == ["b", "b"]
    batch = pa.RecordBatch.from_pylist([{"value": "text"}, {"value": None}])
    with pytest.raises(BadInputError, match="null in column value"):
        normalise(batch, "b")
