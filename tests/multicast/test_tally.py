"""Traffic by group is counted by the packet, bounded, and forgotten once it was told."""

from __future__ import annotations

import pytest

from quicksilver.multicast import tally as tally_module
from quicksilver.multicast.tally import GroupTally
from quicksilver.trace.records import OTHER_GROUPS, GroupSampled
from quicksilver.trace.sinks import MemoryTrace
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.samples import sample_cluster
from quicksilver.wire.ids import GroupId, NodeId
from quicksilver.wire.packets import Messages


def describe(group: int) -> tuple[str, tuple[int, ...]]:
    return f"g{group}", (7,)


def test_groups_are_told_once_with_what_changed() -> None:
    tally = GroupTally()
    tally.count_sent(3, 10, 1000)
    tally.count_sent(3, 5, 500)
    payloads = [b"x"] * 4
    tally.count_received(Messages(NodeId(2), 1, payloads, GroupId(4), 0), 64)
    first = tally.take(1.0, 1, describe)
    assert [(r.group, r.group_name, r.sent_messages, r.sent_bytes) for r in first] == [
        (3, "g3", 15, 1500),
        (4, "g4", 0, 0),
    ]
    assert (first[1].received_messages, first[1].received_bytes) == (4, 64)
    assert tally.take(2.0, 1, describe) == []
    tally.count_sent(3, 1, 100)
    (third,) = tally.take(4.0, 1, describe)
    assert (third.seconds, third.sent_messages) == (2.0, 1)


def test_messages_of_several_groups_share_the_bytes_of_their_packet() -> None:
    tally = GroupTally()
    tally.count_sent_mixed([1, 2, 2, 2], 400)
    mixed = Messages(NodeId(2), 1, [b"abc"] * 3, None, 0, (1, 1, 2), (0, 1, 0))
    tally.count_received(mixed, 90)
    found = {r.group: r for r in tally.take(1.0, 1, describe)}
    assert (found[1].sent_bytes, found[2].sent_bytes) == (100, 300)
    assert (found[1].received_bytes, found[2].received_bytes) == (60, 30)


def test_of_many_groups_the_busiest_are_told_and_the_rest_are_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tally_module, "GROUPS_MAX", 2)
    monkeypatch.setattr(tally_module, "TALLIED_MAX", 4)
    tally = GroupTally()
    for group in range(1, 8):
        tally.count_sent(group, group, 10 * group)
    found = tally.take(1.0, 1, describe)
    assert len(found) <= 3
    assert sum(r.sent_messages for r in found) == sum(range(1, 8))
    assert found[-1].group == OTHER_GROUPS
    assert found[-1].group_name == ""


@pytest.mark.slow
def test_a_traced_cluster_tells_what_went_through_its_groups() -> None:
    """What one node sent, the other received; the third is in the other group."""
    trace = MemoryTrace()
    cluster = Cluster(seed=7, tracer=trace)
    sample_cluster(cluster, trace)
    a, b, c = cluster.start(3)
    for node in (a, b):
        node.join("prices")
    c.join("news")
    cluster.settle()
    for size, group in ((100, "prices"), (30, "news"), (9000, "prices")):
        a.open(group)
        cluster.settle()
        a.send(group, *[b"x" * size] * 20)
    cluster.run(3.0)
    totals: dict[tuple[int, str], int] = {}
    for record in trace.records:
        if isinstance(record, GroupSampled):
            assert len(record.regions) == 1
            key = (record.node, record.group_name)
            totals[key] = totals.get(key, 0) + record.sent_messages + record.received_messages
    assert totals == {
        (a.id, "prices"): 40,
        (a.id, "news"): 20,
        (b.id, "prices"): 40,
        (c.id, "news"): 20,
    }
