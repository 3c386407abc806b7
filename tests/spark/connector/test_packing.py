"""Rows as messages: what the columns make is what one row at a time would make."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.recorder.envelope import Origin, pack_envelope
from quicksilver.spark.connector.packing import Packer, in_order, normalise
from quicksilver.spark.errors import BadInputError

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


def to_batch(given_rows: list[tuple[object, ...]]) -> pa.RecordBatch:
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


@given(given_rows=rows)
def test_columns_make_the_same_envelopes_as_single_rows(
    given_rows: list[tuple[object, ...]],
) -> None:
    """One format, two ways to write it."""
    packer = Packer(QUERY, 9, 2)
    packer.row = 5
    found = packer.pack(normalise(to_batch(given_rows), None))
    assert found == [
        pack_envelope(Origin(QUERY, 2, 9, 5 + at), value, key, headers)  # type: ignore[arg-type]
        for at, (_, key, value, headers) in enumerate(given_rows)
    ]


@given(given_rows=rows, seed=st.integers(0, 99))
def test_a_partition_has_one_order_whatever_order_it_comes_in(
    given_rows: list[tuple[object, ...]], seed: int
) -> None:
    """A shuffle hands rows over in any order, another one when it is run again."""
    mixed = list(given_rows)
    random.Random(seed).shuffle(mixed)

    def messages(order: list[tuple[object, ...]], cut: int) -> list[tuple[str, bytes]]:
        parts = [part for part in (order[:cut], order[cut:]) if part]
        plain = (normalise(to_batch(part), None) for part in parts)
        packer = Packer(QUERY, 0, 0)
        return [
            pair
            for batch in in_order(plain, by_content=True)
            for pair in zip(batch.column("topic").to_pylist(), packer.pack(batch), strict=True)
        ]

    assert messages(given_rows, 3) == messages(mixed, 7)


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
