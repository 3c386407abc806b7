"""A member that lacks what its living sender no longer has."""

from __future__ import annotations

from functools import partial

import pytest

from quicksilver.membership.events import WasExcluded
from quicksilver.multicast.events import SessionEvent
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trials.checks import ALL
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.node import SimNode
from quicksilver.trials.watch import Watcher
from quicksilver.wire.control import Ack


class Exclusions(Watcher):
    """Why incarnations ended."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.reasons: list[tuple[int, str]] = []

    def on_event(self, node: SimNode, event: SessionEvent) -> None:
        if isinstance(event, WasExcluded):
            self.reasons.append((node.index, event.reason))


class Scene:
    """A sender, a member that has all, and one that has lost a packet that nobody keeps."""

    def __init__(self) -> None:
        self.cluster = Cluster(seed=4)
        self.cluster.watch(*ALL)
        (self.exclusions,) = self.cluster.watch(Exclusions)
        assert isinstance(self.exclusions, Exclusions)
        self.sender, self.member, self.laggard = self.cluster.start(3)
        self.sender.open("g")
        for node in (self.member, self.laggard):
            node.join("g")
        assert self.cluster.settle()
        self.sender.send("g", b"before")
        self.cluster.run(1.0)

    def lose(self) -> None:
        """The laggard misses packets, and the sender is told that everybody has them."""
        cluster, laggard = self.cluster, self.laggard
        for node in (self.sender, self.member):
            cluster.network.cut(node.index, laggard.index)
        self.sender.send("g", b"lost")
        cluster.run(0.05)
        (stream,) = self.sender.engine.outgoing.streams.live()
        end = stream.next_sequence
        ack = Ack(
            cluster=self.sender.engine.cluster,
            origin=self.member.id,
            region=stream.region,
            view=stream.view,
            low=end,
            safe=end,
            laggard=0,
            high=end,
            missing=(),
            missing_limit=end,
            slowest=0,
            buffer_bytes=1 << 20,
            drops=0,
            senders=1,
            token_s=0.0,
        )
        self.sender.engine.outgoing.handle_ack(ack, self.sender.host.clock())
        assert not stream.packets
        (region,) = self.member.engine.regions()
        cache = region.streams[self.sender.id].copies.packets
        region.copies.used -= sum(map(len, cache.values()))
        cache.clear()
        for node in (self.sender, self.member):
            cluster.network.mend(node.index, laggard.index)
        self.sender.send("g", b"after")


@pytest.mark.slow
def test_it_is_told_and_comes_back_as_a_new_node_in_the_same_view() -> None:
    """Without an answer it would ask until the view changes, and hold everybody up."""
    scene = Scene()
    scene.lose()
    scene.cluster.run(2.0)
    reason = f"node {scene.sender.id} no longer has packets that it lacks"
    assert scene.exclusions.reasons == [(scene.laggard.index, reason)]
    assert scene.cluster.is_settled()
    scene.sender.send("g", b"last")
    scene.cluster.run(1.0)
    group = scene.cluster.group_id("g")
    assert scene.member.delivered[group] == 4
    assert scene.laggard.delivered[group] == 2, "before and last: its gap is between two lives"
    assert scene.member.exclusions == scene.sender.exclusions == 0
    assert [str(v) for v in scene.cluster.violations() if v.check in ("gaps", "fifo")] == []


@pytest.mark.slow
def test_an_old_request_for_what_has_come_since_ends_nobody() -> None:
    """All have the packet, so it is gone at its sender; a late NAK for it is no gap."""
    scene = Scene()
    laggard = scene.laggard
    (region,) = laggard.engine.regions()
    stream = region.streams[scene.sender.id]
    assert not stream.missing
    requests = laggard.engine._feeds[region.id, region.number].recovery.repairer.requests
    for _ in range(5):
        everything = RangeSet([(0, stream.high)])
        laggard.host.submit(partial(requests.send_nak, scene.sender.id, everything))
        scene.cluster.run(0.5)
    assert laggard.engine.counters.gone_received >= 4
    assert scene.exclusions.reasons == []
