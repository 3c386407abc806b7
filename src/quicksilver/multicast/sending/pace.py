"""The pace of a sender that is not alone: set by measured delay, before anything is lost.

Several senders together can fill a switch port long before receivers' buffers, which
alone bound a window: the port holds what one of them sends within two milliseconds, and
a round of acknowledgement takes longer than that. So with others active a sender spreads
its packets, and every few rounds asks how long the newest packet that all receivers have
heard of was under way. Tokens queue behind data, so a short queue shows many times over.

Near the least delay ever seen the pace grows by a fixed number of bytes, shared by the
active senders; above it the pace shrinks by a small part. Equal steps up and proportional
steps down make equal shares (Chiu and Jain 1989), and the dip is deep enough to drain the
queue, so that a sender that came late sees the least delay as well (Swift, SIGCOMM 2020).
"""

from __future__ import annotations

from collections import deque
from typing import assert_never

import msgspec

from quicksilver.core.pull import RatePolicy

BYTES_PER_S_MIN = 1e6

MARK_SPACING_S = 1e-4
"""When packets were sent is noted no more often than this."""

MARKS_MAX = 4096
"""Times that are remembered: of 0.4 s or more."""

SAMPLES = 2
"""Delays, of packets sent since the last decision, that the next one waits for. The least
of them counts: a queue delays all, a process that was not scheduled delays some."""

PATIENCE_S = 0.04
"""A decision waits no longer: a stream with holes may give no delays for long."""

SEARCH = 1.25
"""Growth of a pace that has not met the others' yet, with every decision."""

STEP = 0.015
"""Part of what arrives of all senders that they together send more with every decision …"""

STEPS_EVEN = 5
"""… and after so many decisions to do so twice as much, then three times, and so on: there
is more room than small steps would find soon."""

DELAY_S = 0.0015
DELAY_FACTOR = 1.5
DELAY_PACKETS = 16
"""What is tolerated above the least delay: this time, or so many times as much, or the time
that so many packets, and one more of each sender, take to arrive, whichever is most."""

EASE = 0.06
BRAKE = 0.2
"""What is taken from a pace when the delay is too long, and when it is far too long."""

FAIRNESS = 16.0
"""A stream that has a tenth more than its share grows by so many tenths less, and is slowed
down by as many more."""

IDLE = 0.25
"""Others that have less than this part of an equal share, on average, do not want theirs."""

SMOOTHING = 0.25
"""Weight of the newest measurement of what arrives of all streams."""

ELAPSED_S_MIN = 0.001
"""Decisions are no more frequent."""

LOSS = 0.7
"""What is left of it when a queue overflowed all the same."""

FUTILE = 0.4
"""A pace that fell to this part of what it was, and waits as long as before: the delay is
not of its making."""

BURST_S = 0.001
BURST_BYTES_MIN = 16 << 10
"""A pace may make good this much time in which the process did not run."""

RUN_S = 0.0005
RUN_BYTES_MAX = 180_000
"""What is sent at once: longer runs cost less processor time, and longer queues."""


def clamp(value: float, least: float, most: float) -> float:
    return max(least, min(most, value))


class DelayGauge:
    """How long packets are under way until the sender knows that all have heard of them."""

    def __init__(self) -> None:
        self.least_s: float | None = None
        """With empty queues, as far as is known."""
        self.mark_at = 0.0
        """When the next packet is to be noted."""
        self._marks: deque[tuple[int, float]] = deque(maxlen=MARKS_MAX)
        """Packets, and when they were sent."""

    def mark(self, sequence: int, now: float) -> None:
        """A packet leaves; call it when ``mark_at`` has come."""
        self._marks.append((sequence, now))
        self.mark_at = now + MARK_SPACING_S

    def measure(self, heard: int, now: float, gap_s: float = 0.0) -> float | None:
        """All have heard of the packets below a number: return how long the newest took.

        None if nothing is new, or if the stream paused after it, for longer than it took
        and than packets are apart (``gap_s``): then it was not the packet that took the
        time, but the token that nobody was in a hurry to send.
        """
        marks = self._marks
        sent_at = None
        while marks and marks[0][0] < heard:
            sent_at = marks.popleft()[1]
        if sent_at is None or not marks:
            return None
        delay_s = now - sent_at
        if marks[0][1] - sent_at > max(delay_s, gap_s):
            return None
        if self.least_s is None or delay_s < self.least_s:
            self.least_s = delay_s
        return delay_s

    def excuse(self, late_s: float) -> None:
        """So much more delay has other reasons than queues that senders fill."""
        self.least_s = (self.least_s or 0.0) + late_s


class Searching(msgspec.Struct):
    """The pace grows by a factor until the delay does, too."""


class Sharing(msgspec.Struct):
    """The pace follows the delay, in small steps."""

    eased_from: float = 0.0
    """What it was before the delay became too long; 0 while it is not."""
    grown: int = 0
    """Decisions since then to send more."""


