"""Lanes: messages on their way from the application into streams.

A lane is the queue between the application and the streams: messages wait there
unpacked and uncommitted until the socket polls; then as many as fit are committed to
the current views and packed, once for every region (dissertation 4.2.1, 4.2.2).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from quicksilver.core.ports import Transmit
from quicksilver.multicast.environment import Environment
from quicksilver.multicast.sending.commitments import Commitments
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.hybrid import commit_hybrid, hybrid_bytes
from quicksilver.multicast.sending.large import LargeMessage
from quicksilver.multicast.sending.outbox import Outbox
from quicksilver.multicast.sending.send_queue import SendQueue
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.wire.packets import (
    FLAG_SINGLE,
    FLAG_START,
    MESSAGE_BYTES_MAX,
    MESSAGES_PER_PACKET_MAX,
    OVERHEAD_MIXED,
    OVERHEAD_SINGLE,
    PER_MESSAGE_MIXED,
    PER_MESSAGE_SIZE,
    START_ENTRIES_MAX,
    Messages,
    encode_mixed,
    encode_single,
    encode_start,
)

BURST_BYTES = 60_000
"""Packets built one by one in one poll."""

Source = Callable[[], bytes | bytearray | memoryview | None]
"""Gives the next message, or None when there is no other; on the core thread."""


class Lane(SendQueue):
    """Messages that wait for the same regions, in the order they were sent."""

    outbox: Outbox[GroupSender]

    def __init__(self, environment: Environment, commitments: Commitments) -> None:
        # No more than the longest message, so that one with enough room is not too long.
        super().__init__(min(environment.config.queue_bytes_max, MESSAGE_BYTES_MAX))
        self.pulled_messages = 0
        self.is_mixed = False
        """True when its groups map to different sets of regions."""
        self.has_echo = False
        self.sources: deque[tuple[GroupSender, Source]] = deque()
        """Applications that are asked for the next message just before it leaves."""
        self._env = environment
        self._commitments = commitments
        self._ready = commitments.ready
        self.large: LargeMessage | None = None
        """A message of which pieces were committed and pieces are still to come."""
        self._held_up: dict[Lane, None] = {}
        """Lanes whose large messages wait for the end of this one's."""
        self._fit = 64
        self._batch = 0
        """What the packets of this poll are committed to."""

    def poll(self, now: float) -> Transmit | None:
        """Commit and pack what fits, or None when blocked or empty."""
        if self._ready:
            return self._ready.popleft()
        if self.large is not None:
            return self._poll_fragments(now)
        while True:
            if self.sources:
                self._ask_sources(now)
            if not self.outbox:
                self.outbox.forget_size()
                return None
            head = self.outbox.head()
            streams = head.streams
            self._batch = self._env.batch if head.batch is None else head.batch
            if streams is None:
                self.is_blocked = True
                return None
            if streams:
                break
            self._drop_unheard()
            if self.is_blocked:
                return None
        if not self._all_open(streams, now):
            return None
        packets = self._pack(streams, now)
        if self.on_room:
            self.tell_room()
        return packets

    def is_empty(self) -> bool:
        """True when nothing waits here and nothing is half sent."""
        return not self.outbox and self.large is None

    def fragments_left(self, stream: SendStream) -> int:
        """How many more packets a large message will put on a stream."""
        job = self.large
        return 0 if job is None else job.pieces_left(stream)

    def forget_streams(self) -> None:
        """This incarnation is over: what was not sent whole is sent by the next one."""
        self._ready.clear()
        job = self._end_large()
        if job is not None:
            # Taken once more when it is sent anew: whoever flushes counts what was taken.
            self._account(-1, -len(job.payload), None)
            self.outbox.is_uniform = False
            self.outbox.size = len(job.payload)
            self.outbox.put_back([job.group], [job.payload])

    def send_again(self, waited: list[tuple[GroupSender, bytes]]) -> None:
        """Messages that had waited for members go before all that is queued."""
        outbox = self.outbox
        payloads = [payload for _, payload in waited]
        outbox.is_uniform = False
        outbox.size = len(payloads[-1])
        outbox.put_back([group for group, _ in waited], payloads)
        size = sum(map(len, payloads))
        self.room -= size

    def put_first(self, group: GroupSender, payloads: list[bytes]) -> None:
        """Queue messages before all that wait, whatever room there is.

        Only from within an event: nothing of a new view has left then.
        """
        self.outbox.put_first(group, payloads)
        size = sum(map(len, payloads))
        self.room -= size

    def _all_open(self, streams: tuple[SendStream, ...], now: float) -> bool:
        for stream in streams:
            if not stream.is_open(now):
                stream.waiting[self] = None
                self.is_blocked = True
                return False
        return True

    def held_bytes(self) -> int:
        """Return how much waits here, and how much of a large message is under way."""
        return self.queued_bytes() + (0 if self.large is None else len(self.large.payload))

    def held_bytes_max(self) -> int:
        """Return what that never exceeds: whoever waits for room has queued one message."""
        return self.room_max + 2 * MESSAGE_BYTES_MAX

    def _ask_sources(self, now: float) -> None:
        """Ask applications for about as much as the next poll packs, if it can leave.

        And no more, as far as the next message is as long as the last: otherwise every
        other packet carried a single message.
        """
        sources = self.sources
        while sources:
            group, source = sources[0]
            streams = group.streams
            if not streams or not self._all_open(streams, now):
                return
            packets = self._packets_asked(streams)
            room = packets * self._env.config.packet_bytes - self.queued_bytes()
            count = packets * self._fit - self.outbox.count()
            if room <= 0 or count <= 0:
                return
            is_only = len(sources) == 1
            # Several are asked in turn, for one message each.
            payloads, is_even, is_over = self._ask(source, room, count if is_only else 1)
            if payloads:
                self.outbox.put_all(group, payloads, is_even=is_even)
                asked = len(payloads[0]) * len(payloads) if is_even else sum(map(len, payloads))
                self.room -= asked
            if is_over:
                sources.popleft()
            elif is_only:
                return
            else:
                sources.rotate(-1)

    def _packets_asked(self, streams: tuple[SendStream, ...]) -> int:
        """Return how many packets one poll can make for these streams."""
        flow = streams[0].flow
        if len(streams) > 1:
            return 1
        left = flow.window.window_bytes - flow.window.pending_bytes
        return max(1, min(left, flow.run_bytes) // self._env.config.packet_bytes)

    def _ask(self, source: Source, room: int, count: int) -> tuple[list[bytes], bool, bool]:
        """Return messages, whether all are equally long, and whether no more will come."""
        payloads: list[bytes] = []
        is_even = True
        usual = -1
        for _ in range(count):
            try:
                payload = source()
                if payload is not None and type(payload) is not bytes:
                    payload = bytes(memoryview(payload))
            except Exception:  # noqa: BLE001  # the application's fault must not stop the core
                self._env.counters.source_failures += 1
                payload = None
            if payload is None:
                return payloads, is_even, True
            size = len(payload)
            if size != usual:
                if size > MESSAGE_BYTES_MAX:
                    self._env.counters.source_failures += 1
                    return payloads, is_even, True
                is_even = usual < 0
                usual = size
            payloads.append(payload)
            room -= size + PER_MESSAGE_MIXED + PER_MESSAGE_SIZE
            if room < size:
                break
        return payloads, is_even, False

    def _drop_unheard(self) -> None:
        """Nobody else is in the group, so its messages count as delivered.

        If not even this node is, they wait for a member, unless the choice is another.
        """
        outbox = self.outbox
        stranded: Counter[str] = Counter()
        unsent: Counter[str] = Counter()
        while outbox and (group := outbox.head()).streams == ():
            groups, payloads = outbox.take(1)
            if not payloads:
                break
            if group.is_empty and group.empty == "wait":
                if not self._commitments.set_aside(group, payloads[0]):
                    outbox.put_back(groups, payloads)
                    self.is_blocked = True
                    break
                self.room += len(payloads[0])
                self.pulled_messages += 1
                continue
            self._account(len(payloads), sum(map(len, payloads)), group)
            if group.is_empty and group.empty == "error":
                unsent[group.name] += len(payloads)
                continue
            if group.is_stranded:
                stranded[group.name] += len(payloads)
            if group.echo:
                self._echo_run(group, group.next_sequence, payloads)
            group.next_sequence += len(payloads)
        if self.on_room:
            self.tell_room()
        if stranded:
            self._commitments.handle_stranded(stranded)
        if unsent:
            self._commitments.handle_unsent(unsent)
        self._commitments.handle_unheard()

    def _account(self, count: int, size: int, group: GroupSender | None) -> None:
        """Count what was taken; of several groups (None) the tally is told elsewhere."""
        self.room += size
        self.pulled_messages += count
        counters = self._env.counters
        counters.sent_messages += count
        counters.sent_bytes += size
        if group is not None and self._env.tally is not None:
            self._env.tally.count_sent(group.id, count, size)

    # Packing

    def _pack(self, streams: tuple[SendStream, ...], now: float) -> Transmit | None:
        """Build up to a socket call's worth of packets for one set of regions."""
        env = self._env
        packet_bytes = env.config.packet_bytes
        burst = max(1, BURST_BYTES // packet_bytes)
        stream = streams[0]
        packets: list[bytes] = []
        for each in streams:
            if each.after or not each.next_sequence:
                openings = self._open(each, now)
                if each is stream and len(streams) == 1:
                    packets += openings
                else:
                    self._ready.extend(
                        Transmit(d, [p]) for p in openings for d in each.destinations
                    )
        if len(streams) == 1 and self._pack_run(stream, packets, now):
            burst = 0
        for _ in range(burst):
            head = self.outbox.head()
            built = self._build(packet_bytes - hybrid_bytes(head, streams, packet_bytes))
            if built is None:
                break
            flags, parts = built
            if len(streams) == 1:
                packets.append(stream.commit(flags, parts, self._batch, now))
            else:
                self._commit_to_all(streams, flags, parts, head, now)
            outbox = self.outbox
            if not outbox or outbox.head().streams is not streams:
                break
            if not self._all_open(streams, now):
                break
        for each in streams:
            self._commitments.handle_committed(each, now)
        if len(streams) == 1 and packets:
            env.counters.sent_packets += len(packets)
            for destination in stream.destinations[1:]:
                self._ready.append(Transmit(destination, packets))
            return Transmit(stream.destinations[0], packets)
        if self._ready:
            return self._ready.popleft()
        return self._poll_fragments(now) if self.large else None

    def _open(self, stream: SendStream, now: float) -> list[bytes]:
        """Return the packets that say after which older streams this one goes on."""
        older = self._commitments.predecessors(stream)
        stream.after.clear()
        parts = [older[i : i + START_ENTRIES_MAX] for i in range(0, len(older), START_ENTRIES_MAX)]
        return [
            stream.commit(FLAG_START, encode_start(part), self._batch, now)
            for part in parts or [[]]
        ]

    def _pack_run(self, stream: SendStream, packets: list[bytes], now: float) -> bool:
        """Pack a run of equally long messages; False if there is none.

        Everything that packets share is done once, and lengths are known without a look
        at each: a packet of 59 messages takes 5.3 µs alone, with that look 8.2.
        """
        outbox = self.outbox
        packet_bytes = self._env.config.packet_bytes
        window = stream.flow.window
        left = window.window_bytes - window.pending_bytes
        burst = max(1, min(left, stream.flow.run_bytes) // packet_bytes)
        burst = min(burst, stream.span_left())
        groups, payloads = outbox.take(self._fit * burst)
        size = len(payloads[0])
        is_run = outbox.is_uniform or list(map(len, payloads)).count(size) == len(payloads)
        group = groups[0] if groups else self._primary()
        is_single = groups is None or (groups[-1] is group and len(set(groups)) == 1)
        if is_single:
            fit = (packet_bytes - OVERHEAD_SINGLE) // max(1, size)
        else:
            fit = (packet_bytes - OVERHEAD_MIXED) // (size + PER_MESSAGE_MIXED)
        is_plain = not group.echo if is_single else not (self.has_echo or self.is_mixed)
        if not (is_run and is_plain and fit and size):
            outbox.put_back(groups, payloads)
            return False
        self._fit = fit = min(fit, MESSAGES_PER_PACKET_MAX)
        count = min(len(payloads), fit * burst)
        if count < len(payloads):
            outbox.put_back(groups and groups[count:], payloads[count:])
            del payloads[count:]
        self._account(count, count * size, group if is_single else None)
        batch = self._batch
        if is_single:
            first = group.next_sequence
            group.next_sequence = first + count
            packets += stream.commit_run(group.id, first, fit, payloads, batch, now)
            return True
        assert groups is not None
        sequences = []
        for group in groups[:count]:
            sequence = group.next_sequence
            sequences.append(sequence)
            group.next_sequence = sequence + 1
        ids = [group.id for group in groups[:count]]
        if self._env.tally is not None:
            self._env.tally.count_sent_mixed(ids, count * size)
        packets += stream.commit_mixed_run(ids, sequences, fit, payloads, batch, now)
        return True

    def _commit_to_all(
        self,
        streams: tuple[SendStream, ...],
        flags: int,
        parts: list[bytes],
        head: GroupSender,
        now: float,
    ) -> None:
        env = self._env
        if hybrid_bytes(head, streams, env.config.packet_bytes):
            # Whoever is in one of the regions is in this group, so messages of other groups
            # over the same regions may go along.
            assert head.hybrid is not None
            packet = commit_hybrid(env, streams, flags, parts, self._batch, now)
            self._ready.append(Transmit(head.hybrid, [packet]))
            return
        for stream in streams:
            packet = stream.commit(flags, parts, self._batch, now)
            env.counters.sent_packets += 1
            for destination in stream.destinations:
                self._ready.append(Transmit(destination, [packet]))

    def _build(self, packet_bytes: int) -> tuple[int, list[bytes]] | None:
        """Take messages for one packet; None when the next one needs fragments."""
        outbox = self.outbox
        groups, payloads = outbox.take(self._fit)
        if self.is_mixed and groups is not None:
            streams = groups[0].streams
            for place, group in enumerate(groups):
                if group.streams is not streams:
                    outbox.put_back(groups[place:], payloads[place:])
                    del groups[place:], payloads[place:]
                    break
        count = len(payloads)
        sizes = list(map(len, payloads))
        total = sum(sizes)
        room = packet_bytes - OVERHEAD_MIXED
        if total + count * (PER_MESSAGE_MIXED + PER_MESSAGE_SIZE) > room:
            count = self._cut(groups, sizes, room)
            keep = max(1, count)
            if keep < len(payloads):
                outbox.put_back(groups and groups[keep:], payloads[keep:])
                del payloads[keep:], sizes[keep:]
                if groups is not None:
                    del groups[keep:]
            if count == 0:
                group = groups[0] if groups else self._primary()
                if self._may_fragment(group):
                    self._begin_fragments(group, payloads[0])
                else:
                    outbox.put_back(groups, payloads)
                return None
            total = sum(sizes)
        average = total // count + (PER_MESSAGE_MIXED if groups else 0)
        self._fit = min(MESSAGES_PER_PACKET_MAX, max(1, room // max(1, average)))
        if groups is None or groups.count(groups[0]) == count:
            group = groups[0] if groups else self._primary()
            self._account(count, total, group)
            first = group.next_sequence
            group.next_sequence = first + count
            if group.echo:
                self._echo_run(group, first, payloads)
            return FLAG_SINGLE, encode_single(group.id, first, sizes, payloads)
        self._account(count, total, None)
        sequences = []
        for group in groups:
            sequence = group.next_sequence
            sequences.append(sequence)
            group.next_sequence = sequence + 1
        if self.has_echo:
            for group, sequence, payload in zip(groups, sequences, payloads, strict=True):
                if group.echo:
                    self._echo_run(group, sequence, [payload])
        ids = [group.id for group in groups]
        if self._env.tally is not None:
            self._env.tally.count_sent_mixed(ids, total)
        return 0, encode_mixed(ids, sequences, sizes, payloads)

    def _primary(self) -> GroupSender:
        assert self.outbox.primary is not None
        return self.outbox.primary

    @staticmethod
    def _cut(groups: list[GroupSender] | None, sizes: list[int], room: int) -> int:
        """Return how many of the first messages fit into a packet."""
        uniform = sizes.count(sizes[0]) == len(sizes)
        single = groups is None or groups.count(groups[0]) == len(groups)
        each = (0 if single else PER_MESSAGE_MIXED) + (0 if uniform else PER_MESSAGE_SIZE)
        if single:
            room -= OVERHEAD_SINGLE - OVERHEAD_MIXED
        used = 0
        for place, size in enumerate(sizes):
            used += size + each
            if used > room:
                return place
        return len(sizes)

    def _echo_run(self, group: GroupSender, first: int, payloads: list[bytes]) -> None:
        env = self._env
        messages = Messages(env.node, self._batch, payloads, group.id, first)  # type: ignore[arg-type]
        env.deliver(messages)

    # Large messages

    def _may_fragment(self, group: GroupSender) -> bool:
        """Whether a large message can begin; else wait for those of other lanes.

        Receivers put together one at a time of each stream: with several of them halfway,
        and room for none to become whole, nobody would get on.
        """
        assert group.streams is not None
        for stream in group.streams:
            other = self._commitments.find_fragmenting(stream)
            if other is not None:
                # Not for the stream: that one is open, and would be asked again and again.
                other._held_up[self] = None
                self.is_blocked = True
                return False
        return True

    def _end_large(self) -> LargeMessage | None:
        """Nothing more of a large message is to come: return it; others may begin theirs."""
        job, self.large = self.large, None
        for lane in self._held_up:
            lane.is_blocked = False
        self._held_up.clear()
        return job

    def _begin_fragments(self, group: GroupSender, payload: bytes) -> None:
        assert group.streams is not None
        sequence = group.next_sequence
        group.next_sequence = sequence + 1
        self._account(1, len(payload), group)
        if group.echo:
            self._echo_run(group, sequence, [payload])
        packet_bytes = self._env.config.packet_bytes
        self.large = LargeMessage(group, sequence, payload, self._batch, packet_bytes)

    def _poll_fragments(self, now: float) -> Transmit | None:
        """Send the next pieces on the streams the message was committed to."""
        env = self._env
        job = self.large
        assert job is not None
        job.drop_ended_streams()
        if not job.streams:
            self._end_large()
            self._commitments.handle_unheard()
            return self.poll(now)
        if not self._all_open(job.streams, now):
            return None
        burst = max(1, BURST_BYTES // env.config.packet_bytes)
        runs, joint = job.commit_pieces(env, burst, now, self._all_open)
        if job.is_committed():
            self._end_large()
            self._commitments.handle_fragmented(job.group, job.streams)
        for stream, packets in runs.items():
            env.counters.sent_packets += len(packets)
            self._commitments.handle_committed(stream, now)
            for destination in stream.destinations if packets else ():
                self._ready.append(Transmit(destination, packets))
        if joint is not None:
            self._ready.append(joint)
        if self.on_room:
            self.tell_room()
        return self._ready.popleft() if self._ready else self.poll(now)
