"""How fast a sender may go: a window and a rate, set by the reports that tokens bring.

The window bounds bytes sent and not acknowledged. It follows what receivers
said they can hold, so that a stream of one sender cannot overflow a receive
buffer even if its owner does not run for a while; a slow receiver therefore
slows the sender instead of being flooded. The rate limit exists only while
receivers' kernels drop datagrams in spite of that (many senders, buffers shared
with other traffic): it starts below the measured rate of acknowledgement and
grows back until it no longer matters. While other senders are active, their number
and the delay of packets set a pace as well (``pace.py``).
"""

from __future__ import annotations

from quicksilver.core.pull import RatePolicy, WindowPolicy
from quicksilver.multicast.sending.pace import LOSS, DelayGauge, Pacer

DECREASE = 0.8
INCREASE = 1.05
RATE_BYTES_PER_S_MIN = 1e6
REGION_LOSS_SPACING_S = 0.1
"""One overflow makes several resends: one reaction for all of them."""

LIMIT_BYTES_MIN = 256 << 10
LIMIT_INCREASE = 1.01
"""A report: some two thirds of a second until the window is twice as large."""

LIMIT_LIFTED_AFTER = 40
"""Reports without a drop until the rate limit is lifted altogether."""

ALONE_S = 1.0
"""A stream that was the only one for this long is no longer paced."""

RUN_BYTES = 240_000
"""Packets of a run in one poll: enough to share the work, and still short for tokens,
which leave before the next poll."""

LIMITED_RUN_BYTES = 60_000
"""All that a rate limit lets go at once."""


