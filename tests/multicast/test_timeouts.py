"""When an engine wants to be woken."""

from __future__ import annotations

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
