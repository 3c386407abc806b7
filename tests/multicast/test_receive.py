"""Receiving one stream: in order, once, within its budgets, behind its barriers."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.multicast.counters import Counters
from quicksilver.multicast.receiving.assembly import BYTES_MAX_LEAST, AssemblyRoom, bytes_for
from quicksilver.multicast.receiving.lost import UNKEPT_LOOKED_AT_MAX
from quicksilver.multicast.receiving.memory import Budget, Room
from quicksilver.multicast.receiving.stream import ReceiveStream
from quicksilver.stdx.patience import Patience
from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.packets import (
    FLAG_FRAGMENT,
    FLAG_SINGLE,
    FLAG_START,
    KIND_DATA,
    KIND_REPAIR,
    MESSAGE_BYTES_MAX,
    SEQUENCE_MAX,
    Messages,
    Start,
    encode_fragment,
    encode_mixed,
    encode_single,
    encode_start,
    stream_key,
)
from tests.kit.packets import bodies, data_packet

SENDER = 2


class Region:
    """What a stream needs of its region view, and what came out of it."""

    def __init__(
        self,
        number: int = 4,
        *,
        cache: int = 1 << 20,
        ahead: int | Room = 1 << 20,
        keeps: int = 1,
        assembly: AssemblyRoom | None = None,
    ) -> None:
        self.number = number
        self.token_due_bytes = 1 << 30
        self.caches_everything = keeps == 1
        self.counters = Counters()
        self.copies = Budget(cache)
        self.copies_for_absent = Budget(cache // 2)
        self.waiting = ahead if isinstance(ahead, Room) else Room(ahead)
        self.assembly = assembly or AssemblyRoom(BYTES_MAX_LEAST)
        self.delivered: list[bytes] = []
        self.activity = 0
        self.tokens_due = 0
        self.holes = 0
        self.repair_patience = Patience(0.03, least_s=0.008, most_s=0.25)
        self.after: dict[tuple[int, int], ReceiveStream] = {}
        self._keeps = keeps
        key = stream_key(1, SENDER, 3, number)
        self.stream = ReceiveStream(key, SENDER, self)  # type: ignore[arg-type]  # plain int

    def deliver(self, messages: Messages) -> None:
        self.delivered += messages.payloads

    def is_mine_to_keep(self, sequence: int) -> bool:
        return sequence % self._keeps == 0

    def handle_activity(self, stream: ReceiveStream, now: float) -> None:
        self.activity += 1

    def handle_repeat(self, stream: ReceiveStream, now: float) -> None:
        self.activity += 1

    def handle_bytes_due(self, now: float) -> None:
        self.tokens_due += 1
        self.token_due_bytes = 1 << 30

    def handle_hole(self, lost_at: float) -> None:
        self.holes += 1

    def handle_sample(self, stream: ReceiveStream, sequence: int, now: float) -> None:
        pass

    def handle_start(self, stream: ReceiveStream, start: Start) -> None:
        for region, view, packets in start.after:
            older = self.after.get((region, view))
            if older is not None:
                stream.wait_for(older, packets)

    def take(self, sequence: int, *, kind: int = KIND_DATA, payload: bytes | None = None) -> None:
        """Let the packet with one message, its own number, arrive."""
        payload = b"%d" % sequence if payload is None else payload
        parts = encode_single(6, sequence, [len(payload)], [payload])
        self.stream.handle_packet(
            data_packet(FLAG_SINGLE, parts, key=self.stream.key, sequence=sequence, kind=kind), 1.0
        )

    def open(self, *after: tuple[int, int, int]) -> None:
        """Let the stream's first packet arrive."""
        packet = data_packet(FLAG_START, encode_start(after), key=self.stream.key, sequence=0)
        self.stream.handle_packet(packet, 1.0)

    def take_piece(self, sequence: int, number: int, total: int, offset: int, chunk: bytes) -> None:
        parts = encode_fragment(6, number, total, offset, chunk)
        self.stream.handle_packet(
            data_packet(FLAG_FRAGMENT, parts, key=self.stream.key, sequence=sequence), 1.0
        )


