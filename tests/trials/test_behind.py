"""Members that do not keep up, and what a group's choice makes of them."""

from __future__ import annotations

import pytest

from quicksilver.multicast.sending.behind import Behind, Drop, Keep, Wait
from quicksilver.trials.faults import Freeze
from quicksilver.trials.workload import make_payload
from tests.trials.test_silent import Scene

RATE = 27e6
"""What cards of 30 MB/s carry of messages."""


class Stopped(Scene):
    """An application that does not read for two seconds; its node is well."""

    def __init__(self, behind: Behind, *, all_wait: bool = False) -> None:
        super().__init__(5, behind=behind)
        self.member = self.nodes[4]
        self.stalls.sick.update(range(5))
        before = self.sent_bytes()
        self.member.session.pause("g")
        self.run(0.4)
        if not all_wait:
            # It takes a moment to find out that it is always the same one.
            self.stalls.sick = {4}
        self.run(1.6)
        self.sent_meanwhile = self.sent_bytes() - before
        self.stalls.sick.update(range(5))
        self.member.session.resume("g")
        self.run(4.0)


@pytest.mark.slow
def test_without_a_choice_senders_wait_for_an_application_that_does_not_read() -> None:
    """Back-pressure: nothing is lost and nobody has to begin again."""
    scene = Stopped(Keep(), all_wait=True)
    assert scene.sent_meanwhile < 2e6, "a window, and no more"
    assert scene.member.exclusions == 0
    scene.judge()


@pytest.mark.slow
@pytest.mark.parametrize("behind", [Drop(), Keep(slow=True)], ids=str)
def test_who_is_slow_can_be_left_behind(behind: Behind) -> None:
    """After 0.4 s at most the others have their rate again, and keep it."""
    scene = Stopped(behind)
    assert scene.sent_meanwhile > 0.8 * 1.6 * RATE
    assert scene.sender.engine.counters.overtaken
    assert all(node.exclusions == 0 for node in scene.nodes[:4])
    scene.judge()


@pytest.mark.slow
def test_with_a_choice_of_waiting_a_silent_member_is_waited_for() -> None:
    """Nobody goes on until it is back, and it lacks nothing then."""
    scene = Scene(5, behind=Wait())
    scene.harm(Freeze(at=0.0, for_s=1.5, node=4))
    scene.stalls.sick.update(range(5))
    scene.run(0.2)
    before = scene.sent_bytes()
    scene.run(1.2)
    assert scene.sent_bytes() - before < 2e6
    scene.run(3.0)
    assert scene.nodes[4].exclusions == 0
    scene.judge()


@pytest.mark.slow
def test_nobody_is_overtaken_where_all_are_alike() -> None:
    """At full rate the window is always full, because of the card and not of a member."""
    scene = Scene(5, behind=Drop())
    scene.run(3.0)
    assert scene.sender.engine.counters.overtaken == 0
    scene.judge()


class SlowProcessor(Scene):
    """A member whose processor manages half of what arrives, while another node sends a little."""

    def __init__(
        self, nodes: int, behind: Behind, *, victim: int, buffer_bytes: int = 1 << 20
    ) -> None:
        super().__init__(nodes, behind=behind, card_bytes_per_s=60e6, buffer_bytes=buffer_bytes)
        self.member = self.nodes[victim]
        self.stalls.sick.update(range(nodes))
        other = self.nodes[2]

        def send_a_little() -> None:
            payload = make_payload("g", other.index, other.life, other.sent["g"], 100)
            other.send("g", payload)

        self.cluster.every(0.01, send_a_little, until=self.cluster.now + 10.0)
        self.usual = self.bytes_per_s(1.0)
        load = self.member.host.counters.busy_s / self.cluster.now
        self.member.host.set_slowness(2.0 / load)

    def bytes_per_s(self, seconds: float) -> float:
        """Return what is sent from now on for a while."""
        before = self.sent_bytes()
        self.run(seconds)
        return (self.sent_bytes() - before) / seconds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nodes", "victim"), [(5, 0), (8, 7)], ids=["leader of one ring", "member of two"]
)
def test_half_the_speed_costs_little_more_than_half_the_rate(nodes: int, victim: int) -> None:
    """Small windows wait for rounds: what a slow member got done is told without delay."""
    scene = SlowProcessor(nodes, Keep(), victim=victim)
    scene.run(1.0)
    assert scene.bytes_per_s(3.0) > 0.3 * scene.usual
    assert scene.member.exclusions == 0
    scene.judge()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nodes", "victim"), [(5, 0), (8, 7), (8, 5)], ids=["leader", "member", "member beside it"]
)
@pytest.mark.parametrize("behind", [Drop(), Keep(slow=True)], ids=str)
def test_whoever_is_slow_with_tokens_can_be_left_behind(
    behind: Behind, nodes: int, victim: int
) -> None:
    """Its processor is slow, so all that it does is; the others keep most of their rate.

    While rounds of its ring stall, the ring's leader is taken for slow as well: the stream must
    not forget whom it overtook first, or it takes the long rounds for queues.
    """
    scene = SlowProcessor(nodes, behind, victim=victim, buffer_bytes=16 << 20)
    scene.run(0.4)
    assert scene.bytes_per_s(3.0) > 0.7 * scene.usual
    assert scene.sender.engine.counters.overtaken
    assert all(node.exclusions == 0 for node in scene.nodes if node is not scene.member)
    scene.member.host.set_slowness(1.0)
    scene.judge()
