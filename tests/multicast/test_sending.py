"""Sending: lanes fill packets from what is waiting, streams keep them until acknowledged."""

from __future__ import annotations

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.core.ports import Transmit
from quicksilver.multicast.config import EngineConfig
from quicksilver.multicast.counters import Counters
from quicksilver.multicast.receiving.memory import Budget
from quicksilver.multicast.sending.group import GroupSender
from quicksilver.multicast.sending.lane import Lane
from quicksilver.multicast.sending.stream import SendStream
from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.packets import (
    HEADER_BYTES,
    KIND_HYBRID,
    KIND_REPAIR,
    POSITION,
    Body,
    Fragment,
    Messages,
    Start,
    hybrid_body,
    parse_body,
    parse_key,
    split_hybrid,
)

NODE = 9


class Host:
    """An engine as lanes see it."""

    def __init__(self, **config: int) -> None:
        self.batch = 5
        self.config = EngineConfig(**({"packet_bytes": 1400} | config))  # type: ignore[arg-type]
        self.counters = Counters()
        self.tally = None
        self.node = NODE
        self.ready: deque[Transmit] = deque()
        self.echoed: list[Messages] = []
        self.before: list[tuple[int, int, int]] = []
        self.all_streams: list[SendStream] = []
        self.lanes: list[Lane] = []

    def lane(self) -> Lane:
        lane = Lane(self, self)  # type: ignore[arg-type]  # no more is asked of either here
        self.lanes.append(lane)
        return lane

    def find_fragmenting(self, stream: SendStream) -> Lane | None:
        return next((lane for lane in self.lanes if lane.fragments_left(stream)), None)

    def deliver(self, messages: Messages) -> None:
        self.echoed.append(messages)

    def predecessors(self, stream: SendStream) -> list[tuple[int, int, int]]:
        return self.before

    def handle_committed(self, stream: SendStream, now: float) -> None:
        pass

    def handle_fragmented(self, group: GroupSender, streams: tuple[SendStream, ...]) -> None:
        pass

    def handle_unheard(self) -> None:
        pass

    def stream(self, region: int = 1, view: int = 1, unicast: int = 0) -> SendStream:
        destinations = (
            tuple((f"10.0.0.{i + 1}", 7000) for i in range(unicast))
            if unicast
            else ((f"239.0.0.{region}", 7400),)
        )
        stream = SendStream(
            cluster=1,
            node=NODE,
            region=region,
            view=view,
            members=(1, 2, 3),
            destinations=destinations,
            config=self.config,
            counters=self.counters,
            kept=Budget(1 << 20),
        )
        self.all_streams.append(stream)
        return stream

    def group(self, number: int, lane: Lane, *streams: SendStream) -> GroupSender:
        group = GroupSender(f"g{number}", lane)
        group.id = number
        group.streams = streams
        lane.outbox.attach(group)
        return group


def enqueue(sender: GroupSender, *payloads: bytes) -> None:
    """Queue messages as an application thread does."""
    lane = sender.lane
    for payload in payloads:
        lane.outbox.put(sender, payload)
        lane.room -= len(payload)


def drain(lane: Lane, *, acknowledge: bool = True) -> list[Transmit]:
    """Poll until nothing comes; acknowledge when the lane waits for that, if asked to."""
    found: list[Transmit] = []
    while True:
        while (transmit := lane.poll(0.0)) is not None:
            found.append(transmit)
        waiting = [s for s in lane._commitments.all_streams if lane in s.waiting]
        if not acknowledge or not any(stream.packets for stream in waiting):
            return found
        for stream in waiting:
            stream.waiting.clear()
            acknowledge_all(stream)


def acknowledge_all(stream: SendStream) -> None:
    stream.handle_ack(stream.next_sequence, RangeSet(), 0)


def opened(packet: bytes) -> tuple[int, int, Body]:
    """Return (region, sequence, body) of a data packet."""
    sequence, batch = POSITION.unpack_from(packet, 20)
    _, sender, region, _ = parse_key(packet[4:20])
    body = parse_body(packet, packet[2], sender, batch)  # type: ignore[arg-type]
    assert body is not None
    return region, sequence, body


