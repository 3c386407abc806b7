"""Flow control: the window follows what receivers say, drops slow the sender down."""

from __future__ import annotations

from quicksilver.multicast.sending.flow import (
    LIMIT_LIFTED_AFTER,
    RATE_BYTES_PER_S_MIN,
    FlowController,
)

MIB = 1 << 20


def controller() -> FlowController:
    return FlowController(window_initial=128 << 10, window_max=8 * MIB, packet_bytes=60_000)


def calm(flow: FlowController, now: float, buffer_bytes: int = MIB) -> None:
    flow.handle_report(buffer_bytes=buffer_bytes, senders=1, drops=0, now=now)


def test_the_window_closes_on_unacknowledged_bytes_and_opens_on_release() -> None:
    """A sender is held by receivers' progress, not by luck."""
    flow = controller()
    flow.charge(128 << 10, 0.0)
    assert not flow.is_open(0.0)
    assert flow.next_open(0.0) is None
    flow.release(1)
    assert flow.is_open(0.0)


def test_the_window_follows_the_smallest_receive_buffer() -> None:
    """A stream cannot overflow a receiver that does not run for a while."""
    flow = controller()
    calm(flow, 0.0, buffer_bytes=300_000)
    assert flow.window.window_bytes == 300_000
    calm(flow, 0.1, buffer_bytes=200_000)
    assert flow.window.window_bytes == 200_000


def test_senders_share_the_receive_buffer() -> None:
    """Four active streams get a quarter each."""
    flow = controller()
    flow.handle_report(buffer_bytes=MIB, senders=4, drops=0, now=0.0)
    assert flow.window.window_bytes == MIB // 4


def test_the_window_stays_between_its_limits_whatever_is_reported() -> None:
    """A lie can neither stop a sender nor let it use unlimited memory."""
    flow = controller()
    flow.handle_report(buffer_bytes=1 << 62, senders=0, drops=0, now=0.0)
    assert flow.window.window_bytes == 8 * MIB
    flow.handle_report(buffer_bytes=0, senders=(1 << 32) - 1, drops=0, now=0.1)
    assert flow.window.window_bytes == 16 << 10


def run(flow: FlowController, seconds: float, start: float, *, drops: int = 0) -> float:
    """Acknowledge 100 MB/s for a while with a report every 10 ms; return the time."""
    now = start
    for _ in range(round(seconds / 0.01)):
        now += 0.01
        flow.charge(MIB, now)
        flow.release(MIB)
        flow.handle_report(buffer_bytes=MIB, senders=1, drops=drops, now=now)
    return now


def test_without_drops_there_is_no_rate_limit() -> None:
    """The window alone governs a healthy region."""
    flow = controller()
    run(flow, 1.0, 0.0)
    assert flow.rate is None
    assert 90e6 < flow.acked_bytes_per_s < 120e6


def test_drops_lower_the_rate_below_what_was_acknowledged() -> None:
    """Kernels that drop in spite of the window mean: slower."""
    flow = controller()
    now = run(flow, 1.0, 0.0)
    measured = flow.acked_bytes_per_s
    flow.handle_report(buffer_bytes=MIB, senders=1, drops=3, now=now + 0.01)
    assert flow.rate is not None
    first = flow.rate.bytes_per_s
    assert first < measured
    flow.handle_report(buffer_bytes=MIB, senders=1, drops=3, now=now + 0.02)
    assert flow.rate.bytes_per_s < first


def test_the_rate_never_falls_below_its_floor() -> None:
    """However many drops are reported, the sender goes on."""
    flow = controller()
    now = run(flow, 1.0, 0.0)
    for step in range(200):
        flow.handle_report(buffer_bytes=MIB, senders=1, drops=1 << 62, now=now + step * 0.01)
    assert flow.rate is not None
    assert flow.rate.bytes_per_s == RATE_BYTES_PER_S_MIN


def test_drops_before_anything_was_acknowledged_are_not_the_streams() -> None:
    """A node that comes back after a freeze must not slow its group to a guess."""
    flow = controller()
    flow.handle_report(buffer_bytes=MIB, senders=1, drops=1000, now=0.01)
    assert flow.rate is None


def test_the_rate_recovers_and_is_lifted_in_calm() -> None:
    """The limit grows report by report and goes when it no longer matters."""
    flow = controller()
    now = run(flow, 1.0, 0.0)
    flow.handle_report(buffer_bytes=MIB, senders=1, drops=3, now=now)
    assert flow.rate is not None
    low = flow.rate.bytes_per_s
    for step in range(10):
        calm(flow, now + step * 0.01)
    assert flow.rate is not None
    assert flow.rate.bytes_per_s > 1.5 * low
    for step in range(LIMIT_LIFTED_AFTER):
        calm(flow, now + 1 + step * 0.01)
    assert flow.rate is None


def test_a_rate_limited_flow_says_when_time_opens_it() -> None:
    """The host sleeps until then instead of spinning."""
    flow = controller()
    now = run(flow, 1.0, 0.0)
    flow.handle_report(buffer_bytes=8 * MIB, senders=1, drops=1, now=now)
    flow.charge(500_000, now)
    assert not flow.is_open(now)
    opens = flow.next_open(now)
    assert opens is not None
    assert opens > now
    assert flow.is_open(opens)


def test_what_a_whole_region_lost_halves_the_window_once() -> None:
    """A switch was full: its buffer is smaller than the receivers'."""
    flow = controller()
    now = run(flow, 1.0, 0.0)
    flow.handle_report(buffer_bytes=8 * MIB, senders=1, drops=0, now=now)
    before = flow.window.window_bytes
    flow.handle_region_loss(now)
    flow.handle_region_loss(now + 0.01)
    assert flow.window.window_bytes == before // 2
    assert flow.rate is None


def test_a_halved_window_grows_back_in_calm() -> None:
    flow = controller()
    now = run(flow, 1.0, 0.0)
    flow.handle_report(buffer_bytes=8 * MIB, senders=1, drops=0, now=now)
    before = flow.window.window_bytes
    flow.handle_region_loss(now)
    for step in range(200):
        flow.handle_report(buffer_bytes=8 * MIB, senders=1, drops=0, now=now + 0.01 * step)
    assert flow.window.window_bytes == before


def test_a_loss_never_widens_a_small_window() -> None:
    """The least limit is for large windows; what was configured stays the most."""
    flow = FlowController(window_initial=32 << 10, window_max=32 << 10, packet_bytes=60_000)
    flow.handle_region_loss(1.0)
    flow.handle_report(buffer_bytes=1 << 20, senders=1, drops=0, now=1.1)
    assert flow.window.window_bytes <= 32 << 10
