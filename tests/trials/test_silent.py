"""A member that is silent, gone or slow costs the others at most 0.3 s, and nobody a message.

Senders run as fast as cards and windows allow, on machines that cost time.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.sending.behind import Behind
from quicksilver.sim.model import HostModel
from quicksilver.trials.checks import ALL
from quicksilver.trials.checks.stalls import Stalls
from quicksilver.trials.cluster import Cluster
from quicksilver.trials.faults import Crash, Fault, Freeze, Mute
from quicksilver.trials.node import SimNode
from quicksilver.trials.payloads import make_payload
from quicksilver.wire.gms import ClusterSettings

MESSAGE_BYTES = 20_000


class Scene:
    """A cluster in which one node sends to a group of everybody at full rate."""

    def __init__(
        self,
        nodes: int,
        *,
        sender: int = 1,
        card_bytes_per_s: float = 30e6,
        failure_timeout_s: float = 3.0,
        buffer_bytes: int = 1 << 20,
        **config: int | Behind,
    ) -> None:
        self.cluster = Cluster(
            seed=5,
            model=HostModel(
                nic_bytes_per_s=card_bytes_per_s,
                unicast_buffer_bytes=buffer_bytes,
                multicast_buffer_bytes=buffer_bytes,
            ),
            config=EngineConfig(receive_buffer_bytes=buffer_bytes, **config),  # type: ignore[arg-type]
            settings=ClusterSettings(failure_timeout_s=failure_timeout_s),
        )
        self.cluster.watch(*ALL)
        (stalls,) = self.cluster.watch(Stalls)
        assert isinstance(stalls, Stalls)
        self.stalls = stalls
        self.nodes = self.cluster.start(nodes)
        for node in self.nodes:
            node.join("g")
        assert self.cluster.settle()
        self.sender = self.nodes[sender]
        self.is_sending = True
        self.stalls.eager.add(sender)
        self.sender.send_from("g", self._next_message(self.sender))
        self.run(1.0)

    def _next_message(self, node: SimNode) -> Callable[[], bytes | None]:
        def source() -> bytes | None:
            if not self.is_sending:
                return None
            return make_payload("g", node.index, node.life, node.sent["g"], MESSAGE_BYTES)

        return source

    def run(self, seconds: float) -> None:
        end = self.cluster.now + seconds
        while self.cluster.now < end - 1e-9:
            self.cluster.run(min(0.1, end - self.cluster.now))
            self.cluster.watching.on_look()

    def harm(self, fault: Fault) -> None:
        self.stalls.sick.add(fault.node)  # type: ignore[attr-defined]
        fault.begin(self.cluster)

    def sent_bytes(self) -> int:
        return self.sender.sent["g"] * MESSAGE_BYTES

    def judge(self) -> None:
        """Stop sending, let all come to rest, and have every check judge."""
        self.is_sending = False
        self.stalls.eager.clear()
        self.run(20.0)
        self.cluster.watching.on_settled()
        assert [str(v) for v in self.cluster.violations()] == []

    def finish(self) -> None:
        """The same, after a fault that others must have felt a little."""
        self.judge()
        assert self.stalls.longest_s > 0.02, "the fault was not felt: nothing was tried"


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 4], ids=["leader", "member"])
@pytest.mark.parametrize("kind", [Crash, Freeze, Mute])
def test_a_silent_member_of_five_does_not_stop_the_others(kind: type[Fault], victim: int) -> None:
    """Crashed, frozen for 10 s or without UDP: the others go on, the member is counted out."""
    scene = Scene(5)
    scene.harm(kind(at=0.0, for_s=10.0, node=victim))  # type: ignore[call-arg]
    before = scene.sent_bytes()
    scene.run(3.0)
    assert scene.sent_bytes() - before > 0.8 * 3.0 * 27e6, "a short stop, then the full rate"
    scene.run(1.5)
    service = scene.cluster.gms.service
    left = len(service._watches.nodes)
    assert left == 5 - (kind is not Mute), "a mute one comes back, and is mute"
    if kind is Mute:
        assert service.counters.unreached == 1, "its heartbeats arrived all the time"
        assert scene.nodes[victim].exclusions == 1
        Mute(at=0.0, node=victim).end(scene.cluster)
    scene.run(6.0)
    scene.finish()


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 5, 24], ids=["top leader", "leader", "member"])
def test_a_silent_member_of_twenty_five_does_not_stop_the_others(victim: int) -> None:
    """Levels of rings do not add up: each notices its own silent members."""
    scene = Scene(25)
    scene.harm(Freeze(at=0.0, for_s=1.0, node=victim))
    scene.run(1.0)
    before = scene.sent_bytes()
    scene.run(2.0)
    # What it lacks takes a share of the links, and its tokens wait behind that.
    assert scene.sent_bytes() - before > 0.2 * 2.0 * 27e6
    scene.finish()


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 4], ids=["leader", "member"])
@pytest.mark.parametrize("kind", [Freeze, Mute])
def test_who_comes_back_within_the_budget_catches_up(kind: type[Fault], victim: int) -> None:
    """Not waited for, and yet it gets every message: copies were kept, 64 MB of them."""
    scene = Scene(5)
    fault = kind(at=0.0, for_s=0.8, node=victim)  # type: ignore[call-arg]
    scene.harm(fault)
    scene.run(0.8)
    assert scene.sender.engine.environment.kept.used > 10 << 20
    fault.end(scene.cluster)
    scene.run(5.0)
    late = scene.nodes[victim]
    assert late.exclusions == 0
    assert late.delivered.total() > 0.9 * scene.sender.sent["g"], "while the sender goes on"
    assert scene.sender.engine.environment.kept.used == 0
    scene.finish()


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 4], ids=["leader", "member"])
def test_who_comes_back_past_the_budget_is_told(victim: int) -> None:
    """What it lacks is gone: it begins again, and skips nothing without a word."""
    scene = Scene(5, keep_bytes_max=8 << 20, failure_timeout_s=20.0)
    scene.harm(Freeze(at=0.0, for_s=2.0, node=victim))
    scene.run(2.0)
    assert scene.sender.engine.environment.kept.used <= 8 << 20
    assert scene.sender.engine.counters.absent_dropped > 0
    scene.run(6.0)
    assert scene.nodes[victim].exclusions == 1
    assert scene.nodes[victim].engine.counters.gone_received > 0
    scene.finish()


@pytest.mark.slow
def test_a_disk_outlasts_a_longer_absence() -> None:
    """Two seconds at full rate are 56 MB: 8 of them in memory, the rest on disk."""
    config = {"keep_bytes_max": 8 << 20, "keep_disk_bytes_max": 128 << 20}
    scene = Scene(5, failure_timeout_s=20.0, **config)
    late = scene.nodes[4]
    scene.harm(Freeze(at=0.0, for_s=2.0, node=4))
    scene.run(2.0)
    assert scene.sender.disk.used > 30 << 20
    assert scene.sender.engine.environment.kept.used <= 8 << 20
    # All of it comes from the sender, whose card is full as long as it goes on.
    scene.is_sending = False
    scene.stalls.eager.clear()
    scene.run(8.0)
    assert late.exclusions == 0
    assert late.delivered.total() == scene.sender.sent["g"]
    assert scene.sender.disk.used == 0
    assert scene.sender.engine.counters.absent_dropped == 0
    scene.finish()


@pytest.mark.slow
def test_who_lacks_what_a_dead_sender_sent_and_others_delivered_begins_again() -> None:
    """Nobody keeps it any more. To end the stream there would be to skip what others have."""
    scene = Scene(5, keep_bytes_max=4 << 20, failure_timeout_s=20.0)
    late = scene.nodes[4]
    scene.harm(Freeze(at=0.0, for_s=3.0, node=4))
    scene.run(1.0)
    scene.stalls.sick.add(scene.sender.index)
    scene.is_sending = False
    scene.sender.crash()
    scene.run(10.0)
    assert late.exclusions == 1
    scene.finish()


@pytest.mark.slow
def test_nobody_is_left_behind_when_there_is_nobody_else() -> None:
    """The only receiver is silent: to go on would help nobody, so the sender waits."""
    scene = Scene(2, sender=0)
    scene.harm(Freeze(at=0.0, for_s=1.0, node=1))
    scene.run(0.3)
    before = scene.sent_bytes()
    scene.run(0.6)
    assert scene.sent_bytes() == before
    scene.run(3.0)
    assert scene.nodes[1].exclusions == 0
    scene.judge()


@pytest.mark.slow
def test_who_catches_up_with_an_old_view_has_the_time_that_it_takes() -> None:
    """Nothing is given up, nor the view forgotten, while the late member gets on."""
    slow = {"repair_peer_burst_bytes": 100_000, "repair_peer_bytes_per_s": 420_000}
    scene = Scene(5, **slow)
    late = scene.nodes[4]
    scene.harm(Freeze(at=0.0, for_s=1.2, node=4))
    scene.run(1.2)
    scene.is_sending = False
    scene.stalls.eager.clear()
    scene.stalls.sick.add(3)
    scene.nodes[3].leave("g")
    scene.run(19.0)
    assert late.delivered.total() < scene.sender.sent["g"], (
        "it takes longer than anybody's patience"
    )
    scene.run(15.0)
    assert late.exclusions == 0
    assert late.delivered.total() == scene.sender.sent["g"]
    assert scene.sender.engine.counters.abandoned == 0
    scene.judge()
