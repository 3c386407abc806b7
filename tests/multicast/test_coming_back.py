"""A sender that leaves a group and comes back is who it was."""

from __future__ import annotations

from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.wire.control import Ack, Nak, encode_control
from tests.kit.cluster import Inbox, forge, inbox, inject


def _cluster() -> tuple[Cluster, list[SimNode]]:
    """Nodes 1 and 2 are a region of their own, which node 0 only sends to."""
    cluster = Cluster(seed=1)
    cluster.watch(Inbox)
    nodes = cluster.start(3)
    for node in nodes:
        node.join("g")
    nodes[1].join("other")
    nodes[2].join("other")
    assert cluster.settle()
    return cluster, nodes


def _given(node: SimNode) -> list[tuple[int, bytes]]:
    return [(message.sequence, message.payload) for message in inbox(node)]


def test_packet_numbers_go_on_in_the_same_region_view() -> None:
    """The region of the others has not changed: to them, packets that began from 0
    again would be old ones, and what they carry would be lost."""
    cluster, (a, _, _) = _cluster()
    a.send("g", b"before")
    cluster.run(1.0)
    a.leave("g")
    cluster.run(1.0)
    a.join("g")
    assert cluster.settle()
    a.send("g", b"after")
    cluster.run(1.0)
    for index in (1, 2):
        assert _given(cluster.nodes[index]) == [(0, b"before"), (1, b"after")]


def test_packets_not_acknowledged_stay_with_the_stream() -> None:
    """The same while the stream's last packets are still under way."""
    cluster, (a, b, _) = _cluster()
    b.host.weather.drop_rate = 1.0
    a.send("g", b"before")
    cluster.run(0.01)
    a.leave("g")
    cluster.run(0.1)
    a.join("g")
    assert cluster.settle()
    a.send("g", b"after")
    cluster.run(0.1)
    b.host.weather.clear()
    cluster.run(2.0)
    for index in (1, 2):
        assert _given(cluster.nodes[index]) == [(0, b"before"), (1, b"after")]


def test_message_numbers_go_on_past_what_was_queued() -> None:
    """What waited when the group was left has its numbers already; the first message
    after coming back must not have one of them, nor overtake it."""
    cluster, (a, b, c) = _cluster()
    for node in (b, c):
        node.host.weather.drop_rate = 1.0
    a.send("g", *[bytes([number]) * 1000 for number in range(200)])
    cluster.run(0.01)
    a.leave("g")
    cluster.run(0.2)
    a.join("g")
    assert cluster.settle()
    a.send("g", b"after")
    cluster.run(0.1)
    for node in (b, c):
        node.host.weather.clear()
    cluster.run(5.0)
    for index in (1, 2):
        assert [number for number, _ in _given(cluster.nodes[index])] == list(range(201))
        assert _given(cluster.nodes[index])[-1][1] == b"after"


def test_last_words_arrive_after_the_news_that_their_sender_has_left() -> None:
    """ "A node may send to a group and leave at once: its last messages are still
    delivered" (DESIGN.md), also if the first packet that gets through comes later."""
    cluster, (a, b, c) = _cluster()
    for node in (b, c):
        node.host.weather.drop_rate = 1.0
    a.send("g", b"last words")
    cluster.run(0.01)
    a.leave("g")
    cluster.run(0.2)
    for node in (b, c):
        node.host.weather.clear()
    cluster.run(5.0)
    for index in (1, 2):
        assert _given(cluster.nodes[index]) == [(0, b"last words")]
    assert not a.engine.outgoing.pending_bytes()


def test_what_is_meant_for_a_former_life_is_not_taken() -> None:
    """A node that starts again at the same address sends into the same region view.
    Acknowledgements of its former packets, still on their way, freed its new ones."""
    cluster, (a, b, c) = _cluster()
    for node in (b, c):
        node.host.weather.drop_rate = 1.0
    a.send("g", b"before")
    cluster.run(0.01)
    (stream,) = a.engine.outgoing.streams.sending.values()
    name = (a.engine.cluster, b.id, stream.region, stream.view)
    ack = Ack(*name, 9, 9, 0, 9, (), 9, b.id, 1 << 20, 0, 1, 0.0)
    for packet in (ack, Nak(*name, (0, 1))):
        inject(a, encode_control(packet, to=a.id + 100), b.address)
    cluster.run(0.01)
    assert stream.packets
    assert a.engine.counters.rejected == 2
    cluster.run(a.config.stand_in_s)
    inject(a, forge(a, b, ack), b.address)
    cluster.run(0.01)
    assert not stream.packets
