"""Rates from heartbeats, and who is slow."""

from __future__ import annotations

from quicksilver.cli.gms_snapshots import RateMeter, find_slow
from quicksilver.wire.gms import NodeStatus, Snapshot


def status(node: int, silence_s: float, **stats: float | str) -> NodeStatus:
    return NodeStatus(node, f"n{node}", "127.0.0.1", 1, True, 1, silence_s, stats)


def snapshot(*nodes: NodeStatus) -> Snapshot:
    return Snapshot(1, 1, 1, "auto", 1, {}, nodes, ())


def test_a_rate_is_measured_between_the_moments_the_heartbeats_were_made() -> None:
    """Looking late must not make a node seem slower."""
    meter = RateMeter()
    meter.note(status(1, 0.4, sent_messages=100), now=10.0)
    assert meter.rate(1, "sent_messages") == 0.0
    meter.note(status(1, 0.1, sent_messages=600), now=10.2)
    assert round(meter.rate(1, "sent_messages")) == 1000


def test_the_same_heartbeat_seen_twice_does_not_end_a_rate() -> None:
    """The screen refreshes more often than nodes report."""
    meter = RateMeter()
    meter.note(status(1, 0.0, sent_messages=0), now=1.0)
    meter.note(status(1, 0.0, sent_messages=50), now=2.0)
    meter.note(status(1, 0.3, sent_messages=50), now=2.3)
    assert round(meter.rate(1, "sent_messages")) == 50


def test_a_node_that_is_gone_is_forgotten() -> None:
    """Memory follows the cluster, not its history."""
    meter = RateMeter()
    meter.note(status(1, 0.0, sent_messages=0), now=1.0)
    meter.note(status(1, 0.0, sent_messages=9), now=2.0)
    meter.forget_except({2})
    assert meter.rate(1, "sent_messages") == 0.0


def test_a_slow_node_is_named_with_those_who_wait_for_it() -> None:
    """``waits_for`` is what a sender knows; the table turns it around."""
    nodes = (status(1, 0, waits_for=3), status(2, 0, waits_for=3), status(3, 0))
    assert find_slow(snapshot(*nodes)) == {3: [1, 2]}
