"""Envelopes: what travels before the payload of a message with a key or headers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.wire.envelope import (
    ENVELOPE_BYTES_MAX,
    HEADERS_MAX,
    RUN_MESSAGES_MAX,
    Envelope,
    Kind,
    distinct,
    encode_enveloped,
    encode_run,
    encode_run_head,
    open_envelopes,
    parse_enveloped,
    parse_run,
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


def as_run(head: bytes, number: int, sequence: int, bodies: list[bytes]) -> bytes:
    sizes = [len(body) for body in bodies]
    if sizes[0] and len(set(sizes)) == 1:
        sizes = []
    return encode_run(head, number, sequence, len(bodies), sizes, b"".join(bodies))


BODIES = st.lists(st.binary(max_size=9), min_size=1, max_size=20)


@given(ENVELOPES, st.integers(0, 1 << 40), st.integers(0, 1 << 40), BODIES | BODIES.map(sorted))
def test_a_run_of_carried_messages_shares_an_envelope(
    envelope: Envelope, number: int, sequence: int, bodies: list[bytes]
) -> None:
    """They are taken apart, each with a number of its own; messages of other kinds stay."""
    head = encode_run_head(Envelope(envelope.key, envelope.headers, Kind.CARRIED))
    run = as_run(head, number, sequence, bodies)
    other = encode_enveloped(envelope, b"other")
    messages = Messages(NodeId(1), 2, [run, other], enveloped_group(GroupId(3)), 7)
    opened, envelopes, bad = open_envelopes(messages, 3)
    assert bad == 0
    assert opened.payloads == [*bodies, b"other"]
    assert opened.sequences == [*range(sequence, sequence + len(bodies)), 8]
    assert opened.groups == [3] * len(opened)
    assert all(each is envelopes[0] for each in envelopes[:-1])
    assert (envelopes[0].kind, envelopes[0].number) == (Kind.CARRIED, number)
    assert (envelopes[0].key, envelopes[0].headers) == (envelope.key, envelope.headers)
    assert envelopes[-1] == envelope


def test_an_envelope_counts_once_for_a_run() -> None:
    one, other = Envelope(b"1"), Envelope(b"2")
    assert list(distinct([one, one, one])) == [one]
    assert list(distinct([one, one, other])) == [one, one, other]
    assert list(distinct([])) == []


def head_of(number: int, sequence: int, count: int, size: int) -> bytes:
    return HEAD + struct.pack("<QQHI", number, sequence, count, size)


HEAD = encode_run_head(Envelope(None, {"a": "b"}, Kind.CARRIED))
LIMIT = 1 << 62
UNEQUAL = 0xFFFF_FFFF


@pytest.mark.parametrize(
    "run",
    [
        HEAD,
        HEAD + bytes(21),
        HEAD[:-1] + b"\xc1" + bytes(22),
        head_of(0, 0, 0, 0),
        head_of(0, 0, 2, 0),
        head_of(0, 0, 2, 1) + b"abc",
        head_of(0, 0, 2, 1) + b"a",
        head_of(LIMIT - 1, 0, 2, 1) + b"ab",
        head_of(0, LIMIT - 1, 2, 1) + b"ab",
        head_of(0, 0, 2, UNEQUAL) + bytes(7),
        head_of(0, 0, 2, UNEQUAL) + struct.pack("<2I", 1, 2) + b"abcd",
        head_of(0, 0, 2, UNEQUAL) + struct.pack("<2I", 1, 0xFFFF_FFFF) + b"abcd",
        head_of(0, 0, RUN_MESSAGES_MAX + 1, 1) + bytes(RUN_MESSAGES_MAX + 1),
    ],
    ids=[
        "no numbers", "short numbers", "bad envelope", "no message", "empty ones without lengths",
        "too long", "too short", "high number", "high sequence", "short lengths",
        "lengths too short", "lengths too long", "too many",
    ],
)  # fmt: skip
def test_runs_that_no_gateway_makes_are_refused(run: bytes) -> None:
    assert parse_run(run) is None
    messages = Messages(NodeId(1), 2, [run], enveloped_group(GroupId(3)), 7)
    opened, envelopes, refused = open_envelopes(messages, 3)
    assert (opened.payloads, envelopes, refused) == ([], [], 1)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_run_or_refused(data: bytes) -> None:
    """What parses is what a gateway would have sent."""
    found = parse_run(HEAD + data)
    if found is not None:
        envelope, sequence, bodies = found
        again = parse_run(as_run(HEAD, envelope.number, sequence, bodies))
        assert again == found


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