def names(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


class TestOrder:
    """Whatever the network does, the application sees a sequence."""

    @settings(max_examples=150)
    @given(st.data(), st.integers(1, 25))
    def test_any_order_duplication_and_loss_delivers_each_once_in_order(
        self, data: st.DataObject, count: int
    ) -> None:
        """Against a model that is a set of numbers."""
        region = Region()
        stream = region.stream
        arrivals = data.draw(st.lists(st.integers(0, count - 1), max_size=60))
        arrivals += data.draw(st.permutations(range(count)))
        seen: set[int] = set()
        for sequence in arrivals:
            region.take(sequence, kind=data.draw(st.sampled_from((KIND_DATA, KIND_REPAIR))))
            seen.add(sequence)
            low = next(n for n in range(count + 1) if n not in seen)
            high = max(seen) + 1
            assert (stream.low, stream.high) == (low, high)
            assert stream.missing.values(count) == [n for n in range(high) if n not in seen]
            assert region.delivered == names(*range(low))
            assert sorted(stream.copies.packets) == sorted(seen)
        assert region.delivered == names(*range(count))
        assert region.waiting.used == 0
        assert region.counters.duplicates == len(arrivals) - count
        stream.copies.forget_below(count)
        assert region.copies.used == 0
        assert stream.is_settled()

    def test_a_gap_is_reported_missing_and_the_rest_waits(self) -> None:
        """FIFO: nothing is delivered past a hole."""
        region = Region()
        for sequence in (0, 1, 4, 5):
            region.take(sequence)
        assert region.delivered == names(0, 1)
        assert list(region.stream.missing) == [(2, 4)]
        assert region.counters.missing == 2

    def test_bytes_are_counted_whether_or_not_a_packet_had_to_wait(self) -> None:
        """Packets held behind a gap, or behind an older stream, count once delivered."""
        in_order, repaired, older = Region(), Region(), Region(3)
        for sequence in (0, 1, 2):
            in_order.take(sequence)
        for sequence in (2, 1):
            repaired.take(sequence)
        assert repaired.counters.delivered_bytes == 0
        repaired.take(0, kind=KIND_REPAIR)
        assert repaired.counters.delivered_bytes == in_order.counters.delivered_bytes > 0

        barred = Region()
        barred.stream.wait_for(older.stream, 1)
        for sequence in (0, 1, 2):
            barred.take(sequence)
        assert barred.counters.delivered_bytes == 0
        older.take(0)
        assert barred.counters.delivered_bytes == in_order.counters.delivered_bytes
        assert barred.waiting.used == repaired.waiting.used == 0

    def test_a_repeated_packet_brings_the_stream_back_into_the_token(self) -> None:
        """The sender repeats itself because it has heard no acknowledgement."""
        region = Region()
        region.take(0)
        region.stream.copies.forget_below(1)
        region.stream.quiet_rounds = 3
        before = region.activity
        region.take(0)
        assert region.activity == before + 1
        assert region.delivered == names(0)
        region.stream.quiet_rounds = 3
        region.take(0, kind=KIND_REPAIR)
        assert region.activity == before + 1

    def test_enough_bytes_ask_for_a_token(self) -> None:
        """Feedback is per byte, not per second."""
        region = Region()
        region.token_due_bytes = 150
        region.take(0, payload=bytes(100))
        assert region.tokens_due == 1

    def test_a_quiet_stream_says_so_when_it_wakes(self) -> None:
        """Its record returns to the token with the next packet."""
        region = Region()
        region.take(0)
        assert region.activity == 1
        region.take(1)
        assert region.activity == 1
        region.stream.quiet_rounds = 2
        region.take(2)
        assert region.activity == 2


class TestBudgets:
    """Memory is bounded by configuration, whatever arrives."""

    def test_packets_ahead_of_a_hole_stop_at_their_budget(self) -> None:
        """What does not fit is dropped, known to be missing, and repaired later."""
        region = Region(ahead=1000)
        for sequence in range(1, 30):
            region.take(sequence, payload=bytes(100))
        assert region.waiting.used <= 1000
        dropped = region.counters.ahead_dropped
        assert dropped > 0
        assert region.stream.high == 30
        assert region.stream.missing.count() == 1 + dropped
        region.take(0)
        for sequence in list(region.stream.missing.values(100)):
            region.take(sequence, payload=bytes(100))
        assert len(region.delivered) == 30
        assert region.waiting.used == 0

    def test_copies_for_others_stop_at_their_budget(self) -> None:
        """A packet that is not kept is still delivered."""
        region = Region(cache=1000)
        for sequence in range(30):
            region.take(sequence, payload=bytes(100))
        assert region.copies.used <= 1000
        assert region.counters.cache_refused > 0
        assert len(region.delivered) == 30

    def test_what_waits_behind_a_barrier_is_charged_to_the_budget(self) -> None:
        """Held packets are memory like those ahead of a hole."""
        older, younger = Region(1), Region(2, ahead=2000)
        younger.after[3, 1] = older.stream
        younger.open((3, 1, 5))
        for sequence in range(1, 200):
            younger.take(sequence, payload=bytes(100))
        assert younger.delivered == []
        assert younger.waiting.used <= 2000
        assert younger.stream.low <= 1 + 2000 // 100

    def test_an_empty_packet_ahead_is_charged_what_it_costs(self) -> None:
        """Thousands of empty messages in a small packet must not slip past the budget."""
        region = Region(ahead=100_000)
        count = 4_000
        parts = encode_single(6, 0, [0] * count, [b""] * count)
        for sequence in range(1, 200):
            packet = data_packet(FLAG_SINGLE, parts, key=region.stream.key, sequence=sequence)
            region.stream.handle_packet(packet, 1.0)
        waiting = sum(len(body) for body, _ in region.stream._ahead.packets.values())
        assert waiting * 8 <= 1 << 20

    def test_only_this_nodes_share_is_cached(self) -> None:
        """Cooperative caching: the hierarchy says which packets are whose."""
        region = Region(keeps=3)
        for sequence in range(9):
            region.take(sequence)
        assert sorted(region.stream.copies.packets) == [0, 3, 6]

    def test_stable_copies_are_forgotten(self) -> None:
        """Below what every member has, nobody needs a copy."""
        region = Region()
        for sequence in range(10):
            region.take(sequence)
        region.stream.copies.forget_below(6)
        assert sorted(region.stream.copies.packets) == [6, 7, 8, 9]
        region.stream.copies.forget_below(3)
        assert region.stream.copies.stable == 6

    def test_closing_frees_everything(self) -> None:
        """A region view that is over leaves nothing behind."""
        region = Region()
        for sequence in (0, 1, 3, 4):
            region.take(sequence)
        region.stream.close()
        assert region.copies.used == 0
        assert region.waiting.used == 0


class TestLies:
    """Numbers that cannot be true."""

    @pytest.mark.parametrize("sequence", [SEQUENCE_MAX + 1, (1 << 64) - 1])
    def test_sequences_out_of_range_are_counted_and_dropped(self, sequence: int) -> None:
        """No state changes."""
        region = Region()
        region.take(sequence)
        assert region.counters.malformed == 1
        assert region.stream.high == 0

    def test_what_a_stream_reports_can_be_put_on_the_wire(self) -> None:
        """``high`` is one past the newest packet and must itself be a legal number."""
        region = Region()
        region.take(SEQUENCE_MAX)
        assert region.stream.high <= SEQUENCE_MAX

    def test_the_senders_word_heals_a_huge_gap(self) -> None:
        """After its extent is known, nothing that cannot exist is wanted or kept."""
        region = Region()
        region.take(0)
        region.take(1 << 40)
        region.stream.note_high(1 << 50)
        region.stream.note_extent(3)
        assert region.stream.missing.values(10) == [1, 2]
        assert region.stream.high == 3
        for sequence in (1, 2):
            region.take(sequence)
        region.stream.copies.forget_below(3)
        assert region.delivered == names(0, 1, 2)
        assert region.waiting.used == 0
        assert region.copies.used == 0

    def test_an_extent_does_not_undo_what_has_arrived(self) -> None:
        """A word that came late or lies cannot take packets away."""
        region = Region()
        for sequence in range(5):
            region.take(sequence)
        region.stream.note_extent(2)
        assert (region.stream.low, region.stream.high) == (5, 5)
        region.take(5)
        assert region.delivered == names(*range(6))

    def test_a_body_that_does_not_parse_leaves_the_hole_open(self) -> None:
        """A spoiled packet is not the packet: the true one is still wanted."""
        region = Region()
        region.take(0)
        flags, parts = bodies()["single uniform"]
        spoiled = data_packet(flags, [*parts, b"!"], key=region.stream.key, sequence=1)
        region.stream.handle_packet(spoiled, 1.0)
        region.take(2)
        assert region.stream.missing.values(10) == [1]
        region.take(1)
        assert region.delivered == names(0, 1, 2)
        assert region.counters.malformed == 1


class TestRoom:
    """What waits for an earlier packet is bounded, and so is what is asked for."""

    def test_no_more_is_asked_for_than_can_be_taken(self) -> None:
        """What finds no room is sent in vain, as often as it is asked for."""
        region = Region()
        for sequence in (0, 2, 9):
            region.take(sequence)
        waiting = region.waiting.used // 2
        assert region.stream.askable().values(20) == [1, *range(3, 9)]
        region.waiting.limit = 5 * waiting
        assert region.stream.askable().values(20) == [1, 3]
        region.waiting.limit = 10 * waiting
        assert region.stream.askable().values(20) == [1, 3, 4, 5, 6]

    def test_packets_far_ahead_leave_room_for_near_ones(self) -> None:
        """With late packets alone a stream gets on by one packet a round."""
        region = Region(ahead=20_000)
        region.take(0)
        for sequence in range(200, 300):
            region.take(sequence, payload=bytes(100))
        assert region.waiting.used <= 10_000
        for sequence in range(10, 1, -1):
            region.take(sequence, payload=bytes(100))
        region.take(1)
        assert len(region.delivered) == 11

    def test_what_waits_for_an_older_stream_leaves_room_for_that(self) -> None:
        """Else the older stream, for which it waits, closes its holes one by one."""
        room = Room(20_000)
        older, younger = Region(1, ahead=room), Region(2, ahead=room)
        younger.after[3, 1] = older.stream
        younger.open((3, 1, 5))
        for sequence in range(1, 200):
            younger.take(sequence, payload=bytes(100))
        assert younger.waiting.used <= 10_000
        for sequence in range(4, -1, -1):
            older.take(sequence)
        assert len(older.delivered) == 5
        assert younger.delivered
        assert older.waiting.used == 0
        assert older.waiting.users == 0

    def test_the_next_packet_is_always_asked_for_and_taken(self) -> None:
        """It is delivered at once and needs no room; without it nothing gets any."""
        region = Region()
        region.take(0)
        region.take(2)
        region.waiting.limit = region.waiting.used
        region.take(4)
        assert region.counters.ahead_dropped == 1
        assert region.stream.askable().values(20) == [1]
        region.take(1)
        assert region.delivered == names(0, 1, 2)


class TestCut:
    """A dead sender's stream ends where nobody holds the next packet."""

    def test_a_cut_ends_the_stream_and_frees_what_waited(self) -> None:
        """What is past the lost packet cannot be delivered in order, by anyone."""
        region = Region()
        for sequence in (0, 1, 3):
            region.take(sequence)
        region.stream.cut_at(2)
        region.take(2)
        assert region.delivered == names(0, 1)
        assert region.counters.lost_to_crash == 2
        assert region.waiting.used == 0
        assert not region.stream.missing

    def test_what_lies_before_a_cut_is_still_taken(self) -> None:
        """Only the packet that nobody holds is lost; others have what came before it."""
        region = Region()
        for sequence in (0, 2, 5):
            region.take(sequence)
        region.stream.cut_at(4)
        assert region.stream.missing.values(10) == [1, 3]
        assert not region.stream.is_over()
        region.take(1)
        region.take(3)
        region.take(4)
        assert region.delivered == names(0, 1, 2, 3)
        assert region.stream.is_over()
        assert region.waiting.used == 0

    def test_a_second_loss_ends_the_stream_earlier(self) -> None:
        """The last holder of an older packet may die as well."""
        region = Region()
        for sequence in (0, 2, 5):
            region.take(sequence)
        region.stream.cut_at(4)
        region.stream.cut_at(1)
        assert region.stream.is_over()
        assert not region.stream.missing
        assert region.waiting.used == 0

    def test_a_cut_below_what_was_delivered_takes_nothing_back(self) -> None:
        """Delivered is delivered."""
        region = Region()
        for sequence in range(3):
            region.take(sequence)
        region.stream.cut_at(1)
        assert region.stream.end == 3
        assert region.delivered == names(0, 1, 2)


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (FLAG_START, encode_start([(1 << 20, 1 << 20, 1 << 40)] * 64)),
        (0, encode_mixed([1 << 20] * 100, [1 << 40] * 100, [0] * 100, [b""] * 100)),
        (FLAG_SINGLE, encode_single(1, 0, [1] * 500, [b"x"] * 500)),
        (FLAG_FRAGMENT, encode_fragment(1, 0, 1000, 0, bytes(900))),
    ],
    ids=["start", "mixed", "single", "fragment"],
)
def test_what_waits_is_charged_no_less_than_it_takes(flags: int, parts: list[bytes]) -> None:
    """A START of a thousand bytes takes ten times as many, as objects."""
    region = Region(ahead=1 << 22, cache=0)
    packets = [
        data_packet(flags, parts, key=region.stream.key, sequence=1 + number)
        for number in range(50)
    ]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        while packets:
            # Own bytes: otherwise payloads of equal packets would be counted once.
            region.stream.handle_packet(bytes(bytearray(packets.pop())), 1.0)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert region.stream.low == 0
    assert held <= 1.1 * region.waiting.used


