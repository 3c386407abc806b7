"""One sender's stream into one region view, as one member receives it.

The stream is a sequence of packets numbered from 0. It is delivered in order;
packets that arrive ahead of a hole wait (``ahead``). What the member lacks is
kept as ranges, which the recovery agents compare and repair; ``lost`` says what
of it to ask for, and ``copies`` what the member keeps for others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from quicksilver.multicast.receiving.ahead import PER_PACKET_BYTES, Ahead, overhead_of
from quicksilver.multicast.receiving.assembly import ROOM, Assembly, bytes_for
from quicksilver.multicast.receiving.copies import Copies
from quicksilver.multicast.receiving.lost import REORDERED_S, LostPackets, find_askable, find_unkept
from quicksilver.multicast.receiving.runs import parse_run
from quicksilver.multicast.receiving.states import (
    IN_ORDER,
    NEWS,
    Ending,
    Holding,
    InOrder,
    Over,
    State,
)
from quicksilver.stdx.ranges import RangeSet
from quicksilver.trace.records import SAMPLE_EVERY
from quicksilver.wire.ids import Address, NodeId
from quicksilver.wire.packets import (
    KIND_REPAIR,
    POSITION,
    SEQUENCE_MAX,
    Body,
    Fragment,
    Messages,
    parse_body,
)

if TYPE_CHECKING:
    from quicksilver.multicast.receiving.region import Region

SAMPLE_MASK = SAMPLE_EVERY - 1
GAP_MAX = 1 << 24
"""Packets between what is delivered and what is believed to exist; a sender's span
is thousands of times smaller, so more comes from a peer that lies, or from a bug."""


class ReceiveStream:
    """Order, holes and copies of one stream."""

    __slots__ = (
        "_ahead",
        "_assembly",
        "_parse_body",
        "copies",
        "high",
        "key",
        "lost",
        "low",
        "missing",
        "origin",
        "overtaken_at",
        "quiet_rounds",
        "region",
        "sender",
        "sender_failed",
        "source",
        "state",
        "tail_claim",
        "tail_claimed_at",
        "usual_bytes",
        "waiters",
    )

    def __init__(
        self,
        key: bytes,
        sender: NodeId,
        region: Region,
        source: Address | None = None,
        parse_body: Callable[[bytes, int, NodeId, int], Body | None] = parse_body,
    ) -> None:
        self.key = key
        self._parse_body = parse_body
        self.source = self.origin = source
        """Where its data comes from: the sender, or the member that hands it on. What the
        sender sends again comes from ``origin``, the sender itself."""
        self.sender = sender
        self.region = region
        self.low = 0
        """Everything below has arrived."""
        self.high = 0
        """One past the newest packet known to exist; never below ``low``."""
        self.missing = RangeSet()
        """The holes between ``low`` and ``high``."""
        self.state: State = IN_ORDER
        self.copies = Copies(region.copies, region.copies_for_absent, region.counters)
        self.lost = LostPackets()
        self.overtaken_at: float | None = None
        """When the sender said that it does not wait for this node; None: it does."""
        self.quiet_rounds = 1
        """Token rounds since the last arrival in which all was stable."""
        self.sender_failed = False
        self.tail_claim = 0
        self.tail_claimed_at = 0.0
        self.waiters: list[tuple[int, ReceiveStream]] = []
        """Younger streams that wait until this one has delivered a number of packets."""
        self._ahead = Ahead(region.waiting)
        self.usual_bytes = PER_PACKET_BYTES + 1500
        """What a packet takes that waits for an earlier one."""
        self._assembly: Assembly | None = None
        """The large message under way; a sender has one at a time in a stream."""

    # Packets

    def has(self, sequence: int) -> bool:
        """Whether a packet has arrived."""
        return sequence < self.low or sequence in self._ahead.packets

    def handle_packet(self, data: bytes, now: float) -> None:
        """Take one data or repair packet; ``data`` has a whole header."""
        sequence, batch = POSITION.unpack_from(data, 20)
        region = self.region
        if sequence != self.low or self.state is not IN_ORDER:
            self._handle_otherwise(sequence, batch, data, now)
            return
        body = self._parse_body(data, data[2], self.sender, batch)
        if body is None:
            region.counters.malformed += 1
            return
        is_messages = type(body) is Messages
        if not is_messages and not self._has_room(body):
            self._hold_for_room()
            self._handle_otherwise(sequence, batch, data, now)
            return
        # The fast path: the next packet, nothing missing, nothing waiting.
        # Alone it takes 3.3 µs a packet, scheduler included; 59 messages of
        # 1000 bytes take another 17, most of it the slicing of payloads.
        self.low = low = sequence + 1
        if low > self.high:
            self.high = low
        else:
            self._repaired(sequence, data, now)
        self._took(sequence, data, now)
        counters = region.counters
        counters.delivered_packets += 1
        counters.delivered_bytes += len(data)
        if is_messages:
            region.deliver(body)  # type: ignore[arg-type]  # it is Messages
        else:
            self._deliver(body)
        if self._ahead.packets:
            self._advance()
        if self.waiters:
            self._release_waiters()

    def handle_run(self, packets: list[bytes], now: float) -> bool:
        """Take packets of this stream that arrived together; False: one by one, please.

        The fast path for packets of one frame each: if they are the next ones,
        with messages of one group, all bookkeeping is done once and the
        application gets them in one piece.
        """
        low = self.low
        count = len(packets)
        if self.state is not IN_ORDER or self._ahead.packets or self.high != low:
            return False
        messages = parse_run(packets, low, self.sender, self._parse_body)
        if messages is None:
            return False
        self.low = self.high = low + count
        if self.quiet_rounds:
            self.become_active(now)
        region = self.region
        size = sum(map(len, packets))
        keep = self.copies.keep
        keeps_all = region.caches_everything
        for sequence, packet in enumerate(packets, low):
            if keeps_all or region.is_mine_to_keep(sequence):
                keep(sequence, packet)
        region.token_due_bytes -= size
        if region.token_due_bytes <= 0:
            region.handle_bytes_due(now)
        sampled = low + (-low & SAMPLE_MASK)
        if sampled < low + count:
            region.handle_sample(self, sampled, now)
        region.counters.delivered_packets += count
        region.counters.delivered_bytes += size
        region.deliver(messages)
        if self.waiters:
            self._release_waiters()
        return True

    def _handle_otherwise(self, sequence: int, batch: int, data: bytes, now: float) -> None:
        """Take a packet that is not simply the next one to deliver."""
        region = self.region
        if sequence >= SEQUENCE_MAX:
            region.counters.malformed += 1
            return
        if self.has(sequence) or 0 <= self.end <= sequence:
            region.counters.duplicates += 1
            if data[1] != KIND_REPAIR:
                # The sender repeats itself: it has not heard our acknowledgement.
                self.quiet_rounds = 0
                self.region.handle_repeat(self, now)
            return
        if sequence - self.low > GAP_MAX:
            # No sender runs that far ahead of what it was acknowledged.
            region.counters.rejected += 1
            return
        body = self._parse_body(data, data[2], self.sender, batch)
        if body is None:
            region.counters.malformed += 1
            return
        size = len(data) + overhead_of(body)
        self.usual_bytes = size
        is_held = isinstance(self.state, Holding)
        is_next = sequence == self.low and not is_held
        distance_bytes = (sequence - self.low) * size
        if not is_next and not region.waiting.takes(size, distance_bytes, is_held=is_held):
            region.counters.ahead_dropped += 1
            self.note_high(sequence + 1)
            if self.quiet_rounds:
                # What is missing before it has to be asked for all the same.
                self.become_active(now)
            return
        if sequence >= self.high:
            if sequence > self.high:
                self.missing.add(self.high, sequence)
                region.counters.missing += sequence - self.high
                self.lost.handle_overtaken(sequence, now + REORDERED_S)
                region.handle_hole(now + REORDERED_S)
            self.high = sequence + 1
        else:
            self._repaired(sequence, data, now)
        self._ahead.add(sequence, body, size)
        self._took(sequence, data, now)
        if sequence == self.low:
            self._advance()

    def _took(self, sequence: int, data: bytes, now: float) -> None:
        """Count a packet that was accepted, and keep a copy where it is ours to keep."""
        region = self.region
        if self.quiet_rounds:
            self.become_active(now)
        if region.caches_everything or region.is_mine_to_keep(sequence):
            self.copies.keep(sequence, data)
        region.token_due_bytes -= len(data)
        if region.token_due_bytes <= 0:
            region.handle_bytes_due(now)
        if not sequence & SAMPLE_MASK:
            region.handle_sample(self, sequence, now)

    def _repaired(self, sequence: int, data: bytes, now: float) -> None:
        self.missing.discard(sequence, sequence + 1)
        request = self.lost.requested.pop(sequence, None)
        if data[1] == KIND_REPAIR:
            self.region.counters.repairs_received += 1
            if request is not None and request.tries == 1:
                self.region.repair_patience.note(now - request.asked_at, now)

    def _advance(self) -> None:
        """Deliver what waited for the packet that has just arrived."""
        ahead = self._ahead.packets
        while (waiting := ahead.pop(self.low, None)) is not None:
            self.low += 1
            state = self.state
            if isinstance(state, Holding):
                state.held.append(waiting)
                continue
            if not self._has_room(waiting[0]):
                self._hold_for_room().held.append(waiting)
                continue
            if isinstance(state, Ending) and self.low >= state.end:
                self.state = Over(state.end)
            self._deliver_waiting(*waiting)
        self._ahead.count_user()
        if self.waiters:
            self._release_waiters()

    def become_active(self, now: float) -> None:
        """Something happened: the stream belongs into the next tokens."""
        self.quiet_rounds = 0
        self.region.handle_activity(self, now)

    # Delivery

    def _deliver_waiting(self, body: Body, size: int) -> None:
        """Deliver a packet that had to wait, and give back the ``size`` charged for it."""
        region = self.region
        region.waiting.used -= size
        region.counters.delivered_packets += 1
        region.counters.delivered_bytes += size - overhead_of(body)
        self._deliver(body)

    def _deliver(self, body: Body) -> None:
        if isinstance(body, Messages):
            self.region.deliver(body)
        elif isinstance(body, Fragment):
            self._assemble(body)
        else:
            self.region.handle_start(self, body)

    # Large messages

    def _has_room(self, body: Body) -> bool:
        """Whether a packet can be delivered: a large message begins only where it finds room."""
        if type(body) is not Fragment or body.offset:
            return True
        if self._assembly is not None:
            # No honest sender begins another one.
            self.region.counters.malformed += 1
            self.drop_assembly()
        if not self.region.assembly.admits(self, body.total):
            return False
        self._assembly = Assembly(body)
        return True

    def _hold_for_room(self) -> Holding:
        """Hold packets until there is room for the large message among them."""
        self.region.counters.assembly_waits += 1
        state = Holding(end=self.end)
        state.barriers.add(ROOM)
        self.state = state
        return state

    def hold_for_news(self) -> None:
        """Hold packets until it is known which views come before them."""
        if not self.is_broken():
            if not isinstance(self.state, Holding):
                self.state = Holding(end=self.end)
            self.state.barriers.add(NEWS)

    def awaits_news(self) -> bool:
        return isinstance(self.state, Holding) and NEWS in self.state.barriers

    def handle_news(self) -> None:
        """It is known which views come before packets that are held."""
        self._handle_delivered(NEWS)

    def handle_room(self) -> None:
        """There is room for the large message that packets are held for."""
        self._handle_delivered(ROOM)

    def _assemble(self, piece: Fragment) -> None:
        assembly = self._assembly
        if assembly is None or not assembly.add(piece):
            self.region.counters.malformed += 1
            return
        if assembly.is_whole():
            payload = assembly.payload()
            self.region.deliver(
                Messages(self.sender, piece.batch, [payload], piece.group, piece.sequence)
            )
            self.drop_assembly()

    def drop_assembly(self) -> None:
        """The large message is delivered, or never will be."""
        if self._assembly is not None:
            self._assembly = None
            self.region.assembly.release(self)

    def assembly_bytes(self) -> int:
        """Return what the large message under way is charged."""
        return 0 if self._assembly is None else bytes_for(self._assembly.total)

    def assembled_bytes(self) -> int:
        """Return how much has come of the large message under way."""
        return 0 if self._assembly is None else len(self._assembly)

    # Streams that come before

    def wait_for(self, older: ReceiveStream, packets: int) -> None:
        """Hold deliveries until ``older`` has delivered that many packets."""
        older.note_high(packets)
        if self.is_broken():
            return
        if older.is_broken():
            self.break_off()
            return
        if older.delivered() >= packets:
            return
        if older.is_over():
            if older.sender_failed:
                self.break_off()
            return
        if not isinstance(self.state, Holding):
            self.state = Holding(end=self.end)
        self.state.barriers.add(older.key)
        older.waiters.append((packets, self))

    def delivered(self) -> int:
        """How many packets the application has been given."""
        return self.low - len(self.state.held) if isinstance(self.state, Holding) else self.low

    def _release_waiters(self) -> None:
        is_over = self.is_over()
        delivered = self.delivered()
        released = [(n, s) for n, s in self.waiters if is_over or delivered >= n]
        if released:
            self.waiters = [(n, s) for n, s in self.waiters if not is_over and delivered < n]
            for packets, stream in released:
                if self.is_broken() or (self.sender_failed and delivered < packets):
                    # The stream broke off, as a dead sender's may: what comes later
                    # comes after a gap that nobody can fill.
                    stream.break_off()
                else:
                    stream._handle_delivered(self.key)

    def _handle_delivered(self, older: bytes) -> None:
        """An older stream is delivered: go on with what was held, if it was the last."""
        state = self.state
        if not isinstance(state, Holding):
            return
        state.barriers.discard(older)
        while state.held and not state.barriers:
            # A START among them may name other streams to wait for.
            if not self._has_room(state.held[0][0]):
                state.barriers.add(ROOM)
                break
            self._deliver_waiting(*state.held.popleft())
        if self.state is state and not state.barriers:
            self._end_holding(state)
        if self.waiters:
            self._release_waiters()

    def _end_holding(self, state: Holding) -> None:
        if state.end < 0:
            self.state = IN_ORDER
        else:
            self.state = Over(state.end) if self.low >= state.end else Ending(state.end)

    # What the recovery agents say

    def askable(self) -> RangeSet:
        """Return what is missing and could be taken: the next packets, and what fits."""
        is_held = isinstance(self.state, Holding)
        return find_askable(
            self.missing,
            self.low,
            self.region.waiting.takeable(self.usual_bytes, is_held=is_held),
            is_held=is_held,
            is_kept_by_all=self.region.caches_everything,
        )

    def is_stuck(self, seconds: float, now: float) -> bool:
        """Whether the next packet is missing and nothing helped for so long."""
        return self.lost.is_stuck(self.low, seconds, now, is_missing=self._is_next_missing())

    def is_lost(self, gone: RangeSet, now: float) -> bool:
        """The sender no longer has some packets; return whether the next one is lost for good.

        A request may have been old, and the answer be about what has come since: only what
        is still missing counts.
        """
        is_next_gone = self._is_next_missing() and self.low in gone
        if not is_next_gone or self.sender_failed or self.is_over():
            return False
        return self.lost.is_gone(self.low, now)

    def _is_next_missing(self) -> bool:
        return bool(self.missing) and self.missing.first() == self.low

    def note_high(self, high: int) -> None:
        """Packets below ``high`` exist, and those not here are lost, not late."""
        high = min(high, self.low + GAP_MAX)
        if (end := self.end) >= 0:
            high = min(high, end)
        if high > self.high:
            self.missing.add(self.high, high)
            self.region.counters.missing += high - self.high
            self.high = self.lost.below = high

    def note_extent(self, packets: int) -> None:
        """The sender says how long its stream is: forget what cannot exist."""
        if packets < self.high:
            self.missing.discard(packets, self.high)
            self.lost.forget_requests_from(packets)
            self.high = max(packets, self.low)
            self._drop_from(max(packets, self.low))
        self.tail_claim = min(self.tail_claim, packets)

    def cut_at(self, sequence: int) -> None:
        """End a dead sender's stream before a packet that nobody holds.

        What others hold of the packets before is still owed. Should one of those be
        lost as well, the stream ends earlier.
        """
        end = max(sequence, self.low)
        if self.end < 0 or end < self.end:
            self._end_at(end, is_broken=False)

    def break_off(self) -> None:
        """End the stream before what is held: something before it is lost for good."""
        if isinstance(self.state, Holding):
            self.region.counters.lost_to_crash += len(self.state.held)
            self._drop_held(self.state)
            self._end_holding(self.state)
        self._end_at(self.low, is_broken=True)
        self._assembly = None
        self.region.assembly.forget(self)

    def _end_at(self, end: int, *, is_broken: bool) -> None:
        self.region.counters.lost_to_crash += max(0, self.high - end)
        self.note_high(end)
        if isinstance(self.state, Holding):
            self.state.end = end
        else:
            self.state = Over(end, is_broken) if self.low >= end else Ending(end)
        if self.high > end:
            self.missing.discard(end, self.high)
            self.high = end
        self.lost.forget_requests_from(end)
        self._drop_from(end)
        self._release_waiters()

    @property
    def end(self) -> int:
        """Where a dead sender's stream ends; -1 while it does not."""
        state = self.state
        return -1 if isinstance(state, InOrder) else state.end

    def is_over(self) -> bool:
        """Everything there is to come has come, though it may still be held."""
        return 0 <= self.end <= self.low

    def is_broken(self) -> bool:
        """Whether packets that were held will never be delivered."""
        return isinstance(self.state, Over) and self.state.is_broken

    def is_held(self) -> bool:
        """Whether packets wait for older streams."""
        return isinstance(self.state, Holding)

    def _drop_held(self, state: Holding) -> None:
        self.region.waiting.used -= sum(size for _, size in state.held)
        state.held.clear()

    def _drop_from(self, sequence: int) -> None:
        """Forget packets that cannot exist, or that nobody will deliver."""
        self._ahead.drop_from(sequence)
        self.copies.drop_from(sequence)

    def close(self) -> None:
        """Free all copies; the region view is over."""
        self._drop_from(0)
        if isinstance(self.state, Holding):
            self._drop_held(self.state)
        self.state = Over(self.low)
        self._assembly = None
        self.region.assembly.forget(self)
        self._release_waiters()

    # Getters

    def unkept(self) -> tuple[RangeSet, int]:
        """Return what is missing and this node's to keep, and up to where that is exact."""
        region = self.region
        if region.caches_everything or not self.missing:
            return RangeSet(), self.high
        return find_unkept(self.missing, region.is_mine_to_keep), self.high

    def waiting_bytes(self) -> int:
        """What packets that wait for an earlier one are charged, or for an older stream."""
        held = self.state.held if isinstance(self.state, Holding) else ()
        return sum(size for _, size in (*self._ahead.packets.values(), *held))

    def is_owed(self) -> bool:
        """Packets are missing, or the rest of a large message, and the sender lives."""
        is_short = bool(self.missing) or self._assembly is not None
        return is_short and not self.sender_failed and not self.is_over()

    def is_settled(self) -> bool:
        """Nothing is missing here and every member is known to have it all."""
        return self.low == self.high and self.copies.stable >= self.high
