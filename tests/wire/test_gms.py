"""Frames of the GMS: what goes in comes out; the rest is None."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quicksilver.stdx.rand import Rng
from quicksilver.wire import gms
from tests.kit.packets import frames, mutations, truncations

number = st.integers(0, (1 << 63) - 1)
text = st.text(max_size=20)
names = st.lists(text, max_size=5).map(tuple)
numbers = st.lists(number, max_size=5).map(tuple)
secrets = st.binary(min_size=gms.SECRET_BYTES, max_size=gms.SECRET_BYTES)
stats = st.dictionaries(text, st.one_of(st.integers(-5, 1 << 40), text), max_size=4)
requests = st.one_of(
    st.builds(
        gms.Hello,
        version=number,
        name=text,
        ip=text,
        port=number,
        receive_buffer_bytes=number,
        resume=st.none() | st.builds(gms.Resume, cluster=number, node=number, secret=secrets),
    ),
    st.builds(gms.Subscribe, request=number, join=names, leave=names, open=names, close=names),
    st.builds(gms.Heartbeat, stats=stats),
    st.just(gms.Goodbye()),
    st.builds(gms.Inspect, request=number),
)
regions = st.builds(
    gms.RegionChange,
    id=number,
    view=number,
    base=number,
    address=text,
    joined=numbers,
    left=numbers,
    senders=numbers,
    senders_gone=numbers,
)
groups = st.builds(
    gms.GroupChange,
    id=number,
    name=text,
    view=number,
    base=number,
    regions=st.lists(st.tuples(number, number), max_size=3).map(tuple),
    joined=numbers,
    left=numbers,
    hybrid=text,
    is_hybrid=st.booleans(),
)
replies = st.one_of(
    st.builds(
        gms.Welcome,
        version=number,
        cluster=number,
        node=number,
        resumed=st.booleans(),
        settings=st.just(gms.ClusterSettings()),
        secret=secrets,
    ),
    st.builds(gms.Refused, reason=text),
    st.just(gms.Heard()),
    st.builds(gms.Excluded, reason=text),
    st.builds(gms.Subscribed, request=number, groups=numbers),
    st.builds(
        gms.Update,
        batch=number,
        nodes=st.lists(
            st.builds(gms.NodeInfo, id=number, name=text, ip=text, port=number), max_size=3
        ).map(tuple),
        regions=st.lists(regions, max_size=3).map(tuple),
        groups=st.lists(groups, max_size=3).map(tuple),
        regions_gone=numbers,
        groups_gone=numbers,
        nodes_failed=numbers,
        alive=numbers,
    ),
)


@given(requests)
def test_requests_round_trip(request: gms.Request) -> None:
    """A GMS reads what a node says."""
    assert gms.parse_request(gms.encode(request)) == request


@given(replies)
def test_replies_round_trip(reply: gms.Reply) -> None:
    """A node reads what a GMS says."""
    assert gms.parse_reply(gms.encode(reply)) == reply


@pytest.mark.parametrize("name", frames())
def test_every_sample_is_read_by_one_side_only(name: str) -> None:
    """Requests and replies cannot be taken for each other."""
    frame = frames()[name]
    assert (gms.parse_request(frame) is None) != (gms.parse_reply(frame) is None)


@pytest.mark.parametrize("name", frames())
def test_truncated_and_mutated_frames_do_not_raise(name: str) -> None:
    """Both decoders are total."""
    frame = frames()[name]
    for short in truncations(frame):
        assert gms.parse_request(short) is None
        assert gms.parse_reply(short) is None
    for spoiled in mutations(frame, Rng(6), per_byte=1):
        gms.parse_request(spoiled)
        gms.parse_reply(spoiled)


@given(st.binary(max_size=200))
def test_random_frames_do_not_raise(frame: bytes) -> None:
    """Nor does anything else."""
    gms.parse_request(frame)
    gms.parse_reply(frame)


@pytest.mark.parametrize("tag", [2, 15])
def test_a_declared_length_earns_no_memory(tag: int) -> None:
    """Four billion names in ten bytes."""
    frame = bytes((0x99, tag, 1)) + b"\xdd\xff\xff\xff\xff"
    tracemalloc.start()
    assert gms.parse_request(frame) is None
    assert gms.parse_reply(frame) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 10