class TestLargeMessages:
    """Pieces become one message."""

    def test_pieces_in_order_become_the_message(self) -> None:
        """It is delivered whole, with its own number."""
        region = Region()
        region.take_piece(0, 0, 10, 0, b"hello")
        assert region.delivered == []
        region.take_piece(1, 0, 10, 5, b"world")
        assert region.delivered == [b"helloworld"]
        assert region.assembly.used == 0

    def test_pieces_out_of_order_on_the_network_are_in_order_here(self) -> None:
        """The stream's sequence is the pieces' order."""
        region = Region()
        region.take_piece(2, 0, 9, 6, b"ghi")
        region.take_piece(0, 0, 9, 0, b"abc")
        region.take_piece(1, 0, 9, 3, b"def")
        assert region.delivered == [b"abcdefghi"]

    def test_a_message_that_began_before_this_node_came_is_not_delivered(self) -> None:
        """Nor is one whose pieces do not fit: it is counted."""
        region = Region()
        region.take_piece(0, 0, 10, 5, b"world")
        assert region.delivered == []
        assert region.counters.malformed == 1

    def test_a_sender_that_begins_and_never_ends_holds_one_message(self) -> None:
        """An honest one has one under way in a stream."""
        region = Region()
        for number in range(50):
            region.take_piece(number, number, 100, 0, b"begin")
        assert region.assembly.used == bytes_for(100)
        assert region.counters.malformed == 49

    def test_pieces_of_one_byte_take_no_more_than_their_message(self) -> None:
        """A list of them took forty times their bytes."""
        region = Region(cache=0)
        total = 20_000
        region.take_piece(0, 0, total, 0, b"x")
        tracemalloc.start()
        try:
            for offset in range(1, total):
                region.take_piece(offset, 0, total, offset, b"x")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert region.delivered == [b"x" * total]
        assert peak < 3 * total + 50_000


