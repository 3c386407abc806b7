"""Control packets: typed, bounded, and harmless when they are not what they seem."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.stdx.rand import Rng
from quicksilver.wire.control import (
    Ack,
    Challenge,
    Control,
    Extent,
    Gone,
    Nak,
    Pull,
    Record,
    Token,
    Wake,
    encode_control,
    parse_control,
    parse_stamp,
    receiver_of,
    stamp_control,
)
from quicksilver.wire.packets import KIND_CONTROL, KIND_TOKEN, MAGIC, SEQUENCE_MAX
from tests.kit.packets import controls, mutations, noise, record, token, truncations

u32 = st.integers(0, (1 << 32) - 1)
sequence = st.integers(0, SEQUENCE_MAX)
flat = st.lists(sequence, max_size=20).map(tuple)
records = st.builds(
    Record,
    sender=u32,
    high=sequence,
    low=sequence,
    slowest=u32,
    safe=sequence,
    laggard=u32,
    missing=flat,
    missing_limit=sequence,
    wanted=flat,
    previous=flat,
    previous_limit=sequence,
    unasked=flat,
    unkept=flat,
    unkept_limit=sequence,
    stable=sequence,
    agreed=sequence,
    region_unkept=flat,
    region_unkept_limit=sequence,
    cut=st.integers(-1, SEQUENCE_MAX),
)
names = {"cluster": u32, "origin": u32, "region": u32, "view": u32}
packets = st.one_of(
    st.builds(
        Token,
        **names,
        level=st.integers(0, 32),
        ring=u32,
        round=sequence,
        leader=u32,
        skipped=st.lists(u32, max_size=64).map(tuple),
        direct=st.booleans(),
        buffer_bytes=sequence,
        drops=sequence,
        records=st.lists(records, max_size=4).map(tuple),
    ),
    st.builds(
        Ack,
        **names,
        low=sequence,
        safe=sequence,
        laggard=u32,
        high=sequence,
        missing=flat,
        missing_limit=sequence,
        slowest=u32,
        buffer_bytes=sequence,
        drops=sequence,
        senders=u32,
        token_s=st.floats(0, 1e6),
    ),
    st.builds(Nak, **names, ranges=flat),
    st.builds(Pull, **names, sender=u32, ranges=flat),
    st.builds(Wake, **names, level=st.integers(0, 32), ring=u32),
    st.builds(Extent, **names, packets=sequence),
    st.builds(Gone, **names, ranges=flat),
    st.builds(Challenge, cluster=u32, origin=u32),
)


@given(packets)
def test_control_packets_round_trip(packet: Control) -> None:
    """Every kind comes back as it was; only tokens have the kind that is handled first."""
    data = encode_control(packet)
    assert data[0] == MAGIC
    assert data[1] == (KIND_TOKEN if isinstance(packet, Token) else KIND_CONTROL)
    assert parse_control(data) == packet


@given(packets, u32, st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 64) - 1))
def test_stamps_change_nothing_else(packet: Control, to: int, nonce: int, proof: int) -> None:
    """They are put on when a packet leaves, whoever made it."""
    data = stamp_control(encode_control(packet, to), nonce, proof)
    assert parse_control(data) == packet
    assert parse_stamp(data) == (nonce, proof)
    assert receiver_of(data) == to
    assert len(data) == len(encode_control(packet))


@pytest.mark.parametrize("packet", controls(), ids=lambda packet: type(packet).__name__)
def test_truncated_control_packets_are_refused(packet: Token) -> None:
    """A part of a packet is no packet."""
    for short in truncations(encode_control(packet)):
        assert parse_control(short) is None


@pytest.mark.parametrize("packet", controls(), ids=lambda packet: type(packet).__name__)
def test_mutated_control_packets_do_not_raise(packet: Token) -> None:
    """One wrong byte gives a packet within the types' bounds, or none."""
    for spoiled in mutations(encode_control(packet), Rng(4)):
        found = parse_control(spoiled)
        assert found is None or parse_control(encode_control(found)) == found


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_or_bounded(data: bytes) -> None:
    """The decoder is total."""
    found = parse_control(b"\x51\x01\0\0" + data)
    assert found is None or parse_control(encode_control(found)) == found


def test_noise_is_refused() -> None:
    """Random bytes practically never form a control packet."""
    assert all(parse_control(data) is None for data in noise(Rng(5), 500))


@pytest.mark.parametrize(
    "changes",
    [
        {"cluster": 1 << 32},
        {"origin": -1},
        {"level": 33},
        {"round": SEQUENCE_MAX + 1},
        {"skipped": tuple(range(65))},
        {"drops": -1},
        {"records": (record(high=SEQUENCE_MAX + 1),)},
        {"records": (record(missing=(0, 1) * 257),)},
        {"records": (record(unkept=(0, 1) * 257),)},
        {"records": tuple(record(sender) for sender in range(1025))},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_tokens_beyond_the_bounds_are_refused(changes: dict[str, object]) -> None:
    """What a decoder accepts is bounded in number and size, field by field."""
    assert parse_control(encode_control(token(**changes))) is None


@pytest.mark.parametrize("length", [1 << 10, 1 << 20, (1 << 32) - 1])
def test_a_declared_length_earns_no_memory(length: int) -> None:
    """An array of four billion sequence numbers in twenty bytes."""
    body = msgspec.msgpack.encode((3, 1, 1, 1, 1))[1:]
    data = b"\x51\x02\0\0" + bytes((0x96,)) + body + b"\xdd" + length.to_bytes(4, "big")
    tracemalloc.start()
    assert parse_control(data) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 10


def test_nesting_does_not_exhaust_the_stack() -> None:
    """Ten thousand nested arrays are not followed."""
    assert parse_control(b"\x51\x01\0\0" + b"\x91" * 10_000) is None