def messages(transmits: list[Transmit], region: int = 1) -> list[tuple[int, int, bytes]]:
    """Return (group, sequence, payload) of what a region got, in order, pieces joined."""
    found = []
    pieces: dict[tuple[int, int], bytes] = {}
    for transmit in transmits:
        for packet in transmit.packets:
            where, _, body = opened(packet)
            if where != region:
                continue
            if isinstance(body, Messages):
                if body.group is not None:
                    found += [(body.group, body.first + i, p) for i, p in enumerate(body.payloads)]
                else:
                    found += list(zip(body.groups, body.sequences, body.payloads, strict=True))
            elif isinstance(body, Fragment):
                name = (body.group, body.sequence)
                assert body.offset == len(pieces.get(name, b""))
                pieces[name] = pieces.get(name, b"") + body.chunk
                if len(pieces[name]) == body.total:
                    found.append((*name, pieces.pop(name)))
    assert not pieces
    return found


def packets(transmits: list[Transmit]) -> list[bytes]:
    return [packet for transmit in transmits for packet in transmit.packets]


sizes = st.one_of(st.integers(0, 60), st.integers(0, 3000), st.just(1344), st.just(1345))


def test_lanes_that_share_a_stream_do_not_overtake_each_other() -> None:
    """A group over two regions has committed its packets and sent only one of them."""
    host = Host()
    wide, narrow = host.lane(), host.lane()
    first, second = host.stream(1), host.stream(2)
    enqueue(host.group(1, wide, first, second), b"to both")
    enqueue(host.group(2, narrow, second), b"to one of them")
    left = [lane.poll(0.0) for lane in (wide, narrow, wide, narrow, wide, narrow, wide)]
    packets = [p for transmit in left if transmit is not None for p in transmit.packets]
    numbers = [POSITION.unpack_from(p, 20)[0] for p in packets if p[4:20] == second.key]
    assert numbers == sorted(numbers)
    assert len(numbers) >= 3


