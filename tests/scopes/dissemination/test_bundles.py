"""Messages in one piece of memory: whatever is done to it, the messages are the same."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.scopes.dissemination.bundles import (
    MESSAGES_MAX,
    TABLE_BYTES,
    Bundle,
    bundle,
    cut_messages,
)

encode = msgspec.msgpack.encode
decoder = msgspec.msgpack.Decoder(Bundle)

MESSAGES = st.lists(st.binary(max_size=4), min_size=1, max_size=12)


@given(MESSAGES | MESSAGES.map(lambda some: [some[0]] * len(some)), st.data())
def test_a_bundle_is_its_messages(messages: list[bytes], data: st.DataObject) -> None:
    whole = bundle(messages)
    assert whole.split() == messages
    assert whole.count == len(messages)
    assert decoder.decode(encode(whole)) == whole
    start = data.draw(st.integers(0, len(messages) - 1))
    stop = data.draw(st.integers(start + 1, len(messages) + 1))
    assert whole.part(start, stop) == bundle(messages[start:stop])
    room = data.draw(st.integers(0, 60))
    parts = list(whole.cut(room))
    assert [each for part in parts for each in part.split()] == messages
    assert all(part.count == 1 or len(part.body) <= room for part in parts)
    assert parts == list(cut_messages(messages, room))


@pytest.mark.parametrize("count", [0, 1, 5, MESSAGES_MAX, MESSAGES_MAX + 1, 5000])
@pytest.mark.parametrize("size", [0, 10, 1000, 30_000, 100_000])
@pytest.mark.parametrize("longer", [0, 7], ids=["equally long", "not equally long"])
def test_messages_are_cut_into_few_bundles_that_fit(count: int, size: int, longer: int) -> None:
    messages = [b"x" * size] * min(count, 20_000_000 // (size + 1))
    messages[1::3] = [b"y" * (size + longer)] * len(messages[1::3])
    bundles = list(cut_messages(messages, 56_000))
    assert [message for each in bundles for message in each.split()] == messages
    assert all(each.count <= MESSAGES_MAX for each in bundles)
    assert all(len(each.body) <= 56_000 or each.count == 1 for each in bundles)
    for one, two in pairwise(bundles):
        first = len(two.split()[0])
        total = len(one.body) + first + TABLE_BYTES * (one.count + 1)
        assert one.count == MESSAGES_MAX or total > 56_000


@pytest.mark.parametrize(
    "lie",
    [
        (0, (), b""),
        (0, (), b"x"),
        (-1, (), b"x"),
        (2, (), b"xyz"),
        (2, (), b""),
        (1000, (), b""),
        (2, (1,), b"x"),
        (1, (1, 1), b"xy"),
        (2, (1, 2), b"xy"),
        (2, (3, -1), b"xy"),
        (MESSAGES_MAX + 1, (), b"x" * (MESSAGES_MAX + 1)),
        (MESSAGES_MAX + 1, (0,) * (MESSAGES_MAX + 1), b""),
        (1, (), "x"),
    ],
)
def test_lengths_that_lie_are_not_understood(lie: object) -> None:
    """Also many empty messages in a few bytes: each takes a byte at least."""
    with pytest.raises(msgspec.ValidationError):
        decoder.decode(encode(lie))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_bundle_or_refused(data: bytes) -> None:
    try:
        found = decoder.decode(data)
    except (msgspec.MsgspecError, ValueError):
        return
    messages = found.split()
    assert len(messages) == found.count <= len(data)
    assert b"".join(messages) == found.body
