"""The pace of senders that share a link, against a slow and obvious model of the link."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest

from quicksilver.multicast.sending.flow import ALONE_S, FlowController
from quicksilver.multicast.sending.pace import BYTES_PER_S_MIN, DelayGauge, Pacer, Sharing
from quicksilver.stdx.rand import Rng

PACKET = 60_000
STEP_S = 1e-4
ROUND_BYTES = 2 << 20
ROUND_S_MAX = 0.01


@dataclass
class Sender:
    """A stream and what its application wants."""

    flow: FlowController
    wants_bytes_per_s: float = 1e12
    from_s: float = 0.0
    sent: int = 0
    heard: int = 0
    acked: int = 0
    due: float = 0.0
    delivered_bytes: int = 0


@dataclass
class Link:
    """One queue that all share, a round of acknowledgement now and then, nothing else."""

    senders: list[Sender]
    bytes_per_s: float = 1.25e9
    buffer_bytes: int = 2 << 20
    base_s: float = 0.002
    noise_s: float = 0.0
    """Up to this much later than usual an acknowledgement comes, by chance."""
    rng: Rng = field(default_factory=lambda: Rng(7))
    hops: int = 5
    """A token waits behind the queue at every member of a ring."""
    now: float = 0.0
    lost: int = 0
    arrived_bytes: int = 0
    _queue: deque[tuple[Sender, int]] = field(default_factory=deque)
    _credit: float = 0.0
    _round_bytes: int = 0
    _round_at: float = 0.0
    _rounds: deque[tuple[float, list[int], int]] = field(default_factory=deque)

    def run(self, seconds: float) -> list[float]:
        """Let time pass; return what was delivered of each sender, in bytes a second."""
        before = [sender.delivered_bytes for sender in self.senders]
        began = self.now
        while self.now < began + seconds:
            self.now += STEP_S
            for sender in self.senders:
                if self.now >= sender.from_s:
                    self._send(sender)
            self._serve()
            self._acknowledge()
        pairs = zip(before, self.senders, strict=True)
        return [(sender.delivered_bytes - was) / seconds for was, sender in pairs]

    def _send(self, sender: Sender) -> None:
        flow, now = sender.flow, self.now
        sender.due = min(sender.due + sender.wants_bytes_per_s * STEP_S, 8 * PACKET)
        # No faster than a core: 1 GB/s.
        for _ in range(2):
            if sender.due < PACKET or not flow.is_open(now):
                return
            if now >= flow.gauge.mark_at:
                flow.gauge.mark(sender.sent, now)
            flow.charge(PACKET, now)
            sender.due -= PACKET
            if len(self._queue) * PACKET > self.buffer_bytes:
                self.lost += 1
                flow.handle_region_loss(now, newest=sender.sent, sent=sender.sent + 1)
            self._queue.append((sender, sender.sent))
            sender.sent += 1

    def _serve(self) -> None:
        self._credit += self.bytes_per_s * STEP_S
        while self._queue and self._credit >= PACKET:
            sender, sequence = self._queue.popleft()
            self._credit -= PACKET
            sender.heard = sequence + 1
            sender.delivered_bytes += PACKET
            self.arrived_bytes += PACKET
            self._round_bytes += PACKET
        if not self._queue:
            self._credit = 0.0

    def _acknowledge(self) -> None:
        is_due = self.now >= self._round_at + ROUND_S_MAX and self._round_bytes > 0
        if is_due or self._round_bytes >= ROUND_BYTES:
            self._round_bytes = 0
            self._round_at = self.now
            queued_s = len(self._queue) * PACKET / self.bytes_per_s
            takes_s = self.base_s + self.hops * queued_s + self.noise_s * self.rng.uniform()
            heard = [sender.heard for sender in self.senders]
            self._rounds.append((self.now + takes_s, heard, self.arrived_bytes))
        active = [s for s in self.senders if s.sent > s.acked]
        while self._rounds and self._rounds[0][0] <= self.now:
            _, heard, arrived_bytes = self._rounds.popleft()
            for sender, count in zip(self.senders, heard, strict=True):
                if count <= sender.acked:
                    continue
                sender.flow.handle_report(
                    buffer_bytes=16 << 20, senders=len(active), drops=0, now=self.now
                )
                sender.flow.handle_heard(
                    heard=count,
                    is_newest=True,
                    sent=sender.sent,
                    senders=len(active),
                    arrived_bytes=arrived_bytes,
                    now=self.now,
                )
                sender.flow.release((count - sender.acked) * PACKET)
                sender.acked = count


def make_flow() -> FlowController:
    return FlowController(window_initial=128 << 10, window_max=14 << 20, packet_bytes=PACKET)


def make_link(count: int, **changes: float) -> Link:
    return Link([Sender(make_flow()) for _ in range(count)], **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("bytes_per_s", [1.25e9, 125e6])
def test_several_senders_fill_the_link_evenly_and_lose_nothing(
    count: int, bytes_per_s: float
) -> None:
    """Whatever the link carries; nobody tells the senders."""
    link = make_link(count, bytes_per_s=bytes_per_s)
    # Acknowledgements follow the data, so a slower link takes longer to share.
    link.run(1.0 if bytes_per_s > 1e9 else 4.0)
    lost = link.lost
    rates = link.run(1.0)
    assert sum(rates) >= 0.95 * bytes_per_s
    assert min(rates) >= 0.9 * max(rates)
    assert link.lost == lost


def test_a_sender_that_comes_late_gets_its_share() -> None:
    """It never saw the link without a queue, and the other one had all of it."""
    link = make_link(2)
    link.senders[1].from_s = 1.0
    alone, none = link.run(1.0)
    assert alone >= 0.75 * link.bytes_per_s
    assert none == 0
    link.run(1.0)
    rates = link.run(1.0)
    assert sum(rates) >= 0.95 * link.bytes_per_s
    assert min(rates) >= 0.9 * max(rates)


def test_what_one_sender_does_not_want_the_other_may_have() -> None:
    """An equal share is for those who can use it."""
    link = make_link(2)
    link.senders[0].wants_bytes_per_s = 100e6
    link.run(1.5)
    modest, greedy = link.run(1.0)
    assert modest >= 95e6
    assert greedy >= 0.85 * (link.bytes_per_s - 100e6)
    assert link.senders[1].flow.acked_bytes_per_s > 0


def test_a_share_that_nobody_wants_is_no_reason_to_go_slowly() -> None:
    """Growth is for those who have less than others would take; here nobody would."""
    gauge = DelayGauge()
    gauge.least_s = 0.002
    pacer = Pacer(10e6, gauge, packet_bytes=PACKET)
    pacer.state = Sharing()
    arrived, now, heard = 0, 0.0, 0
    for _ in range(100):
        now += 0.05
        heard += 10
        arrived += int(pacer.bytes_per_s * 0.05)
        pacer.is_open(now)
        pacer.policy.charge(10 * PACKET, now)
        pacer.is_open(now)
        # Later than usual, as behind a slow member, and within what is tolerated.
        report = {"sent": heard + 1, "senders": 2, "arrived_bytes": arrived, "now": now}
        pacer.handle_report(delay_s=0.06, heard=heard, **report)  # type: ignore[arg-type]
    assert pacer.bytes_per_s > 15e6


def test_a_modest_sender_is_not_slowed_down_by_others() -> None:
    link = make_link(8)
    link.senders[0].wants_bytes_per_s = 50e6
    link.run(1.0)
    rates = link.run(1.0)
    assert rates[0] >= 49e6


@pytest.mark.parametrize("seed", range(5))
def test_acknowledgements_that_come_late_by_chance_cost_little(seed: int) -> None:
    """Processes are not scheduled for a while: a delay, and no queue."""
    link = make_link(2, noise_s=0.004)
    link.rng = Rng(seed)
    link.run(1.0)
    rates = link.run(1.0)
    assert sum(rates) >= 0.9 * link.bytes_per_s
    assert min(rates) >= 0.85 * max(rates)


def test_a_longer_way_does_not_starve_anybody() -> None:
    """A delay that no sender can shorten is taken as it is."""
    link = make_link(2)
    link.run(1.0)
    link.base_s = 0.008
    link.run(2.0)
    rates = link.run(1.0)
    assert sum(rates) >= 0.85 * link.bytes_per_s


def test_a_slower_link_is_noticed_and_a_faster_one_as_well() -> None:
    link = make_link(2)
    link.run(1.0)
    link.bytes_per_s = 0.5e9
    link.run(1.0)
    lost = link.lost
    assert sum(link.run(1.0)) >= 0.9 * link.bytes_per_s
    assert link.lost == lost
    link.bytes_per_s = 1.25e9
    link.run(1.5)
    assert sum(link.run(1.0)) >= 0.95 * link.bytes_per_s


def test_after_idleness_senders_begin_where_they_were() -> None:
    """Not all at once at full speed, each believing that it is alone."""
    link = make_link(4)
    link.run(1.0)
    for sender in link.senders:
        sender.wants_bytes_per_s = 0.0
        sender.due = 0.0
    link.run(0.5)
    lost = link.lost
    for sender in link.senders:
        sender.wants_bytes_per_s = 1e12
    rates = link.run(0.5)
    assert link.lost <= lost + 10
    assert sum(rates) >= 0.85 * link.bytes_per_s


# One controller


def hear(flow: FlowController, senders: int, now: float, heard: int = 0) -> None:
    flow.handle_heard(
        heard=heard, is_newest=True, sent=heard, senders=senders, arrived_bytes=0, now=now
    )


def test_a_sender_that_is_alone_is_not_paced() -> None:
    """Whatever the delays are: on a busy machine they say nothing about a network."""
    flow = make_flow()
    for step in range(100):
        flow.gauge.mark(step, step * 0.01)
        hear(flow, 1, step * 0.01 + 0.005 * step, heard=step)
    assert flow.pacer is None
    assert not flow.is_timed


def test_a_sender_that_is_alone_again_is_freed_after_a_while() -> None:
    flow = make_flow()
    hear(flow, 2, 1.0)
    assert flow.pacer is not None
    hear(flow, 1, 1.0 + ALONE_S / 2)
    assert flow.pacer is not None
    hear(flow, 1, 1.0 + ALONE_S)
    assert flow.pacer is None


def test_a_stream_inherits_the_pace_of_the_one_before() -> None:
    """A change of views does not make the network another one."""
    older, newer = make_flow(), make_flow()
    hear(older, 2, 1.0)
    assert older.pacer is not None
    older.pacer.handle_loss(0.5)
    newer.inherit(older)
    assert newer.pacer is not None
    assert newer.pacer.bytes_per_s == older.pacer.bytes_per_s


def test_one_overflow_slows_a_paced_stream_down_once() -> None:
    """Packets of before are asked for again and again; they say nothing new."""
    flow = make_flow()
    hear(flow, 2, 1.0)
    assert flow.pacer is not None
    pace = flow.pacer.bytes_per_s
    flow.handle_region_loss(1.1, newest=10, sent=20)
    assert BYTES_PER_S_MIN < flow.pacer.bytes_per_s < pace
    slower = flow.pacer.bytes_per_s
    for step in range(10):
        flow.handle_region_loss(1.3 + step, newest=19, sent=40)
    assert flow.pacer.bytes_per_s == slower
    flow.handle_region_loss(20.0, newest=20, sent=40)
    assert flow.pacer.bytes_per_s < slower


def test_a_pace_that_measures_no_delay_grows_all_the_same() -> None:
    """With many holes nobody says what is newest; the stream must not stay slow."""
    pacer = Pacer(50e6, DelayGauge(), packet_bytes=PACKET)
    pacer.state = Sharing()
    for step in range(100):
        pacer.is_holding = True
        pacer.handle_report(
            delay_s=None, heard=2 * step, sent=2 * step, senders=2, arrived_bytes=0, now=step * 0.02
        )
    assert pacer.bytes_per_s > 100e6


def test_a_pace_that_holds_nobody_up_does_not_grow() -> None:
    """An application that sends little must not save up for a flood."""
    pacer = Pacer(50e6, DelayGauge(), packet_bytes=PACKET)
    for step in range(100):
        pacer.handle_report(
            delay_s=None, heard=2 * step, sent=2 * step, senders=2, arrived_bytes=0, now=step * 0.02
        )
    assert pacer.bytes_per_s == 50e6


def test_a_delay_is_measured_only_while_packets_follow_each_other() -> None:
    """The last packet before a pause waits for a token that nobody is in a hurry to send."""
    gauge = DelayGauge()
    gauge.mark(0, 1.0)
    assert gauge.measure(1, 1.05) is None
    gauge.mark(1, 2.0)
    gauge.mark(2, 2.001)
    assert gauge.measure(2, 2.004) == pytest.approx(0.004)
    assert gauge.least_s == pytest.approx(0.004)
    assert gauge.measure(2, 2.5) is None