class FlowController:
    """Window and rate of one stream."""

    def __init__(self, *, window_initial: int, window_max: int, packet_bytes: int) -> None:
        self.window = WindowPolicy(window_initial)
        self.rate: RatePolicy | None = None
        self.window_max = window_max
        self._acked_bytes = 0
        self._measured_from: float | None = None
        self.acked_bytes_per_s = 0.0
        self._calm_reports = 0
        self._limit = float(window_max)
        """What the network between seems to hold."""
        self._shrunk_at = -1.0
        self._lost_below = 0
        """Packets that were sent when this stream last slowed down, because others were lost."""
        self.gauge = DelayGauge()
        self.pacer: Pacer | None = None
        """There are other senders, or were within ``ALONE_S``."""
        self._shared_at = 0.0
        self._window_initial = window_initial
        self._packet_bytes = packet_bytes
        self.sent_bytes = 0

    @property
    def is_timed(self) -> bool:
        """Whether time alone may open a closed flow."""
        return self.rate is not None or self.pacer is not None

    @property
    def run_bytes(self) -> int:
        """What to send at once, as far as the window allows."""
        if self.rate is not None:
            return LIMITED_RUN_BYTES
        return RUN_BYTES if self.pacer is None else self.pacer.run_bytes

    def is_open(self, now: float) -> bool:
        window = self.window
        if window.pending_bytes >= window.window_bytes:
            return False
        if self.pacer is not None and not self.pacer.is_open(now):
            return False
        return self.rate is None or self.rate.is_open(now)

    def charge(self, size: int, now: float) -> None:
        self.window.pending_bytes += size
        self.sent_bytes += size
        if self.rate is not None:
            self.rate.charge(size, now)
        if self.pacer is not None:
            self.pacer.policy.charge(size, now)

    def release(self, size: int) -> None:
        """Bytes were acknowledged by the whole region."""
        self.window.release(size)
        self._acked_bytes += size

    def next_open(self, now: float) -> float | None:
        """When time alone opens a closed flow."""
        if not self.is_timed or not self.window.is_open(now):
            return None
        policies = [self.rate, None if self.pacer is None else self.pacer.policy]
        return max(policy.next_open(now) for policy in policies if policy is not None)

    def handle_report(self, *, buffer_bytes: int, senders: int, drops: int, now: float) -> None:
        """Take what one acknowledgement says about the region's receivers."""
        self._measure(now)
        share = buffer_bytes // max(1, senders)
        self.window.window_bytes = max(16 << 10, min(int(self._limit), share))
        self._limit = min(self.window_max, self._limit * LIMIT_INCREASE)
        if drops and not self.acked_bytes_per_s and self.rate is None:
            # Not measured yet: the drops are older than this stream, or others'. If
            # they are not, the next report says so; 1 MB/s would be a guess that
            # takes seconds to mend.
            return
        if drops and self.pacer is not None:
            self._slow_down(DECREASE, now)
            return
        if drops:
            self._calm_reports = 0
            base = self.acked_bytes_per_s or RATE_BYTES_PER_S_MIN
            if self.rate is not None:
                base = min(base, self.rate.bytes_per_s)
            slower = max(RATE_BYTES_PER_S_MIN, base * DECREASE)
            self.rate = RatePolicy(slower, burst_bytes=max(64 << 10, int(slower * 0.005)))
            return
        if self.rate is None:
            return
        self._calm_reports += 1
        self.rate.bytes_per_s *= INCREASE
        if self._calm_reports > LIMIT_LIFTED_AFTER:
            self.rate = None

    def handle_heard(
        self,
        *,
        heard: int,
        is_newest: bool,
        sent: int,
        senders: int,
        arrived_bytes: int,
        now: float,
        is_slowed: bool = False,
    ) -> None:
        """All receivers have heard of the packets below ``heard``, of ``sent`` in all.

        They may have heard of more unless these ``is_newest``. ``senders`` are active, and
        of all of them so many bytes have arrived. ``is_slowed``: a member that was overtaken
        takes part in rounds, so how long these take says nothing of the network; then the
        window alone sets the pace, and what is lost.
        """
        if is_slowed:
            self.pacer = None
            return
        gap_s = 0.0 if self.pacer is None else self.pacer.gap_s
        delay_s = self.gauge.measure(heard, now, gap_s) if is_newest else None
        if senders > 1:
            self._shared_at = now
            if self.pacer is None:
                self._begin_to_pace(senders)
        pacer = self.pacer
        if pacer is None:
            return
        if senders <= 1 and now - self._shared_at >= ALONE_S:
            self.pacer = None
            return
        pacer.handle_report(
            delay_s=delay_s,
            heard=heard,
            sent=sent,
            senders=senders,
            arrived_bytes=arrived_bytes,
            now=now,
        )

    def inherit(self, older: FlowController) -> None:
        """Go on as a stream did that this one takes over from: the network is the same."""
        self.gauge.least_s = older.gauge.least_s
        if older.pacer is not None:
            self._shared_at = older._shared_at
            self.pacer = Pacer(older.pacer.bytes_per_s, self.gauge, packet_bytes=self._packet_bytes)

    def handle_region_loss(self, now: float, *, newest: int | None = None, sent: int = 0) -> None:
        """Packets are resent that everybody had lost: up to ``newest``, of ``sent`` in all.

        One receiver's trouble does not do that: a switch on the way was full, whose
        buffers no receiver reports. So the window shrinks as for any network, or the
        pace, if there is one; but not for packets that were sent before it last did.
        """
        if newest is not None:
            if newest < self._lost_below:
                return
            if now - self._shrunk_at >= REGION_LOSS_SPACING_S:
                self._lost_below = sent
        if self.pacer is not None:
            self._slow_down(LOSS, now)
        elif now - self._shrunk_at >= REGION_LOSS_SPACING_S:
            self._shrunk_at = now
            window = self.window
            halved = max(LIMIT_BYTES_MIN, min(self._limit, window.window_bytes) / 2)
            self._limit = min(self.window_max, halved)
            window.window_bytes = min(window.window_bytes, int(self._limit))

    def _begin_to_pace(self, senders: int) -> None:
        """Begin where this stream is, or as slowly as any begins."""
        if self.rate is not None:
            bytes_per_s, self.rate = self.rate.bytes_per_s, None
        else:
            round_s = max(1e-3, self.gauge.least_s or 0.0)
            first = self._window_initial / max(1, senders / 8) / round_s
            bytes_per_s = max(first, self.acked_bytes_per_s)
        self.pacer = Pacer(bytes_per_s, self.gauge, packet_bytes=self._packet_bytes)

    def _slow_down(self, factor: float, now: float) -> None:
        """Packets were lost at this pace; once for all that one overflow lost."""
        if self.pacer is not None and now - self._shrunk_at >= REGION_LOSS_SPACING_S:
            self._shrunk_at = now
            self.pacer.handle_loss(factor)

    def _measure(self, now: float) -> None:
        if self._measured_from is None:
            self._measured_from = now
            self._acked_bytes = 0
            return
        elapsed = now - self._measured_from
        if elapsed >= 0.1:
            self.acked_bytes_per_s = self._acked_bytes / elapsed
            self._measured_from = now
            self._acked_bytes = 0
