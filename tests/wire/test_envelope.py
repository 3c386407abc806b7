"""Envelopes: what travels before the payload of a message with a key or headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.wire.envelope import (
    ENVELOPE_BYTES_MAX,
    HEADERS_MAX,
    Envelope,
    Kind,
    encode_carried,
    encode_enveloped,
    open_envelopes,
    parse_enveloped,
)
from quicksilver.wire.ids import GROUPS_MAX, GroupId, NodeId, enveloped_group, plain_group
from quicksilver.wire.packets import Messages

ENVELOPES = st.builds(
    Envelope,
    key=st.none() | st.binary(max_size=64),
    headers=st.dictionaries(st.text(max_size=16), st.text(max_size=32) | st.binary(max_size=32)),
    kind=st.sampled_from(Kind),
    number=st.integers(0, (1 << 62) - 1),
    reply=st.text(max_size=64),
)


@given(ENVELOPES, st.binary(max_size=200))
def test_what_is_encoded_is_parsed(envelope: Envelope, body: bytes) -> None:
    assert parse_enveloped(encode_enveloped(envelope, body)) == (envelope, body)


@given(ENVELOPES, st.lists(st.tuples(st.integers(0, (1 << 62) - 1), st.binary(max_size=9))))
def test_a_run_of_carried_messages_shares_an_envelope(
    envelope: Envelope, run: list[tuple[int, bytes]]
) -> None:
    """Only their numbers differ; among them may be messages of other kinds."""
    head = encode_carried(Envelope(envelope.key, envelope.headers, Kind.CARRIED))
    other = encode_enveloped(envelope, b"other")
    payloads = [head + number.to_bytes(8, "little") + body for number, body in run]
    payloads = [each for payload in payloads for each in (payload, other)][:-1]
    messages = Messages(NodeId(1), 2, payloads, enveloped_group(GroupId(3)), 7)
    opened, envelopes, bad = open_envelopes(messages, 3)
    assert bad == 0
    assert opened.payloads[::2] == [body for _, body in run]
    assert [each.number for each in envelopes[::2]] == [number for number, _ in run]
    assert all(each.headers == envelope.headers for each in envelopes)
    assert all(each == envelope for each in envelopes[1::2])


def test_numbers_of_carried_messages_that_no_sender_gives_are_refused() -> None:
    head = encode_carried(Envelope(None, {"a": "b"}, Kind.CARRIED))
    bad = [head, head + bytes(7), head + b"\xff" * 8, head[:-1] + b"\xc1" + bytes(9)]
    messages = Messages(NodeId(1), 2, [head + bytes(9), *bad], enveloped_group(GroupId(3)), 7)
    opened, _, refused = open_envelopes(messages, 3)
    assert opened.payloads == [b"\0"]
    assert refused == len(bad)


@given(st.binary(max_size=300) | st.binary(max_size=99).map(lambda data: b"\xff\xff" + data))
def test_any_bytes_are_an_envelope_or_refused(data: bytes) -> None:
    """Bytes of the network never raise, and what parses can be encoded again."""
    found = parse_enveloped(data)
    if found is not None:
        assert parse_enveloped(encode_enveloped(*found)) == found


@given(ENVELOPES, st.binary(max_size=20), st.data())
def test_a_payload_that_is_cut_short_loses_its_body_or_is_refused(
    envelope: Envelope, body: bytes, data: st.DataObject
) -> None:
    whole = encode_enveloped(envelope, body)
    cut = data.draw(st.integers(0, len(whole) - 1))
    found = parse_enveloped(whole[:cut])
    assert found is None or (found[0] == envelope and len(found[1]) < len(body))


@pytest.mark.parametrize(
    "envelope",
    [
        Envelope(key=bytes(ENVELOPE_BYTES_MAX)),
        Envelope(headers={str(n): "" for n in range(HEADERS_MAX + 1)}),
        Envelope(number=-1),
        Envelope(reply="r" * 256),
    ],
    ids=["long key", "many headers", "negative number", "long reply"],
)
def test_an_envelope_has_limits(envelope: Envelope) -> None:
    with pytest.raises(ValueError, match=r"limit|no sender"):
        encode_enveloped(envelope, b"")


def test_messages_whose_envelopes_lie_are_left_out_and_counted() -> None:
    good = [encode_enveloped(Envelope(key=bytes([n])), b"%d" % n) for n in range(3)]
    sent = Messages(NodeId(1), 4, [good[0], b"\xff\xff", good[2]], GroupId(GROUPS_MAX | 7), 10)
    opened, envelopes, bad = open_envelopes(sent, 7)
    assert bad == 1
    assert (opened.payloads, opened.sequences, opened.groups) == ([b"0", b"2"], [10, 12], [7, 7])
    assert [each.key for each in envelopes] == [b"\0", b"\2"]


@given(st.integers(1, GROUPS_MAX - 1))
def test_both_numbers_of_a_group_mean_the_group(group: int) -> None:
    assert plain_group(group) == plain_group(enveloped_group(group)) == group
    assert enveloped_group(group) != group
