"""A publisher whose link is down for longer than the GMS waits for it."""

from __future__ import annotations

import pytest

from quicksilver.multicast.events import FlushEnded, MessagesUnconfirmed, SessionEvent
from quicksilver.multicast.sending.unconfirmed import Reason, Unconfirmed
from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.gms import GMS_INDEX
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher
from quicksilver.trials.workload import send_numbered


class Told(Watcher):
    """What nodes were told of what they sent."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.by_flush: list[tuple[Unconfirmed, ...]] = []
        self.at_once: list[Unconfirmed] = []

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        if isinstance(event, FlushEnded):
            self.by_flush.append(event.unconfirmed)
        elif isinstance(event, MessagesUnconfirmed):
            self.at_once += event.messages


class Scene:
    """A publisher that is no member, and two subscribers."""

    def __init__(self) -> None:
        self.cluster = Cluster(seed=5)
        self.cluster.watch(*ALL)
        (self.told,) = self.cluster.watch(Told)
        assert isinstance(self.told, Told)
        self.publisher, *self.subscribers = self.cluster.start(3)
        self.publisher.open("g")
        for node in self.subscribers:
            node.join("g")
        assert self.cluster.settle()

    def publish(self, seconds: float) -> None:
        """A hundred messages a second."""
        for _ in range(round(seconds * 20)):
            send_numbered(self.publisher, "g", 5)
            self.cluster.run(0.05)

    def cut(self) -> None:
        for index in (GMS_INDEX, *(node.index for node in self.subscribers)):
            self.cluster.network.cut(self.publisher.index, index)
            self.cluster.network.cut(index, self.publisher.index)

    def flush(self) -> list[Unconfirmed]:
        """Return what a flush that begins now says in the end."""
        before = len(self.told.by_flush)
        self.publisher.flush(lambda: None)
        self.cluster.run(15.0)
        assert len(self.told.by_flush) == before + 1
        return list(self.told.by_flush[-1])

    def delivered(self) -> set[int]:
        group = self.cluster.group_id("g")
        return {node.delivered[group] for node in self.subscribers}


@pytest.mark.slow
@pytest.mark.parametrize("flushes_while_down", [False, True])
def test_what_was_sent_into_a_dead_link_is_reported_and_the_rest_arrives(
    flushes_while_down: bool,
) -> None:
    """Accepted messages are delivered or reported: none is forgotten, whenever one flushes."""
    scene = Scene()
    scene.publish(2.0)
    scene.cut()
    scene.publish(3.0)
    if flushes_while_down:
        scene.publisher.flush(lambda: None)
    scene.publish(3.0)
    scene.cluster.network.heal()
    scene.publish(4.0)
    reports = [each for found in scene.told.by_flush for each in found] + scene.flush()
    assert [each.reason for each in reports] == [Reason.EXCLUDED]
    (report,) = reports
    assert report.group == "g"
    assert set(report.members) == {node.id for node in scene.subscribers}
    assert scene.publisher.exclusions == 1
    # Some of what is reported arrived all the same: its acknowledgement did not.
    sent = scene.publisher.sent["g"]
    (delivered,) = scene.delivered()
    assert sent - report.count <= delivered < sent
    assert report.count <= 650, "six seconds, and the time until it was told"
    assert scene.told.at_once == reports
    assert scene.flush() == [], "it is told once"
    scene.cluster.watching.on_settled()
    assert [str(v) for v in scene.cluster.violations() if v.check == "vouched"] == []


@pytest.mark.slow
def test_a_flush_waits_for_what_is_queued_and_sent_by_the_next_incarnation() -> None:
    """What waits in a lane when a node is excluded was accepted, and is not lost."""
    scene = Scene()
    scene.publish(1.0)
    scene.cut()
    # More than the window takes: the rest is queued.
    size = 40_000
    for _ in range(100):
        send_numbered(scene.publisher, "g", 1, size)
    scene.cluster.run(6.0)
    assert scene.publisher.exclusions == 0
    scene.cluster.network.heal()
    reports = scene.flush()
    assert [each.reason for each in reports] == [Reason.EXCLUDED]
    (delivered,) = scene.delivered()
    sent = scene.publisher.sent["g"]
    lost = sum(each.count for each in reports)
    assert 0 < lost < 100, "a window's worth, not what was queued"
    assert sent - lost <= delivered


@pytest.mark.slow
def test_a_receiver_that_is_gone_is_no_failure_and_is_told() -> None:
    """To members that fail nothing is owed; whoever flushes hears what they lacked."""
    scene = Scene()
    scene.publish(1.0)
    scene.subscribers[0].crash()
    scene.publish(0.5)
    (report,) = scene.flush()
    assert report.reason is Reason.MEMBERS_GONE
    assert not report.reason.is_failure
    assert len(report.members) == 1
    assert scene.subscribers[1].delivered[scene.cluster.group_id("g")] == scene.publisher.sent["g"]
