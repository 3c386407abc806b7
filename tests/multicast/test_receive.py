"""Receiving one stream: in order, once, within its budgets, behind its barriers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quicksilver.multicast.counters import Counters
from quicksilver.multicast.receiving.assembly import ASSEMBLIES_MAX
from quicksilver.multicast.receiving.memory import Budget, Room
from quicksilver.multicast.receiving.stream import UNKEPT_LOOKED_AT_MAX, ReceiveStream
from quicksilver.stdx.ranges import RangeSet
from quicksilver.wire.packets import (
    FLAG_FRAGMENT,
    FLAG_SINGLE,
    FLAG_START,
    KIND_DATA,
    KIND_REPAIR,
    SEQUENCE_MAX,
    Messages,
    Start,
    encode_fragment,
    encode_single,
    encode_start,
    stream_key,
)
from tests.kit.packets import bodies, data_packet

SENDER = 2


class Region:
    """What a stream needs of its region view, and what came out of it."""

    def __init__(
        self, number: int = 4, *, cache: int = 1 << 20, ahead: int = 1 << 20, keeps: int = 1
    ) -> None:
        self.number = number
        self.token_due_bytes = 1 << 30
        self.caches_everything = keeps == 1
        self.counters = Counters()
        self.copies = Budget(cache)
        self.copies_for_absent = Budget(cache // 2)
        self.waiting = Room(ahead)
        self.delivered: list[bytes] = []
        self.activity = 0
        self.tokens_due = 0
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
            assert sorted(stream.cache) == sorted(seen)
        assert region.delivered == names(*range(count))
        assert region.waiting.used == 0
        assert region.counters.duplicates == len(arrivals) - count
        stream.forget_below(count)
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
        region.stream.forget_below(1)
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
        waiting = sum(len(body) for body, _ in region.stream._ahead.values())
        assert waiting * 8 <= 1 << 20

    def test_only_this_nodes_share_is_cached(self) -> None:
        """Cooperative caching: the hierarchy says which packets are whose."""
        region = Region(keeps=3)
        for sequence in range(9):
            region.take(sequence)
        assert sorted(region.stream.cache) == [0, 3, 6]

    def test_stable_copies_are_forgotten(self) -> None:
        """Below what every member has, nobody needs a copy."""
        region = Region()
        for sequence in range(10):
            region.take(sequence)
        region.stream.forget_below(6)
        assert sorted(region.stream.cache) == [6, 7, 8, 9]
        region.stream.forget_below(3)
        assert region.stream.stable == 6

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
        region.stream.forget_below(3)
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
        older, younger = Region(1), Region(2)
        older.waiting = younger.waiting = Room(20_000)
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

    def test_a_stream_is_stuck_when_its_next_packet_stays_away(self) -> None:
        """Not when others are missing, nor while it goes on."""
        region = Region()
        region.take(0)
        region.take(3)
        stream = region.stream
        assert not stream.is_stuck(0.2, 1.0)
        region.take(1)
        assert not stream.is_stuck(0.2, 1.3)
        assert not stream.is_stuck(0.2, 1.4)
        assert stream.is_stuck(0.2, 1.6)
        assert not stream.is_stuck(0.2, 1.7)


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


class TestLargeMessages:
    """Pieces become one message."""

    def test_pieces_in_order_become_the_message(self) -> None:
        """It is delivered whole, with its own number."""
        region = Region()
        region.take_piece(0, 0, 10, 0, b"hello")
        assert region.delivered == []
        region.take_piece(1, 0, 10, 5, b"world")
        assert region.delivered == [b"helloworld"]
        assert len(region.stream._assemblies) == 0

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

    def test_unfinished_messages_are_bounded(self) -> None:
        """A sender that begins and never ends cannot fill the memory."""
        region = Region()
        for number in range(3 * ASSEMBLIES_MAX):
            region.take_piece(number, number, 100, 0, b"begin")
        assert len(region.stream._assemblies) <= ASSEMBLIES_MAX


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
