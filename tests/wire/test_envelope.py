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


@given(st.binary(max_size=300))
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