class TestPacking:
    """Fill packets from what is waiting, never wait to fill them."""

    @settings(max_examples=120)
    @given(st.lists(st.tuples(st.integers(1, 3), sizes), max_size=80), st.integers(200, 3000))
    def test_any_messages_arrive_whole_in_order_in_packets_that_are_not_too_large(
        self, sent: list[tuple[int, int]], packet_bytes: int
    ) -> None:
        """FIFO, contiguous numbers a group, and the datagram limit, for any sizes."""
        host = Host(packet_bytes=packet_bytes)
        lane = host.lane()
        stream = host.stream()
        groups = {number: host.group(number, lane, stream) for number in (1, 2, 3)}
        streams = groups[1].streams
        for group in groups.values():
            group.streams = streams
        for turn, (number, size) in enumerate(sent):
            enqueue(groups[number], (b"%d" % turn).ljust(size, b".")[:size])
        out = drain(lane)
        assert all(len(packet) <= packet_bytes for packet in packets(out))
        counts = {1: 0, 2: 0, 3: 0}
        expected = []
        for turn, (number, size) in enumerate(sent):
            expected.append((number, counts[number], (b"%d" % turn).ljust(size, b".")[:size]))
            counts[number] += 1
        assert messages(out) == expected
        assert [opened(packet)[1] for packet in packets(out)] == list(range(len(packets(out))))
        assert lane.queued_bytes() == 0
        assert host.counters.sent_messages == len(sent)

    def test_packets_are_full_when_much_is_waiting(self) -> None:
        """One system call costs as much as ten messages: packets must be filled."""
        host = Host(packet_bytes=1400)
        lane = host.lane()
        group = host.group(1, lane, host.stream())
        enqueue(group, *[bytes(100)] * 1300)
        out = packets(drain(lane))
        assert len(out) <= 1 + 1300 / 13 * 1.1
        assert sorted(map(len, out))[len(out) // 2] > 1300

    def test_a_single_message_does_not_wait(self) -> None:
        """A packet leaves with what there is."""
        host = Host()
        lane = host.lane()
        enqueue(host.group(1, lane, host.stream()), b"alone")
        assert messages(drain(lane)) == [(1, 0, b"alone")]

    def test_nothing_is_committed_before_the_socket_asks(self) -> None:
        """A message is committed to the view of the moment in which it is packed."""
        host = Host()
        lane = host.lane()
        old, new = host.stream(view=1), host.stream(view=2)
        group = host.group(1, lane, old)
        enqueue(group, b"late")
        group.streams = (new,)
        drain(lane)
        assert old.next_sequence == 0
        assert new.next_sequence == 2

    def test_the_first_packet_of_a_stream_names_its_predecessors(self) -> None:
        """Receivers deliver what came before, before."""
        host = Host()
        host.before = [(1, 1, 17)]
        lane = host.lane()
        enqueue(host.group(1, lane, host.stream(view=2)), b"first")
        region, sequence, body = opened(packets(drain(lane))[0])
        assert (region, sequence) == (1, 0)
        assert isinstance(body, Start)
        assert body.after == ((1, 1, 17),)


class TestRegions:
    """One message, every region of its group."""

    def test_every_region_gets_every_message_under_its_own_numbers(self) -> None:
        """A message to a group is sent once per region that the group spans (4.2.1 B)."""
        host = Host()
        lane = host.lane()
        group = host.group(1, lane, host.stream(1), host.stream(2))
        enqueue(group, *[b"%d" % i for i in range(300)])
        out = drain(lane)
        assert messages(out, 1) == messages(out, 2) == [(1, i, b"%d" % i) for i in range(300)]
        destinations = {transmit.destination[0] for transmit in out}
        assert destinations == {"239.0.0.1", "239.0.0.2"}

    def test_a_packet_never_mixes_messages_for_different_regions(self) -> None:
        """A mixed lane cuts where the set of regions changes, and keeps the order."""
        host = Host()
        lane = host.lane()
        lane.is_mixed = True
        one, two = host.stream(1), host.stream(2)
        here, there = host.group(1, lane, one), host.group(2, lane, two)
        for turn in range(60):
            enqueue(here if turn // 4 % 2 else there, b"%d" % turn)
        out = drain(lane)
        assert [group for group, _, _ in messages(out, 1)] == [1] * 28
        assert [group for group, _, _ in messages(out, 2)] == [2] * 32
        for region in (1, 2):
            numbers = [int(payload) for _, _, payload in messages(out, region)]
            assert numbers == sorted(numbers)

    def test_unicast_fan_out_sends_the_same_packets_to_every_member(self) -> None:
        """Where there is no IP multicast, the region channel is a copy each."""
        host = Host()
        lane = host.lane()
        enqueue(host.group(1, lane, host.stream(unicast=3)), *[bytes(500)] * 10)
        out = drain(lane)
        by_member: dict[str, list[bytes]] = {}
        for transmit in out:
            by_member.setdefault(transmit.destination[0], []).extend(transmit.packets)
        assert len(by_member) == 3
        first, *others = by_member.values()
        assert all(other == first for other in others)

    def test_hybrid_groups_send_one_packet_with_all_headers(self) -> None:
        """ "A complete set of per-region headers, using a per-group address" (4.2.1 B)."""
        host = Host()
        lane = host.lane()
        one, two = host.stream(1), host.stream(2)
        group = host.group(1, lane, one, two)
        group.hybrid = ("239.9.9.9", 7400)
        enqueue(group, b"x", b"y")
        hybrid = [t for t in drain(lane) if t.packets[0][1] == KIND_HYBRID]
        assert [transmit.destination[0] for transmit in hybrid] == ["239.9.9.9"]
        packet = hybrid[0].packets[0]
        heads = split_hybrid(packet)
        assert heads is not None
        for (key, head), stream in zip(heads, (one, two), strict=True):
            assert key == stream.key
            assert head + hybrid_body(packet) == stream.packets[1]

    def test_pieces_of_large_messages_are_hybrid_while_the_view_lasts(self) -> None:
        """In a later view nobody may listen there; pieces keep their length all the same."""
        host = Host(packet_bytes=1400)
        lane = host.lane()
        one, two = host.stream(1), host.stream(2)
        group = host.group(1, lane, one, two)
        group.hybrid = ("239.9.9.9", 7400)
        enqueue(group, bytes(200_000))
        pieces: list[Transmit] = []
        while not pieces:
            pieces = [
                t for t in [lane.poll(0.0)] if t is not None and t.packets[0][1] == KIND_HYBRID
            ]
        (joint,) = pieces
        assert joint.destination == group.hybrid
        assert max(map(len, joint.packets)) <= 1400
        left = lane.fragments_left(one)
        heads = [split_hybrid(packet) for packet in joint.packets]
        for number, stream in enumerate((one, two)):
            kept = [stream.packets[place] for place in sorted(stream.packets)][1:]
            assert kept == [
                found[number][1] + hybrid_body(packet)
                for found, packet in zip(heads, joint.packets, strict=True)
                if found is not None
            ]
        sent = one.next_sequence
        group.streams = (host.stream(3), two)
        rest = drain(lane)
        assert KIND_HYBRID not in {packet[1] for each in rest for packet in each.packets}
        assert one.next_sequence == sent + left

    def test_a_group_of_nobody_is_delivered_to_nobody(self) -> None:
        """Its messages leave the queue, numbered, and block no others."""
        host = Host()
        lane = host.lane()
        lane.is_mixed = True
        empty, full = host.group(1, lane), host.group(2, lane, host.stream())
        enqueue(empty, b"a", b"b")
        enqueue(full, b"c")
        assert messages(drain(lane)) == [(2, 0, b"c")]
        assert empty.next_sequence == 2
        assert lane.queued_bytes() == 0

    def test_a_group_whose_view_is_unknown_waits(self) -> None:
        """Nothing is lost between ``send`` and the first view."""
        host = Host()
        lane = host.lane()
        group = host.group(1, lane)
        group.streams = None
        enqueue(group, b"early")
        assert lane.poll(0.0) is None
        assert lane.is_blocked
        group.streams = (host.stream(),)
        assert messages(drain(lane)) == [(1, 0, b"early")]


class TestLargeMessages:
    """Messages larger than a packet."""

    def test_pieces_fill_packets_and_respect_the_window(self) -> None:
        """A large message does not overrun receivers."""
        host = Host(window_bytes_initial=20_000)
        lane = host.lane()
        stream = host.stream()
        group = host.group(1, lane, stream)
        enqueue(group, b"before", bytes(100_000), b"after")
        first = drain(lane, acknowledge=False)
        assert stream.flow.window.pending_bytes < 20_000 + 2 * 1400
        acknowledge_all(stream)
        rest = drain(lane)
        assert messages(first + rest) == [
            (1, 0, b"before"),
            (1, 1, bytes(100_000)),
            (1, 2, b"after"),
        ]
        assert all(len(packet) <= 1400 for packet in packets(first + rest))

    def test_one_is_under_way_in_a_stream_at_a_time(self) -> None:
        """Receivers have room for one of each stream; small ones go on meanwhile."""
        host = Host(window_bytes_initial=20_000)
        one, other = host.lane(), host.lane()
        stream = host.stream()
        group, late = host.group(1, one, stream), host.group(2, other, stream)
        enqueue(group, bytes(100_000))
        enqueue(late, b"small", bytes(50_000), b"last")
        found = drain(one, acknowledge=False)
        acknowledge_all(stream)
        meanwhile = drain(other, acknowledge=False)
        assert messages(meanwhile) == [(2, 0, b"small")]
        found += meanwhile
        assert other.is_blocked
        # The stream is open: who waited for it would be woken again and again.
        assert other not in stream.waiting
        assert not other.is_empty()
        while not one.is_empty():
            assert other.is_blocked
            acknowledge_all(stream)
            found += drain(one, acknowledge=False)
        assert not other.is_blocked
        while not other.is_empty():
            acknowledge_all(stream)
            found += drain(other, acknowledge=False)
        assert messages(found) == [
            (2, 0, b"small"),
            (1, 0, bytes(100_000)),
            (2, 1, bytes(50_000)),
            (2, 2, b"last"),
        ]

    def test_a_message_that_just_fits_is_not_cut(self) -> None:
        """The limit is the packet's, to the byte."""
        host = Host()
        lane = host.lane()
        group = host.group(1, lane, host.stream())
        largest = 1400 - HEADER_BYTES - 20
        enqueue(group, bytes(largest))
        bodies = [opened(packet)[2] for packet in packets(drain(lane))]
        assert [type(body) for body in bodies] == [Start, Messages]


class TestEcho:
    """A member hears its own messages if it asks to."""

    def test_own_messages_come_back_in_order_with_their_numbers(self) -> None:
        """As others see them."""
        host = Host()
        lane = host.lane()
        lane.has_echo = True
        group, silent = (host.group(n, lane, host.stream()) for n in (1, 2))
        silent.streams = group.streams
        group.echo = True
        for i in range(5):
            enqueue(group, b"%d" % i)
            enqueue(silent, b"no")
        enqueue(group, bytes(5000))
        drain(lane)
        heard = [(m.group, m.first + i) for m in host.echoed for i in range(len(m))]
        assert heard == [(1, i) for i in range(6)]


class TestFlow:
    """A lane that cannot send waits; it does not lose."""

    def test_a_full_window_blocks_and_an_acknowledgement_opens(self) -> None:
        """Overload shows as back-pressure."""
        host = Host(window_bytes_initial=10_000)
        lane = host.lane()
        stream = host.stream()
        group = host.group(1, lane, stream)
        enqueue(group, *[bytes(1000)] * 50)
        out = drain(lane, acknowledge=False)
        assert lane.is_blocked
        assert lane in stream.waiting
        assert stream.flow.window.pending_bytes < 12_000
        acknowledge_all(stream)
        out += drain(lane)
        assert len(messages(out)) == 50

    def test_the_queue_tells_once_when_it_has_room_again(self) -> None:
        """Senders that wait are woken when half the queue is free."""
        host = Host(queue_bytes_max=10_000)
        lane = host.lane()
        group = host.group(1, lane, host.stream())
        told: list[int] = []
        enqueue(group, *[bytes(1000)] * 12)
        assert lane.room < 0
        lane.on_room.append(lambda: told.append(1))
        drain(lane)
        assert told == [1]
        assert lane.room == 10_000

    def test_sources_are_asked_just_before_a_packet_leaves(self) -> None:
        """The pull form: the application makes the message at the last moment."""
        host = Host()
        lane = host.lane()
        group = host.group(1, lane, host.stream())
        supply = [b"%05d" % i for i in range(50_000)]
        asked: list[int] = []

        def source() -> bytes | None:
            asked.append(1)
            return supply.pop(0) if supply else None

        lane.sources.append((group, source))
        first = lane.poll(0.0)
        assert first is not None
        assert 0 < len(asked) < 50_000
        assert lane.outbox.count() == 0, "what was asked for left at once"
        out = drain(lane)
        assert not supply
        assert not lane.sources
        assert len(messages(out)) > 0

    def test_a_stream_does_not_run_too_far_past_a_hole(self) -> None:
        """Receivers keep what follows a hole: that span is bounded."""
        host = Host(span_bytes_max=70 * 1400, window_bytes_initial=64 << 20)
        lane = host.lane()
        stream = host.stream()
        enqueue(host.group(1, lane, stream), *[bytes(1200)] * 500)
        drain(lane, acknowledge=False)
        assert stream.next_sequence <= 71 + 60_000 // 1400


def filled(host: Host, count: int) -> SendStream:
    """Return a stream with that many packets sent."""
    stream = host.stream()
    for _ in range(count):
        stream.commit(0, [b"x" * 64], 1, 0.0)
    return stream


class TestAcknowledgement:
    """A packet is kept until the whole region has it."""

    def test_everything_below_low_is_forgotten(self) -> None:
        """And its bytes leave the window."""
        stream = filled(Host(), 10)
        freed = stream.handle_ack(4, RangeSet(), 0)
        assert freed == 4 * 100
        assert sorted(stream.packets) == list(range(4, 10))
        assert stream.flow.window.pending_bytes == 600

    def test_selective_acknowledgement_keeps_only_what_someone_lacks(self) -> None:
        """Below the limit, what is not missing is everywhere."""
        stream = filled(Host(), 10)
        stream.handle_ack(2, RangeSet([(2, 3), (5, 7)]), 8)
        assert sorted(stream.packets) == [2, 5, 6, 8, 9]

    @given(
        st.integers(0, 30),
        st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=6),
        st.integers(0, 40),
    )
    def test_no_acknowledgement_frees_what_someone_lacks(
        self, low: int, holes: list[tuple[int, int]], limit: int
    ) -> None:
        """Against the definition, for any report."""
        missing = RangeSet((start, start + length) for start, length in holes)
        stream = filled(Host(), 20)
        stream.handle_ack(low, missing, limit)
        for sequence in range(20):
            has_everybody = sequence < low or (sequence < limit and sequence not in missing)
            assert (sequence not in stream.packets) == has_everybody
        assert stream.flow.window.pending_bytes == 100 * len(stream.packets)

    def test_an_old_acknowledgement_changes_nothing(self) -> None:
        """Reports overtake each other."""
        stream = filled(Host(), 10)
        stream.handle_ack(6, RangeSet(), 6)
        before = sorted(stream.packets)
        stream.handle_ack(2, RangeSet([(2, 4)]), 5)
        assert sorted(stream.packets) == before
        assert stream.low == 6

    def test_a_huge_acknowledgement_is_cheap_and_ends_where_the_stream_does(self) -> None:
        """2**62 packets are not counted one by one."""
        stream = filled(Host(), 10)
        stream.handle_ack(1 << 62, RangeSet([(0, 1 << 62)]), 1 << 62)
        assert not stream.packets
        assert stream.low == 10
        stream.commit(0, [b"next"], 1, 0.0)
        assert sorted(stream.packets) == [10]


class TestResending:
    """The sender resends only what a whole region lost."""

    def test_what_is_asked_for_is_resent_once_as_repair(self) -> None:
        """Asking again at once does not send again."""
        host = Host()
        stream = filled(host, 10)
        assert stream.resend(RangeSet([(3, 5)]), 1.0) == 2
        assert stream.resend(RangeSet([(3, 5)]), 1.001) == 0
        found = []
        while (transmit := stream.poll(1.0)) is not None:
            found += transmit.packets
        assert [POSITION.unpack_from(packet, 20)[0] for packet in found] == [3, 4]
        assert all(packet[1] == KIND_REPAIR for packet in found)
        assert host.counters.resent == 2
        assert stream.resend(RangeSet([(3, 5)]), 2.0) == 2

    def test_what_was_acknowledged_meanwhile_is_not_resent(self) -> None:
        """Repairs are made from the freshest state."""
        stream = filled(Host(), 10)
        stream.resend(RangeSet([(0, 10)]), 1.0)
        stream.handle_ack(8, RangeSet(), 0)
        found = []
        while (transmit := stream.poll(1.0)) is not None:
            found += transmit.packets
        assert [POSITION.unpack_from(packet, 20)[0] for packet in found] == [8, 9]

    @given(st.lists(st.integers(0, 2), min_size=1, max_size=60), st.sampled_from([20, 300, 1000]))
    def test_a_repair_is_the_packet_that_was_sent(self, places: list[int], size: int) -> None:
        """Whether it was kept whole or in parts, of one group or of several."""
        host = Host(window_bytes_initial=64 << 20)
        lane, stream = host.lane(), host.stream()
        groups = [host.group(number, lane, stream) for number in range(1, 4)]
        for turn, place in enumerate(places):
            enqueue(groups[place], b"%d" % (turn % 10) * size)
        sent = packets(drain(lane, acknowledge=False))
        assert stream.flow.window.pending_bytes == sum(map(len, sent))
        stream.resend(RangeSet([(0, len(sent))]), 1.0)
        found = []
        while (transmit := stream.poll(1.0)) is not None:
            found += transmit.packets
        assert [packet[2:] for packet in found] == [packet[2:] for packet in sent]
        acknowledge_all(stream)
        assert stream.flow.window.pending_bytes == 0

    def test_a_huge_request_is_cheap(self) -> None:
        """Nobody can make a sender walk 2**62 numbers."""
        stream = filled(Host(), 10)
        assert stream.resend(RangeSet([(1, 1 << 62)]), 1.0) <= 9

    def test_resends_reach_every_member_by_unicast(self) -> None:
        """Fan-out also repairs."""
        host = Host()
        stream = host.stream(unicast=3)
        stream.commit(0, [b"x"], 1, 0.0)
        stream.commit(0, [b"y"], 1, 0.0)
        stream.resend(RangeSet([(0, 2)]), 1.0)
        found = []
        while (transmit := stream.poll(1.0)) is not None:
            found.append((transmit.destination[0], len(transmit.packets)))
        assert len(found) == 6
        assert len(set(found)) == 3

    def test_without_acknowledgement_the_newest_packet_is_repeated_ever_more_rarely(self) -> None:
        """A region that fell silent hears of packets it never saw."""
        host = Host()
        stream = filled(host, 3)
        waits = []
        for _ in range(8):
            waits.append(stream.probe_s)
            assert stream.probe(0.0)
            transmit = stream.poll(0.0)
            assert transmit is not None
            assert POSITION.unpack_from(transmit.packets[0], 20)[0] == 2
        assert waits == sorted(waits)
        assert waits[-1] == host.config.probe_s_max
        stream.abandon()
        assert not stream.probe(0.0)
        assert stream.flow.window.pending_bytes == 0
