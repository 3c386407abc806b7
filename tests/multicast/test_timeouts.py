"""When an engine wants to be woken."""

from __future__ import annotations

from quicksilver.core.pull import RatePolicy
from quicksilver.trials.cluster import Cluster


def test_repairs_that_may_leave_are_no_matter_of_time() -> None:
    """A timer that stays due until the socket is polled keeps the host's alarms busy:
    on a real host for the whole quantum of 5 ms, on a simulated one for ever."""
    cluster = Cluster(seed=1)
    a, b = cluster.start(2)
    a.join("g")
    b.join("g")
    assert cluster.settle()
    b.host.weather.drop_rate = 1.0
    a.send("g", b"unheard")
    cluster.run(0.05)
    (stream,) = a.engine.outgoing.streams.sending.values()
    now = a.host.clock()
    assert stream.probe(now)
    a.engine._repair_sink.register(stream)
    due = a.engine.next_timeout()
    assert due is not None
    assert due > now


def test_repairs_held_up_by_their_rate_go_on_in_time() -> None:
    """The other side of it: what the rate limit took off the socket comes back."""
    cluster = Cluster(seed=1)
    a, b = cluster.start(2)
    a.join("g")
    b.join("g")
    assert cluster.settle()
    engine = a.engine
    b.host.weather.drop_rate = 1.0
    a.send("g", b"unheard")
    cluster.run(0.05)
    (stream,) = engine.outgoing.streams.sending.values()
    now = a.host.clock()
    engine._repair_rate.charge(10 * engine.config.repair_burst_bytes, now)
    assert stream.probe(now)
    engine._repair_sink.register(stream)
    assert engine.poll_transmit(now) is None
    due = engine.next_timeout()
    assert due is not None
    while due <= now + 1.0:
        engine.handle_timeout(due)
        if engine.poll_transmit(due) is not None:
            return
        due = engine.next_timeout()
    raise AssertionError("the probe never left")


def test_a_large_message_behind_another_is_no_matter_of_time() -> None:
    """It waits for the pieces of the other one, which wait for a member that is cut off. The
    stream they share is open and has a rate limit: were that a reason to try again, the core
    would do nothing else until the member is counted out."""
    cluster = Cluster(seed=1)
    a, b, c = cluster.start(3)
    b.join("near", "wide")
    c.join("wide")
    a.open("near", "wide")
    assert cluster.settle()
    a.send("near", b"first")
    a.send("wide", b"first")
    cluster.run(0.2)
    c.host.weather.drop_rate = 1.0
    a.send("wide", bytes(4 << 20))
    cluster.run(0.2)
    streams = a.engine.outgoing.streams.sending.values()
    (near,) = (stream for stream in streams if b.engine.node in stream.members)
    near.flow.rate = RatePolicy(1e9, burst_bytes=1 << 20)
    a.send("near", bytes(100_000))
    cluster.run(0.2)
    assert [lane for lane in a.engine.outgoing.lanes() if lane.outbox]
    now = a.host.clock()
    assert near.is_open(now)
    for _ in range(3):
        due = a.engine.next_timeout()
        assert due is not None
        now = max(now, due)
        a.engine.handle_timeout(now)
        while a.engine.poll_transmit(now) is not None:
            pass
    assert now > a.host.clock()