class TestRoomForLargeMessages:
    """Unfinished messages of all streams share one budget; past it streams wait."""

    BIG = MESSAGE_BYTES_MAX

    def test_who_finds_no_room_waits_and_loses_nothing(self) -> None:
        """The rest of its stream is held behind it, in order."""
        room = AssemblyRoom(BYTES_MAX_LEAST)
        first, second = Region(1, assembly=room), Region(2, assembly=room)
        first.take_piece(0, 0, self.BIG, 0, bytes(self.BIG - 1))
        second.take_piece(0, 0, 4, 0, b"ab")
        second.take_piece(1, 0, 4, 2, b"cd")
        second.take(2, payload=b"after")
        assert second.delivered == []
        assert second.stream.is_held()
        assert second.counters.assembly_waits == 1
        first.take_piece(1, 0, self.BIG, self.BIG - 1, b"x")
        assert len(first.delivered) == 1
        assert second.delivered == [b"abcd", b"after"]
        assert not second.stream.is_held()
        second.take(3, payload=b"next")
        assert second.delivered[-1] == b"next"
        assert room.used == first.waiting.used == second.waiting.used == 0

    def test_room_is_given_in_the_order_in_which_it_was_asked_for(self) -> None:
        """Small messages that still fit must not keep a large one waiting for ever."""
        room = AssemblyRoom(2 * BYTES_MAX_LEAST - 1)
        regions = [Region(number, assembly=room, ahead=1 << 26) for number in range(4)]
        for region in regions[:2]:
            region.take_piece(0, 0, self.BIG, 0, b"x")
        regions[2].take_piece(0, 0, 4, 0, b"abcd")
        assert regions[2].delivered == []
        regions[3].take_piece(0, 0, 4, 0, b"efgh")
        assert regions[3].delivered == []
        regions[0].stream.close()
        regions[1].take_piece(1, 0, self.BIG, 1, bytes(self.BIG - 1))
        assert [len(region.delivered) for region in regions] == [0, 1, 1, 1]
        assert room.used == 0

    def test_a_piece_that_found_no_room_at_all_is_asked_for_again(self) -> None:
        """Neither among unfinished messages nor among packets that wait: not taken, not
        acknowledged, and so not lost."""
        room = AssemblyRoom(BYTES_MAX_LEAST)
        first, second = Region(1, assembly=room), Region(2, assembly=room, ahead=0)
        first.take_piece(0, 0, self.BIG, 0, b"x")
        second.take_piece(0, 0, 4, 0, b"abcd")
        assert second.stream.low == 0
        assert second.stream.missing.values(9) == [0]
        first.stream.close()
        second.take_piece(0, 0, 4, 0, b"abcd")
        assert second.delivered == [b"abcd"]

    @pytest.mark.parametrize("ending", ["close", "break_off"])
    def test_a_stream_that_ends_gives_its_room_back(self, ending: str) -> None:
        """Whether it held room or waited for some."""
        room = AssemblyRoom(BYTES_MAX_LEAST)
        first, second, third = (Region(number, assembly=room) for number in range(3))
        for region in (first, second, third):
            region.take_piece(0, 0, self.BIG, 0, b"x")
        getattr(second.stream, ending)()
        getattr(first.stream, ending)()
        assert third.stream.assembled_bytes() == 1
        getattr(third.stream, ending)()
        assert room.used == 0
        assert room.next_timeout() is None

    def test_the_dead_give_their_room_back_while_others_wait(self) -> None:
        """Nothing more comes of what a dead sender began."""
        room = AssemblyRoom(BYTES_MAX_LEAST)
        first, second = Region(1, assembly=room), Region(2, assembly=room)
        first.take_piece(0, 0, self.BIG, 0, b"x")
        assert room.next_timeout() is None
        second.take_piece(0, 0, 4, 0, b"abcd")
        assert room.handle_timeout(1.0, 10.0) is None
        assert second.delivered == []
        first.stream.sender_failed = True
        first.stream.copies.forget_below(1)
        assert room.handle_timeout(5.0, 10.0) is None
        assert second.delivered == [b"abcd"]

    def test_who_does_not_go_on_for_too_long_is_named_while_others_wait(self) -> None:
        """A liar holds room for ever; an honest sender goes on, or is excluded before."""
        room = AssemblyRoom(BYTES_MAX_LEAST)
        first, second = Region(1, assembly=room), Region(2, assembly=room)
        first.take_piece(0, 0, self.BIG, 0, b"x")
        second.take_piece(0, 0, 4, 0, b"abcd")
        assert room.handle_timeout(1.0, 10.0) is None
        first.take_piece(1, 0, self.BIG, 1, b"x")
        assert room.handle_timeout(9.0, 10.0) is None
        assert room.handle_timeout(18.9, 10.0) is None
        assert room.handle_timeout(20.0, 10.0) == SENDER

    @given(st.data())
    @settings(max_examples=60, deadline=None)
    def test_any_interleaving_delivers_every_message_and_stays_within_the_limit(
        self, data: st.DataObject
    ) -> None:
        """Streams with large and small messages and room for one or two of the former."""
        room = AssemblyRoom(BYTES_MAX_LEAST)
        regions = [Region(number, assembly=room) for number in range(4)]
        scripts: list[list[tuple[int, int, int, bytes]]] = []
        for _ in regions:
            script = []
            for number in range(data.draw(st.integers(1, 3))):
                total = data.draw(st.sampled_from([2, 9_000_000, self.BIG // 2]))
                cut = data.draw(st.integers(1, total - 1))
                body = bytes(total)
                script += [(number, total, 0, body[:cut]), (number, total, cut, body[cut:])]
            scripts.append(script)
        at = [0] * len(regions)
        while any(place < len(script) for place, script in zip(at, scripts, strict=True)):
            turn = data.draw(st.sampled_from([i for i in range(4) if at[i] < len(scripts[i])]))
            regions[turn].waiting.limit = 1 << 40
            regions[turn].take_piece(at[turn], *scripts[turn][at[turn]])
            at[turn] += 1
            assert 0 <= room.used <= room.limit
        for region, script in zip(regions, scripts, strict=True):
            assert [len(found) for found in region.delivered] == [p[1] for p in script[::2]]
        assert room.used == 0


class TestBarriers:
    """A stream that follows others waits until they are delivered."""

    def test_a_stream_that_broke_off_stays_broken_whatever_else_it_waits_for(self) -> None:
        """A START names a broken stream and an unfinished one; what comes after the latter
        comes after a gap all the same."""
        lost, unfinished, broken, both, last = (Region(number) for number in range(1, 6))
        for region in (lost, unfinished, broken, both, last):
            region.stream.sender_failed = True
        broken.after = {(3, 1): lost.stream}
        broken.open((3, 1, 5))
        broken.take(1)
        lost.take(0)
        lost.stream.note_high(5)
        lost.stream.cut_at(1)
        assert broken.stream.is_broken()
        unfinished.take(0)
        both.after = {(3, 3): broken.stream, (3, 2): unfinished.stream}
        both.open((3, 3, 2), (3, 2, 2))
        unfinished.take(1)
        assert both.stream.is_broken()
        last.after = {(3, 4): both.stream}
        last.open((3, 4, 1))
        last.take(1)
        assert last.delivered == []

    def test_a_younger_stream_waits_for_the_older_one(self) -> None:
        """FIFO across a change of views."""
        older, younger = Region(1), Region(2)
        younger.after[3, 1] = older.stream
        order: list[bytes] = []
        older.delivered = younger.delivered = order
        older.take(0)
        younger.open((3, 1, 3))
        younger.take(1, payload=b"young")
        assert order == names(0)
        older.take(1)
        assert order == names(0, 1)
        older.take(2)
        assert order == [*names(0, 1, 2), b"young"]

    def test_the_older_stream_learns_how_long_it_is(self) -> None:
        """A lost tail is known from the opening of the next stream."""
        older, younger = Region(1), Region(2)
        younger.after[3, 1] = older.stream
        younger.open((3, 1, 2))
        assert older.stream.missing.values(10) == [0, 1]

    def test_a_stream_waits_for_all_it_names(self) -> None:
        """Several older views may still be unfinished."""
        first, second, third = Region(1), Region(2), Region(3)
        third.after = {(3, 1): first.stream, (3, 2): second.stream}
        third.open((3, 1, 1), (3, 2, 1))
        third.take(1, payload=b"young")
        first.take(0)
        assert third.delivered == []
        second.take(0)
        assert third.delivered == [b"young"]

    def test_a_chain_of_streams_is_delivered_in_order(self) -> None:
        """What an older stream has received but must itself hold is not delivered yet."""
        first, second, third = Region(1), Region(2), Region(3)
        order: list[bytes] = []
        for region in (first, second, third):
            region.delivered = order
        second.after[3, 1] = first.stream
        third.after = {(3, 1): first.stream, (3, 2): second.stream}
        second.open((3, 1, 1))
        second.take(1, payload=b"second")
        third.open((3, 2, 2))
        third.take(1, payload=b"third")
        assert order == []
        first.take(0, payload=b"first")
        assert order == [b"first", b"second", b"third"]

    def test_a_view_that_is_over_releases_the_younger_stream(self) -> None:
        """What can no longer come blocks nobody."""
        older, younger = Region(1), Region(2)
        younger.after[3, 1] = older.stream
        younger.open((3, 1, 5))
        younger.take(1, payload=b"young")
        assert younger.delivered == []
        older.stream.close()
        assert younger.delivered == [b"young"]
        assert not younger.stream.is_held()


class TestUnkept:
    """What a member says of packets that it is to keep and lacks."""

    def test_only_its_own_are_named(self) -> None:
        region = Region(keeps=3)
        region.take(0)
        region.take(10)
        assert region.stream.unkept() == (RangeSet([(3, 4), (6, 7), (9, 10)]), 11)

    def test_a_long_backlog_limits_nobody(self) -> None:
        """Others go on to ask keepers for what is newer than what one slow member has."""
        region = Region(keeps=3)
        region.take(0)
        region.take(5000)
        region.stream.note_high(6000)
        unkept, limit = region.stream.unkept()
        assert limit == 6000
        assert 5000 not in unkept
        assert {n for n in range(6000) if n not in unkept} >= {0, 1, 2, 4, 5}
        assert unkept.range_count() <= 2 * UNKEPT_LOOKED_AT_MAX