class Pacer:
    """The pace of one stream among several."""

    def __init__(self, bytes_per_s: float, gauge: DelayGauge, *, packet_bytes: int) -> None:
        self.gauge = gauge
        self._packet_bytes = packet_bytes
        self.state: Searching | Sharing = Searching()
        self.policy = RatePolicy(bytes_per_s, burst_bytes=packet_bytes)
        self.is_holding = False
        """True when the pace held the stream up since the last decision."""
        self._set(bytes_per_s)
        self._from = 0
        """Packets from here on were sent since the last decision …"""
        self._decided_at: float | None = None
        self._samples = 0
        self._least_s = 0.0
        """… and took this long at least."""
        self._arrived_bytes = 0
        """Of all streams, at the last decision."""
        self._total_bytes_per_s = 0.0
        """What arrives of all of them together."""

    @property
    def bytes_per_s(self) -> float:
        return self.policy.bytes_per_s

    @property
    def run_bytes(self) -> int:
        """What to send at once."""
        return max(self._packet_bytes, min(RUN_BYTES_MAX, int(self.bytes_per_s * RUN_S)))

    @property
    def gap_s(self) -> float:
        """How far apart packets are at most, at this pace."""
        return 2 * self.run_bytes / self.bytes_per_s

    def is_open(self, now: float) -> bool:
        if self.policy.is_open(now):
            return True
        self.is_holding = True
        return False

    def handle_report(
        self,
        *,
        delay_s: float | None,
        heard: int,
        sent: int,
        senders: int,
        arrived_bytes: int,
        now: float,
    ) -> None:
        """Packets below ``heard`` were heard of, the newest after a delay; ``sent`` exist."""
        if self._decided_at is None:
            self._begin(sent, arrived_bytes, now)
            return
        if heard <= self._from:
            # Nothing is known yet about what was sent since.
            return
        if delay_s is not None:
            self._least_s = min(self._least_s, delay_s) if self._samples else delay_s
            self._samples += 1
        elapsed_s = now - self._decided_at
        is_enough = self._samples >= (SAMPLES if isinstance(self.state, Sharing) else 1)
        if elapsed_s < ELAPSED_S_MIN or not (is_enough or elapsed_s >= PATIENCE_S):
            return
        self._measure_total(arrived_bytes, elapsed_s)
        self._decide(self._least_s if self._samples else None, senders)
        self._begin(sent, arrived_bytes, now)

    def handle_loss(self, factor: float) -> None:
        """Something overflowed: go on with a part of the pace."""
        self._set(self.bytes_per_s * factor)
        self.state = Sharing()

    def _measure_total(self, arrived_bytes: int, elapsed_s: float) -> None:
        # Another leader counts from another beginning.
        if arrived_bytes > self._arrived_bytes:
            measured = (arrived_bytes - self._arrived_bytes) / elapsed_s
            before = self._total_bytes_per_s or measured
            self._total_bytes_per_s = before + (measured - before) * SMOOTHING

    def _excess(self, senders: int) -> float:
        """How much more than an equal share this stream takes: 0.1 is a tenth more.

        Where the others hardly send anything, they want no more: whoever has less than its
        share grows faster than all others, and would soon be seen.
        """
        total = self._total_bytes_per_s
        if not total:
            return 0.0
        excess = self.bytes_per_s * senders / total - 1.0
        if senders > 1 and excess > 0.0:
            others = (total - self.bytes_per_s) / (senders - 1)
            return 0.0 if others < IDLE * total / senders else excess
        return excess

    def _begin(self, sent: int, arrived_bytes: int, now: float) -> None:
        self._from = sent
        self._arrived_bytes = arrived_bytes
        self._decided_at = now
        self._samples = 0
        self.is_holding = False

    def _decide(self, delay_s: float | None, senders: int) -> None:
        total = self._total_bytes_per_s or self.bytes_per_s * max(1, senders)
        late_s = 0.0
        if delay_s is not None and self.gauge.least_s is not None:
            late_s = delay_s - self.gauge.least_s
        tolerated_s = max(
            DELAY_S,
            DELAY_FACTOR * (self.gauge.least_s or 0.0),
            (DELAY_PACKETS + senders) * self._packet_bytes / total,
        )
        is_late = late_s > tolerated_s
        match self.state:
            case Searching():
                if is_late:
                    share = total / max(1, senders)
                    pace = self.bytes_per_s
                    self._set(max(pace / SEARCH**2, min(pace / SEARCH, share)))
                    self.state = Sharing()
                elif self.is_holding:
                    self._set(self.bytes_per_s * SEARCH)
            case Sharing() as sharing:
                if is_late:
                    self._ease(
                        sharing, late_s, BRAKE if late_s > 3 * tolerated_s else EASE, senders
                    )
                    return
                sharing.eased_from = 0.0
                if self.is_holding:
                    is_far_from_late = late_s < tolerated_s / 2
                    steps = max(1.0, sharing.grown - STEPS_EVEN) if is_far_from_late else 1.0
                    sharing.grown += 1
                    steps *= clamp(1.0 - FAIRNESS * self._excess(senders), 0.25, 4.0)
                    self._set(self.bytes_per_s + steps * STEP * total / max(1, senders))
            case _:
                assert_never(self.state)

    def _ease(self, sharing: Sharing, late_s: float, part: float, senders: int) -> None:
        pace = self.bytes_per_s
        sharing.grown = 0
        sharing.eased_from = sharing.eased_from or pace
        if pace < FUTILE * sharing.eased_from:
            self.gauge.excuse(late_s)
            sharing.eased_from = 0.0
            return
        self._set(pace * (1.0 - part * clamp(1.0 + FAIRNESS * self._excess(senders), 0.0, 2.0)))

    def _set(self, bytes_per_s: float) -> None:
        self.policy.bytes_per_s = max(BYTES_PER_S_MIN, bytes_per_s)
        credit = int(self.policy.bytes_per_s * BURST_S)
        self.policy.burst_bytes = max(self._packet_bytes, BURST_BYTES_MIN, credit)
