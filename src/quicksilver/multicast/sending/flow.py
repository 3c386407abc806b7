"""How fast a sender may go: a window and a rate, set by the reports that tokens bring.

The window bounds bytes sent and not acknowledged. It follows what receivers
said they can hold, so that a stream of one sender cannot overflow a receive
buffer even if its owner does not run for a while; a slow receiver therefore
slows the sender instead of being flooded. The rate limit exists only while
receivers' kernels drop datagrams in spite of that (many senders, buffers shared
with other traffic): it starts below the measured rate of acknowledgement and
grows back until it no longer matters.
"""

from __future__ import annotations

from quicksilver.core.pull import RatePolicy, WindowPolicy

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


class FlowController:
    """Window and rate of one stream."""

    def __init__(self, *, window_initial: int, window_max: int) -> None:
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

    def is_open(self, now: float) -> bool:
        window = self.window
        if window.pending_bytes >= window.window_bytes:
            return False
        return self.rate is None or self.rate.is_open(now)

    def charge(self, size: int, now: float) -> None:
        self.window.pending_bytes += size
        if self.rate is not None:
            self.rate.charge(size, now)

    def release(self, size: int) -> None:
        """Bytes were acknowledged by the whole region."""
        self.window.release(size)
        self._acked_bytes += size

    def next_open(self, now: float) -> float | None:
        """When time alone opens a closed flow."""
        if self.rate is None or not self.window.is_open(now):
            return None
        return self.rate.next_open(now)

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

    def handle_region_loss(self, now: float) -> None:
        """Packets are resent that everybody had lost.

        One receiver's trouble does not do that: a switch on the way was full, whose
        buffers no receiver reports. So the window shrinks as for any network.
        """
        if now - self._shrunk_at >= REGION_LOSS_SPACING_S:
            self._shrunk_at = now
            window = self.window
            halved = max(LIMIT_BYTES_MIN, min(self._limit, window.window_bytes) / 2)
            self._limit = min(self.window_max, halved)
            window.window_bytes = min(window.window_bytes, int(self._limit))

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
