"""Bad bytes never raise through the service or a client, and cost nobody else."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.membership.client import MembershipClient
from quicksilver.membership.events import Member
from quicksilver.wire import gms
from tests.membership.cluster import Cluster

integers = st.integers(-3, 300) | st.integers(-(1 << 63), (1 << 64) - 1)
plain = st.recursive(
    st.none()
    | st.booleans()
    | integers
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
tagged = st.builds(lambda tag, rest: [tag, *rest], st.integers(0, 20), st.lists(plain, max_size=8))
requests = st.one_of(
    st.from_type(gms.Hello), st.from_type(gms.Subscribe), st.from_type(gms.Inspect)
)
frames = st.one_of(
    st.binary(max_size=60),
    plain.map(msgspec.msgpack.encode),
    tagged.map(msgspec.msgpack.encode),
    requests.filter(lambda r: all(-(1 << 63) <= n < 1 << 64 for n in _integers(r))).map(gms.encode),
)


def _integers(value: object) -> list[int]:
    if isinstance(value, int):
        return [value]
    if isinstance(value, msgspec.Struct):
        return [n for name in value.__struct_fields__ for n in _integers(getattr(value, name))]
    return []


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.booleans(), frames), max_size=8))
def test_no_frame_hurts_the_service(garbage: list[tuple[bool, bytes]]) -> None:
    """A stranger, or a node gone mad: the other node sees a failure at most."""
    cluster = Cluster()
    sane = cluster.add()
    sane.subscribe(join=["a"])
    mad = cluster.add()
    mad.subscribe(join=["a"])
    cluster.run(0.1)
    assert cluster.service is not None
    for from_node, frame in garbage:
        if from_node and mad.conn is not None:
            conn = mad.conn
        else:
            conn = cluster.next_conn
            cluster.next_conn += 1
            cluster.service.handle_connected(conn, frozenset({"10.0.0.1"}), cluster.now)
        cluster.service.handle_frame(conn, frame, cluster.now)
        cluster.run(0.05)
    cluster.run(1.0)
    assert sane.client.state == Member()
    assert sane.client.misfits == 0
    [group] = [g for g in sane.client.directory.groups.values() if g.name == "a"]
    assert sane.client.node in group.members


@settings(max_examples=150, deadline=None)
@given(st.lists(frames, max_size=6), st.booleans())
def test_no_frame_hurts_a_client(garbage: list[bytes], is_member: bool) -> None:
    """It asks for everything anew, or is refused; it never raises."""
    client = MembershipClient(name="n", ip="10.0.0.1", port=1, receive_buffer_bytes=1)
    client.subscribe(join=["a"])
    client.handle_opened(0.0)
    if is_member:
        welcome = gms.Welcome(gms.PROTOCOL_VERSION, 7, 3, False, gms.ClusterSettings(), b"s" * 16)
        client.handle_frame(gms.encode(welcome), 0.0)
    for at, frame in enumerate(garbage):
        client.handle_frame(frame, float(at))
        client.handle_timeout(float(at))
        while client.poll_transmit(float(at)) is not None:
            pass
        wake = client.next_timeout()
        assert wake is None or wake > at
