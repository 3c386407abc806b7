"""Streams: this node's packets into one region view each.

A stream numbers packets, keeps them until the region has them, and resends what
a whole region lost. A stream that a view change closed still finishes what was
committed to it (dissertation 4.2.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from quicksilver.core.ports import DiskPort, Transmit
from quicksilver.core.pull import RatePolicy
from quicksilver.multicast.answers import Answers
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.receiving.memory import Budget
from quicksilver.multicast.sending.behind import LEAST, Behind, Patience
from quicksilver.multicast.sending.flow import FlowController
from quicksilver.multicast.sending.overtaking import HoldUp
from quicksilver.multicast.sending.sent_packets import SentPackets
from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.ids import Address
from quicksilver.wire.packets import (
    FLAG_FRAGMENT,
    FLAG_SINGLE,
    FLAG_START,
    KIND_DATA,
    POSITION,
    as_repair,
    encode_mixed_head,
    encode_prefix,
    encode_run_head,
    stream_key,
)

if TYPE_CHECKING:
    from quicksilver.multicast.sending.lane import Lane

SPAN_PACKETS_MAX = 1 << 15
"""Packets past a hole, however small: what receivers keep costs more than its bytes."""

RESEND_PAUSE_S_MAX = 0.25
"""A packet that is asked for again and again is resent no more often."""

LOOKED_UP_MAX = 1024
"""Packets of one request that are looked up one by one."""

RESENDS_AT_ONCE = 8
"""Resent packets in one poll: repairs must not fill the socket for long."""


IDLE_S = 0.25
"""A stream that nothing was committed to for so long leaves the link to repairs."""

LATE_SHARE = 0.25
"""Part of its rate that a busy stream spends on members that nobody waits for …"""

LATE_BYTES_PER_S_MIN = 1e6
"""… and at least this; …"""

LATE_BURST_BYTES = 256 << 10
"""… so much at once."""

PARTS_PAYLOAD_BYTES_MIN = 256
"""From this size on a payload is kept as the application gave it; shorter ones take
more memory as objects than in a packet."""


# What becomes of packets that are committed


class Open(msgspec.Struct, frozen=True):
    """The view is the newest: packets are added, sent, and kept until they are acknowledged."""


class Closing(msgspec.Struct, frozen=True):
    """A newer view took over, or this node sends there no longer: what was committed is
    finished. Only the rest of what was begun is added."""


class Abandoned(msgspec.Struct, frozen=True):
    """Nobody is left to hear it: nothing more is sent on it, and nobody is owed anything."""


class GivenUp(msgspec.Struct, frozen=True):
    """Members that live did not acknowledge it in time, and may lack some of it."""

    unacknowledged: int
    """How many packets were dropped."""


State = Open | Closing | Abandoned | GivenUp
OPEN = Open()
CLOSING = Closing()
ABANDONED = Abandoned()


class SendStream:
    """Packets of this node into one region view."""

    def __init__(
        self,
        *,
        cluster: int,
        node: int,
        region: int,
        view: int,
        members: tuple[int, ...],
        destinations: tuple[Address, ...],
        everybody: tuple[Address, ...] = (),
        config: EngineConfig,
        counters: Counters,
        kept: Budget,
        disk: DiskPort | None = None,
        length: int = 0,
    ) -> None:
        """``kept`` bounds what this node keeps for members that are not waited for; what
        does not fit goes to ``disk``, if there is one. ``length``: how many packets this node
        sent into the view before it left it; all are delivered."""
        self.region = region
        self.view = view
        self.members = members
        self.key = stream_key(cluster, node, region, view)
        self.destinations = destinations
        """The region's multicast address, or the members who hand packets on."""
        self.everybody = everybody or destinations
        """The multicast address, or every other member's own: whoever hands packets on
        may be who has lost them."""
        self.state: State = OPEN
        """Acknowledgements and resends do not ask for it: a stream that has ended has no
        packets left."""
        self.next_sequence = length
        """How many packets were committed; the first is a START, which says which older
        streams come before."""
        self.sampled = -1
        """The last packet whose departure was recorded."""
        self.low = length
        """All members that are waited for have everything below: it is not in the window."""
        self.safe = length
        """All members have everything below. Packets from here to ``low`` are set aside for
        those who are not waited for."""
        self.laggard = 0
        """Who of those has the least; 0: all are waited for."""
        self.packets = SentPackets(kept, disk)
        """Never empty while ``safe`` is below ``next_sequence``."""
        self.flow = FlowController(
            window_initial=config.window_bytes_initial,
            window_max=config.window_bytes_max,
            packet_bytes=config.packet_bytes,
        )
        self.after: dict[SendStream, None] = {}
        """Streams whose groups moved here since: the next START names them."""
        self.before: dict[SendStream, None] = {}
        """Streams that its STARTs named, until all of them are delivered."""
        self.leader_heard_at = 0.0
        """When the region's leader acknowledged last, or when there was first something to."""
        self.waiting: dict[Lane, None] = {}
        """Lanes to tell when the flow opens."""
        self.slowest = 0
        self.token_s = 0.0
        self.probe_s = config.probe_s
        self.heard_at = 0.0
        self.progress_at = 0.0
        """When packets were last committed or acknowledged."""
        self.closed_at = 0.0
        """When it was last closed; for others its view may have ended then."""
        self.patience = LEAST
        """What the groups that it carries, or did, ask for at least."""
        self.hold_up = HoldUp()
        self._config = config
        self._counters = counters
        self._span_packets = max(64, config.span_bytes_max // config.packet_bytes)
        self._prefixes = {
            flags: encode_prefix(KIND_DATA, flags, self.key)
            for flags in (0, FLAG_SINGLE, FLAG_FRAGMENT, FLAG_START)
        }
        self._answers = Answers(len(members), has_multicast=len(self.everybody) == 1)
        self._resend = RangeSet()
        self._resend_rate = RatePolicy(config.resend_bytes_per_s, config.window_bytes_max)
        self._late_rate = RatePolicy(LATE_BYTES_PER_S_MIN, LATE_BURST_BYTES)
        self._resent_at: dict[int, tuple[float, float]] = {}
        """Packets resent: when, and how long not to do it again."""
        self._fan_out: list[Transmit] = []
        self._is_probing = False
        self._committed_at = -IDLE_S
        self._walked = 0

    # Committing

    def carry(self, behind: Behind) -> None:
        """A group with such a wish sends here from now on."""
        self.patience = self.patience.joined(Patience.of(behind))

    def is_open(self, now: float) -> bool:
        return self.flow.is_open(now) and self.next_sequence - self.low < self._span_packets

    def span_left(self) -> int:
        """How many packets may still be committed before the oldest unacknowledged one is."""
        return self._span_packets - (self.next_sequence - self.low)

    def commit(self, flags: int, parts: list[bytes], batch: int, now: float) -> bytes:
        """Number a packet, keep it, and return it."""
        sequence = self.next_sequence
        packet = b"".join([self._prefixes[flags], POSITION.pack(sequence, batch), *parts])
        self.next_sequence = sequence + 1
        if not self.packets:
            self.heard_at = self.leader_heard_at = now
        self.packets.keep(sequence, packet)
        self._committed_at = now
        if now >= self.flow.gauge.mark_at:
            self.flow.gauge.mark(sequence, now)
        self.flow.charge(len(packet), now)
        return packet

    def commit_run(
        self, group: int, first: int, fit: int, payloads: list[bytes], batch: int, now: float
    ) -> list[bytes]:
        """Pack equally long messages of one group, ``fit`` to a packet, and keep them.

        The same as ``commit`` for each packet, with everything that they share
        done once: where a packet holds one message, that halves its cost.
        """
        size = len(payloads[0])
        heads = [
            encode_run_head(min(fit, len(payloads) - start), size, group, first + start)
            for start in range(0, len(payloads), fit)
        ]
        return self._commit_chunks(FLAG_SINGLE, heads, fit, payloads, batch, now)

    def commit_mixed_run(
        self,
        groups: list[int],
        sequences: list[int],
        fit: int,
        payloads: list[bytes],
        batch: int,
        now: float,
    ) -> list[bytes]:
        """Like ``commit_run``, for messages of several groups."""
        size = len(payloads[0])
        heads = [
            encode_mixed_head(size, groups[start : start + fit], sequences[start : start + fit])
            for start in range(0, len(payloads), fit)
        ]
        return self._commit_chunks(0, heads, fit, payloads, batch, now)

    def _commit_chunks(
        self,
        flags: int,
        heads: list[bytes],
        fit: int,
        payloads: list[bytes],
        batch: int,
        now: float,
    ) -> list[bytes]:
        if not self.packets:
            self.heard_at = self.leader_heard_at = now
        prefix = self._prefixes[flags]
        pack = POSITION.pack
        kept = self.packets
        sequence = self.next_sequence
        if now >= self.flow.gauge.mark_at:
            self.flow.gauge.mark(sequence, now)
        is_large = len(payloads[0]) >= PARTS_PAYLOAD_BYTES_MIN
        made = []
        start = total = 0
        for head in heads:
            parts = [prefix + pack(sequence, batch) + head, *payloads[start : start + fit]]
            packet = b"".join(parts)
            if is_large:
                kept.keep_parts(sequence, len(packet), parts)
            else:
                kept.keep(sequence, packet)
            made.append(packet)
            total += len(packet)
            start += fit
            sequence += 1
        self.next_sequence = sequence
        self._committed_at = now
        self.flow.charge(total, now)
        return made

    # Acknowledgement and repair

    def handle_ack(
        self, low: int, missing: RangeSet, limit: int, *, safe: int = 0, laggard: int = 0
    ) -> int:
        """Let go what the region has; return how many bytes left the window.

        ``laggard`` is a member that is not waited for, 0 if all are; ``safe``: what it has.
        """
        packets = self.packets
        held = packets.window_count()
        if laggard and self.patience.waits_for_silent:
            # What it lacks counts as not acknowledged, though nobody else waits for it.
            low, limit, laggard = safe, safe, 0
        low = min(low, self.next_sequence)
        self.laggard = laggard
        if laggard:
            let_go = packets.set_aside
            safe = min(safe, low)
            freed = packets.set_aside(self.low, low) + packets.forget(self.safe, safe)
        else:
            let_go = packets.forget_ahead
            safe = low
            freed = packets.forget(self.safe, low)
        self.safe = max(self.safe, safe)
        self.low = max(self.low, low)
        limit = min(limit, self.next_sequence)
        if limit > self.low and missing.range_count() <= 256:
            # What lies before was looked at already; its holes go with ``low``.
            start = max(self.low, self._walked)
            self._walked = max(self._walked, limit)
            for first, stop in [*missing, (limit, limit)]:
                freed += let_go(start, min(first, limit))
                start = max(start, stop)
        if laggard:
            most = self.patience.keep_bytes_max
            if most is None:
                most = self._config.keep_bytes_max
                packets.spill_oldest_aside(most)
            self._counters.absent_dropped += packets.drop_oldest_aside(most)
        if freed:
            self.flow.release(freed)
            self._resend.discard_below(self.safe)
            # The span is bytes: at a light load packets are small, and a thousand of
            # them would stop the stream a second after one receiver froze.
            usual = freed // (held - packets.window_count())
            span = self._config.span_bytes_max // max(1, usual)
            self._span_packets = max(64, min(SPAN_PACKETS_MAX, span))
        if not packets:
            self._resent_at.clear()
        elif len(self._resent_at) > 4096:
            self._resent_at = {s: at for s, at in self._resent_at.items() if s in packets}
        return freed

    def resend(self, ranges: RangeSet, now: float) -> int:
        """Queue packets that nobody in the region holds; return how many.

        Past the stream's rate nothing is queued: who lacks it asks again.
        """
        count = 0
        rate = self._resend_rate
        retry_s = self._config.request_retry_s
        for sequence in ranges.values(LOOKED_UP_MAX):
            if sequence not in self.packets:
                continue
            at, pause = self._resent_at.get(sequence, (-1.0, 0.0))
            if at + pause <= now:
                if not rate.is_open(now):
                    self._counters.resends_refused += 1
                    break
                rate.charge(self.packets.size_of(sequence), now)
                # Each time later: a member without room for it gains nothing.
                self._resent_at[sequence] = (now, min(2 * pause or retry_s, RESEND_PAUSE_S_MAX))
                self._resend.add(sequence, sequence + 1)
                self._answers.note_sent_to_all(RangeSet([(sequence, sequence + 1)]), now)
                count += 1
        return count

    def gone_among(self, ranges: RangeSet) -> RangeSet:
        """Return those packets that were committed and are no longer kept."""
        gone = ranges.clamped(0, self.safe)
        for sequence in ranges.clamped(self.safe, self.next_sequence).values(LOOKED_UP_MAX):
            if sequence not in self.packets:
                gone.add(sequence, sequence + 1)
        return gone

    def answer(self, peer: int, ranges: RangeSet, now: float) -> tuple[RangeSet, RangeSet]:
        """A member asks for packets: return what it alone is sent, and what all are.

        The latter is queued.
        """
        alone, for_all = self._answers.choose(peer, self.admit(ranges, now), now)
        self._resend = self._resend.union(for_all) if for_all else self._resend
        return alone, for_all

    def admit(self, ranges: RangeSet, now: float) -> RangeSet:
        """Return which of some packets are kept and may be sent again now.

        Those below ``low`` only members lack whom nobody waits for. While messages are sent, or
        wait for the window, they get a share of the link, and ask again for the rest: repairs
        leave before data, and would take all of it.
        """
        held = RangeSet((s, s + 1) for s in ranges.values(LOOKED_UP_MAX) if s in self.packets)
        is_busy = bool(self.waiting) or now - self._committed_at <= IDLE_S
        is_idle = not is_busy or not isinstance(self.state, Open)
        if is_idle or not held or held.first() >= self.low:
            return held
        rate = self._late_rate
        rate.bytes_per_s = max(LATE_BYTES_PER_S_MIN, LATE_SHARE * self.flow.acked_bytes_per_s)
        admitted = held.clamped(self.low, self.next_sequence)
        for sequence in held.clamped(0, self.low).values(LOOKED_UP_MAX):
            if not rate.is_open(now):
                self._counters.resends_refused += 1
                break
            rate.charge(self.packets.size_of(sequence), now)
            admitted.add(sequence, sequence + 1)
        return admitted

    def probe(self, now: float) -> bool:
        """Repeat the newest packet, because no acknowledgement came."""
        if not self.packets:
            return False
        self._is_probing = True
        config = self._config
        is_closing = isinstance(self.state, Closing)
        # Members forget views: who can be heard again must be heard before that.
        most_s = config.closing_probe_s_max() if is_closing else config.probe_s_max
        self.probe_s = min(self.probe_s * 2, most_s)
        self.heard_at = now
        self._counters.probes += 1
        return True

    def poll(self, now: float) -> Transmit | None:
        """Feed of resent packets, made when they can leave."""
        if self._fan_out:
            return self._fan_out.pop()
        if self._is_probing:
            self._is_probing = False
            if self.packets:
                # Sent as data, not as a repair: a receiver that has it already
                # takes it as a question.
                return self._to_all(self.packets.newest())
        for sequence in self._resend.values(RESENDS_AT_ONCE):
            self._resend.discard(sequence, sequence + 1)
            packet = self.packets.get(sequence)
            if packet is None:
                continue
            self._counters.resent += 1
            return self._to_all(as_repair(packet))
        return None

    def _to_all(self, packet: bytes) -> Transmit:
        self._fan_out = [Transmit(d, [packet]) for d in self.everybody[1:]]
        return Transmit(self.everybody[0], [packet])

    # Endings

    def close(self, now: float) -> None:
        """Packets go to another stream from now on: finish what was committed."""
        assert isinstance(self.state, Open)
        self.state = CLOSING
        self.closed_at = now

    def reopen(self) -> None:
        """This node is back in the view: the numbers go on."""
        assert not isinstance(self.state, Open | GivenUp)
        self.state = OPEN

    def abandon(self) -> None:
        """Nobody is left to acknowledge: forget everything."""
        self.state = ABANDONED
        self._forget()

    def give_up(self) -> None:
        """Members that live stay silent: forget what they may lack, and that they may."""
        assert isinstance(self.state, Closing)
        self.state = GivenUp(len(self.packets))
        self._forget()

    def _forget(self) -> None:
        self.handle_ack(self.next_sequence, RangeSet(), 0)

    def has_ended(self) -> bool:
        """Whether nothing more is sent on it, whatever was begun."""
        return isinstance(self.state, Abandoned | GivenUp)
