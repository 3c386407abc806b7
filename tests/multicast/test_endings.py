"""Views and incarnations end without a last word too many."""

from __future__ import annotations

from quicksilver.multicast.repair.repairer import QUIET_ROUNDS
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.wire.gms import ClusterSettings
from quicksilver.wire.packets import KIND_DATA
from tests.kit.cluster import Inbox, inbox
from tests.kit.packets import record


def test_whoever_is_counted_out_delivers_nothing_after_a_gap() -> None:
    """The old view's stream has a hole, the new one's waits for it, and the exclusion
    ends both: what waited must not be delivered on that occasion."""
    cluster = Cluster(seed=1)
    cluster.watch(Inbox)
    a, b, c = cluster.start(3)
    for node in (a, b, c):
        node.join("g")
    assert cluster.settle()
    a.send("g", b"0")
    cluster.run(0.5)
    b.host.weather.drop_rate = 1.0
    a.send("g", b"1")
    cluster.run(0.01)
    c.leave("g")
    cluster.run(0.03)
    assert len(b.engine._regions) == 2
    # From here on b hears of new packets, but nobody repairs what it lacks.
    b.session.handle_datagram, whole = _without_repairs(b), b.session.handle_datagram
    b.host.weather.clear()
    a.send("g", b"2")
    cluster.run(0.02)
    held = [s for m in b.engine._regions.values() for s in m.streams.values() if s.is_held()]
    assert held, "the scene does not provoke what it is about"
    b.engine._become_nobody()
    b.session.handle_datagram = whole
    assert [message.sequence for message in inbox(b)] == [0]


def _without_repairs(node: SimNode):  # type: ignore[no-untyped-def]
    whole = node.session.handle_datagram

    def handle(data: bytes, source: tuple[str, int], now: float) -> None:
        if data[1] == KIND_DATA and int.from_bytes(data[16:20], "little") == 2:
            whole(data, source, now)

    return handle


def test_a_stream_that_was_cut_does_not_keep_its_view_alive() -> None:
    """Others may have more of a dead sender than this node will ever have; hearing so
    in every token is no activity, and the stream is quiet like any other."""
    cluster = Cluster(seed=1)
    a, b, c = cluster.start(3)
    for node in (a, b, c):
        node.join("g")
    assert cluster.settle()
    a.send("g", b"0")
    cluster.run(2.0)
    (feed,) = b.engine._feeds.values()
    repairer, region = feed.recovery.repairer, feed.recovery.region
    stream = region.streams[a.id]
    stream.sender_failed = True
    stream.note_high(stream.low + 2)
    stream.become_active(b.host.clock())
    stream.cut_at(stream.low)
    active_at = region.active_at
    for round_number in range(1, QUIET_ROUNDS + 1):
        more = stream.low + 2
        told = record(
            a.id,
            high=more,
            low=more,
            missing=(),
            missing_limit=more,
            wanted=(),
            previous=(),
            unasked=(),
            unkept=(),
            stable=more,
            region_unkept=(),
            cut=stream.end,
        )
        repairer.note_record(told, active_at + round_number)
    assert region.active_at == active_at
    assert a.id not in region.active


def test_an_old_view_with_gaps_is_kept_until_its_senders_give_up() -> None:
    """A member cut off from the sender, and not from the GMS, for longer than views
    are kept: its gap is filled, not jumped over."""
    # Peers that cannot reach it would have it counted out meanwhile.
    cluster = Cluster(seed=1, settings=ClusterSettings(failure_timeout_s=20.0))
    cluster.watch(Inbox)
    a, b, c, d = cluster.start(4)
    for node in (a, b, c):
        node.join("g")
    assert cluster.settle()
    for other in (a, b):
        cluster.network.cut(other.index, c.index)
    a.send("g", b"0")
    cluster.run(0.5)
    d.join("g")
    assert cluster.settle()
    a.send("g", b"1")
    cluster.run(7.5)
    cluster.network.heal()
    cluster.run(5.0)
    assert [message.payload for message in inbox(c)] == [b"0", b"1"]
    cluster.run(30.0)
    assert all(len(node.engine._regions) == 1 for node in cluster.nodes)


def test_a_view_that_was_replaced_falls_silent_when_all_is_acknowledged() -> None:
    """A sender forgets its stream into an old view when all is acknowledged. If it then
    says that it has nothing of it, the others never hear that all is stable, and their
    tokens go round until the view is forgotten."""
    cluster = Cluster(seed=1)
    a, b, c, d = cluster.start(4)
    for node in (a, b, c):
        node.join("g")
    assert cluster.settle()
    c.host.weather.drop_rate = 1.0
    a.send("g", b"0")
    d.join("g")
    assert cluster.settle()
    cluster.run(0.5)
    c.host.weather.clear()
    cluster.run(2.0)
    sent = cluster.network.sent_packets
    cluster.run(2.0)
    assert cluster.network.sent_packets == sent
